#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Runs every compiled model and training step of the pack on this machine's GPU and compares
# with stored float64 answers; small ones also under compute-sanitizer. Exits with 77
# without a GPU. usage: check.sh [PACK=build-gpu/pack.tar.xz] [FOLDER=build-gpu-run]
# [MINUTES=8]
#
# Runs for MINUTES and exits with 75 if incomplete: call it again. Writes
# FOLDER/check.jsonl, one line per model and policy. Recorded runs are not repeated:
# remove the file to start over.
set -euo pipefail
cd "$(dirname "$0")/../.."
archive=${1:-build-gpu/pack.tar.xz}
folder=${2:-build-gpu-run}
minutes=${3:-8}
start=$SECONDS
if ! nvidia-smi -L > /dev/null 2>&1; then
  echo "skipped: nvidia-smi finds no GPU"
  exit 77
fi
tools/gpu/build-runtime.sh "$archive" "$folder"
exec tools/gpu/check-pack.sh "$folder/pack" "$folder/mpc" "$folder" cuda $((60 * minutes - (SECONDS - start)))
