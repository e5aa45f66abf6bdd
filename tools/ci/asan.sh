#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Builds everything with AddressSanitizer and UndefinedBehaviorSanitizer in
# build-asan and runs all tests there.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools/install-deps.sh
# LLVM's allocators poison free memory in code inlined here but unpoison it in
# the packaged libraries, which are built without the sanitizer.
# Every fiber that emulates a GPU thread would get a second stack, which an
# abandoned fiber leaks.
options=detect_odr_violation=2:allocator_may_return_null=1:allow_user_poisoning=0
export ASAN_OPTIONS=$options:detect_stack_use_after_return=0
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
tools/ci/build.sh asan
cmake --build --preset asan --target check-mpc
