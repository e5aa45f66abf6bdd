#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Times mpc against PyTorch (eager, and compiled with max-autotune under CUDA graphs) and
# JAX in one run on this machine's GPU. Clocks are not changed. Exits with 77 without a
# GPU. usage: bench.sh [PACK=build-gpu/pack.tar.xz] [FOLDER=build-gpu-run] [MINUTES=8]
#
# Runs for MINUTES and exits with 75 if incomplete: call it again. At the end,
# FOLDER/bench.json and FOLDER/bench.md hold all results.
set -euo pipefail
cd "$(dirname "$0")/../.."
archive=${1:-build-gpu/pack.tar.xz}
folder=${2:-build-gpu-run}
minutes=${3:-8}
if ! nvidia-smi -L > /dev/null 2>&1; then
  echo "skipped: nvidia-smi finds no GPU"
  exit 77
fi
start=$SECONDS
device=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -1)
tools/gpu/build-runtime.sh "$archive" "$folder"
exec python3 tools/gpu/bench.py --mpc "$folder/mpc" --pack "$folder/pack" --out "$folder" \
  --device "$device" --seconds $((60 * minutes - (SECONDS - start)))
