#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Installs what is missing, lints, builds, fuzzes for a minute and passes all tests.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/install-deps.sh
tools/ci/lint.sh
tools/ci/build.sh
tools/ci/tidy.sh # needs what a first build writes, so lint may have left it out
tools/ci/fuzz.sh 60
tools/ci/test.sh
