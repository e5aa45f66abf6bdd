#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The unit tests with assertions and the one-definition rule, all fuzzers for ten
# minutes, an hour of random graphs, an hour of their reproducible bits, 3,000 hostile
# inputs, then the tests that take minutes, and the wheels in fresh environments; the last line is "N passed, N failed".
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
tools/mpc-bench/bits.py --mpc build/bin/mpc --smith build/bin/mpc-smith --fusion --seeds 1 1000 || found=$?
{ tools/wheel.sh && tools/ci/wheel.sh; } || found=$?
cmake --build --preset default --target check-mpc-long
exit "$found"
