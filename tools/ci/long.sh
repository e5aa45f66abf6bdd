#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Runs the tests that take minutes; the last line is "N passed, N failed".
set -euo pipefail
cd "$(dirname "$0")/../.."
tools/install-deps.sh
tools/ci/build.sh
export CCACHE_SLOPPINESS=pch_defines,time_macros
cmake --build --preset default --target check-mpc-long
