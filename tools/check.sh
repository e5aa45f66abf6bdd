#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Installs dependencies, lints, builds, fuzzes the readers of the runtime for a
# minute each and runs all tests.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/install-deps.sh
tools/ci/lint.sh
tools/ci/build.sh
tools/ci/tidy.sh # needs the output of a build, so lint may have skipped it
tools/ci/fuzz.sh 60 arrays idx tensors executable policy
tools/ci/test.sh
