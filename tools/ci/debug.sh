#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Builds everything in build-debug without optimization and with assertions, and
# runs the unit tests there. Linking fails if a name has two definitions (ODR).
set -euo pipefail
cd "$(dirname "$0")/../.."
tools/install-deps.sh
tools/ci/build.sh debug
python3 test/run_lit.py --lit /usr/lib/llvm-22/bin/lit --results build-debug/test/results.json build-debug/test/unit
