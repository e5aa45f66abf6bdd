#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Builds only the runtime with ThreadSanitizer and runs its tests.
# usage: tsan.sh [FOLDER]
set -euo pipefail
cd "$(dirname "$0")/../.."
tools/install-deps.sh
folder=${1:-build-tsan}
cmake -S . -B "$folder" -G Ninja -DMPC_RUNTIME_ONLY=ON -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_C_COMPILER=clang-22 -DCMAKE_CXX_COMPILER=clang++-22 \
  -DCMAKE_CXX_FLAGS="-fsanitize=thread -fno-omit-frame-pointer" \
  -DCMAKE_CXX_FLAGS_RELEASE="-O1 -g1 -DNDEBUG" \
  -DCMAKE_EXE_LINKER_FLAGS="-fuse-ld=lld -fsanitize=thread"
cmake --build "$folder" --target MpcRuntimeTests
# Forked children start threads, which the sanitizer refuses by default.
export TSAN_OPTIONS=halt_on_error=1:ignore_noninstrumented_modules=1:die_after_fork=0
exec "$folder/test/unit/MpcRuntimeTests" --gtest_brief=1
