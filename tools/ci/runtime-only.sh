#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Builds the runtime, libmpc and the mpc that runs .mpcx files as on a machine without LLVM
# and runs their tests; or, with `package`, the Python package without a compiler.
# usage: runtime-only.sh [FOLDER [without-tests | package]]
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=${1:-build-runtime}
target=all
more=()
options=()
case ${2:-} in
without-tests)
  target=mpc
  more=(MpcC)
  ;;
package)
  target=MpcPython
  options=(-DMPC_PYTHON=ON "-DPython_EXECUTABLE=$PWD/.venv/python/bin/python")
  ;;
esac

# An empty mount over LLVM's directory reveals dependences on it. If mounting is
# not permitted, the build commands are searched for its path instead.
if [ -z "${MPC_LLVM_HIDDEN:-}" ] && [ -d /usr/lib/llvm-22 ] &&
    unshare -rm mount -t tmpfs none /usr/lib/llvm-22 2>/dev/null; then
  export MPC_LLVM_HIDDEN=1
  # shellcheck disable=SC2016
  exec unshare -rm bash -c 'mount -t tmpfs none /usr/lib/llvm-22 && exec "$0" "$@"' \
    "tools/ci/runtime-only.sh" "$@"
fi
[ -n "${MPC_LLVM_HIDDEN:-}" ] || echo "LLVM's folder could not be hidden"

start=$SECONDS
cmake -S . -B "$folder" -G Ninja -DMPC_RUNTIME_ONLY=ON -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_CXX_COMPILER=g++ -DCMAKE_UNITY_BUILD=ON "${options[@]}" > "$folder.log"
ninja -C "$folder" "$target" "${more[@]}" >> "$folder.log"
if grep -i 'lib/llvm' "$folder/build.ninja"; then
  echo "the build refers to LLVM"
  exit 1
fi
if [ "$target" = all ]; then
  "$folder/test/unit/MpcRuntimeTests" --gtest_brief=1
fi
echo "$target: done in $((SECONDS - start)) s"
