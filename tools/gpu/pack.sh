#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Packs everything that check.sh and bench.sh need on a machine with a GPU but without LLVM
# or a network: compiled models and training steps with stored answers, and the packages to
# build the runtime. usage: pack.sh MODELS [FOLDER=build-gpu] [TARGETS]
#
# MODELS holds model cases (NAME/model.onnx, inputs.npz, expected.npz). Needs build/bin/mpc.
# Writes FOLDER/pack.tar.xz, at most 45 MiB.
set -euo pipefail
cd "$(dirname "$0")/../.."
if [ $# -lt 1 ]; then
  sed -n '3,9p' "$0"
  exit 2
fi
models=$(realpath "$1")
folder=${2:-build-gpu}
mpc=build/bin/mpc
targets=${3:-cuda:sm_80,cuda:sm_90a}
pack=$folder/pack
limit=$((45 * 1024 * 1024))
rm -rf "$pack"
mkdir -p "$pack/models" "$pack/steps" "$pack/bench" "$pack/training" "$pack/sysroot"

tools/gpu/pack-models.sh "$models" "$pack/models" "$targets"

python3 tools/gpu/workloads.py "$pack/bench"
for text in "$pack"/bench/*.mlir; do
  for gemm in library own; do
    $mpc compile "$text" --target "$targets" --gemm "$gemm" -o "${text%.mlir}.$gemm.mpcx" \
      > /dev/null
  done
done
python3 tools/gpu/training.py models "$pack/training"
for text in "$pack"/training/*.mlir; do
  flags=$(cat "${text%.mlir}.flags")
  for policy in mixed_float16 mixed_bfloat16; do
    for gemm in library own; do
      case $(basename "$text"),$gemm in g11-*,library) continue ;; esac
      echo "$(basename "$text" .mlir), $policy, $gemm" >&2
      $mpc compile "$text" --training "$flags" --policy "$policy" --target "$targets" \
        --gemm "$gemm" -o "${text%.mlir}.$policy.$gemm.mpcx" > /dev/null
    done
  done
done
tools/gpu/pack-steps.sh "$pack/steps" "$targets"
if [ -f "$models/make_models.py" ]; then
  cp "$models/make_models.py" "$pack/bench/"
fi

# Packages, path by path.
packages=(libcli11-dev nlohmann-json3-dev nettle-dev libnettle8 libzip-dev libzip4 libbz2-1.0
  libssl3 zlib1g libgtest-dev pkgconf pkgconf-bin libpkgconf3)
for package in "${packages[@]}"; do
  dpkg -L "$package" 2>/dev/null | while read -r path; do
    case $path in
    /usr/share/doc/* | /usr/share/man/* | *.a) [[ $path == */libg*.a ]] || continue ;;
    esac
    if [ ! -d "$path" ] || [ -L "$path" ]; then
      cp --parents -P "$path" "$pack/sysroot/"
    fi
  done
done
tools/gpu/build-portable.sh "$pack"

tar -C "$folder" -c pack | xz -9e -T1 > "$folder/pack.tar.xz"
size=$(stat -c %s "$folder/pack.tar.xz")
echo "$folder/pack.tar.xz: $size bytes"
if [ "$size" -gt "$limit" ]; then
  echo "the pack takes $size bytes, more than $limit: leave models out" >&2
  exit 1
fi
