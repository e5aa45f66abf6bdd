#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# An hour of random graphs, then the tests that take minutes; the last line is
# "N passed, N failed". What the graphs find lies, reduced, in build/smith.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools/install-deps.sh
tools/ci/build.sh
export CCACHE_SLOPPINESS=pch_defines,time_macros
# Other graphs each day.
found=0
build/bin/mpc-smith --seed "$(date +%Y%m%d)00000" --minutes 60 --failures build/smith || found=$?
cmake --build --preset default --target check-mpc-long
exit "$found"
