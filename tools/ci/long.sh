#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The unit tests with assertions and the one-definition rule, all fuzzers for ten
# minutes, an hour of random graphs, an hour of reproducible bits of models, training
# steps and random graphs, 3,000 hostile inputs, then the tests that take minutes, and the
# wheels in fresh environments; the last line is "N passed, N failed".
# Reduced failing graphs are stored in build/smith, failing hostile inputs in build/hostile.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools/install-deps.sh
tools/ci/build.sh
# Different seeds each day.
found=0
tools/ci/debug.sh || found=$?
tools/ci/fuzz.sh 600 || found=$?
build/bin/mpc-smith --seed "$(date +%Y%m%d)00000" --minutes 60 --failures build/smith || found=$?
tools/ci/hostile.py --seed "$(date +%Y%m%d)" --failures build/hostile || found=$?
# Models and NumPy may be missing.
models=(../shared/models/*/model.onnx)
if [ ! -e "${models[0]}" ] || [ ! -x .venv/python/bin/python ]; then
  models=()
fi
PATH="$PWD/.venv/python/bin:$PATH" tools/mpc-bench/bits.py --mpc build/bin/mpc --smith build/bin/mpc-smith \
  --jobs "$(nproc)" --batch --training --fusion --seeds 1 1000 "${models[@]}" || found=$?
{ tools/wheel.sh && tools/ci/wheel.sh; } || found=$?
cmake --build --preset default --target check-mpc-long
exit "$found"
