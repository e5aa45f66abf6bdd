#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Makes what a release consists of in FOLDER (default dist/): the wheels, the source archive
# and the notes, which are the section of this version in CHANGELOG.md.
# usage: release.sh [FOLDER [PYTHON...]]
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$(realpath -m "${1:-dist}")
version=$(sed -n 's/^project(mpc VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
notes=$(awk -v title="## $version" '
  /^## / { inside = ($0 == title || index($0, title " ") == 1); next }
  inside' CHANGELOG.md)
if [ -z "$notes" ]; then
  echo "release.sh: CHANGELOG.md has no section '## $version'" >&2
  exit 1
fi
if [ -n "$(git status --porcelain)" ]; then
  echo "release.sh: the working tree has changes that are not committed" >&2
  exit 1
fi
mkdir -p "$folder"
printf '%s\n' "$notes" | sed '/./,$!d' >"$folder/notes-$version.md"
tools/wheel.sh "$@"
python=$(find .venv/wheel-*/bin/python | head -1)
"$python" -m build --sdist --no-isolation --outdir "$folder" >/dev/null
ls -l "$folder"
