#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Runs every compiled model and training step of the pack on this machine's GPU and compares
# with stored float64 answers; the small ones under compute-sanitizer too. Exits with 77
# where there is no GPU. usage: check.sh [PACK=build-gpu/pack.tar.xz] [FOLDER=build-gpu-run]
# [MINUTES=8]
#
# Works for MINUTES and exits with 75 while something is left: call it again. Writes
# FOLDER/check.jsonl, one line per model and policy. Runs that are in it are not repeated:
# remove it to begin again.
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
