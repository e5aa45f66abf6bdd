#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Configures and builds everything. usage: build.sh [PRESET] [TARGET...]
set -euo pipefail
cd "$(dirname "$0")/../.."

preset=${1:-default}
shift || true
folder=build
[ "$preset" = default ] || folder=build-$preset
# Build and test dependencies of the Python package, which is optional, and which
# the program alone does not need.
if [ "$preset" = default ] && [ "$*" != mpc ] && [ ! -d .venv/python ]; then
  { python3 -m venv .venv/python &&
    .venv/python/bin/pip install --quiet --no-compile --retries 1 --timeout 20 \
      nanobind numpy ml_dtypes pytest tensorboardX tqdm tokenizers; } || rm -rf .venv/python
  rm -f "$folder/build.ninja"
fi
# Update the CMake cache if the preset has changed.
[ "$folder/build.ninja" -nt CMakePresets.json ] || cmake --preset "$preset"
cmake --build --preset "$preset" --target "${@:-all}"
