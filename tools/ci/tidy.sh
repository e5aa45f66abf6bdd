#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# clang-tidy over changed sources. usage: tidy.sh [BASE] [SECONDS]
# Files only in preset fuzz are skipped: they have no compile command.
#
# Checks the differences to BASE: by default the last commit, and in a clean tree the
# third before it. A file takes about five seconds, all of them most of an hour; after
# SECONDS (default 150) no further one is started, and the rest are counted. Needs
# compile_commands.json in build/, or in the directory BUILD.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${BUILD:-build}
if [ ! -f "$build/compile_commands.json" ]; then
  echo "tidy: no $build/compile_commands.json, nothing checked"
  exit 0
fi
tools/ci/unity_commands.py "$build"
base=${1:-HEAD}
if [ $# -eq 0 ] && git diff --quiet HEAD && git rev-parse -q --verify HEAD~3 > /dev/null; then
  base=HEAD~3
fi
mapfile -t files < <({
  git diff --name-only --diff-filter=d "$base"
  git ls-files --others --exclude-standard
} | grep -E '^(lib|tools|test)/.*\.cpp$' | grep -v /Inputs/ | grep -v ^test/fuzz/ | sort -u)
end=$((SECONDS + ${2:-150})) left=0
step=$(nproc) status=0
for ((i = 0; i < ${#files[@]}; i += step)); do
  if [ $SECONDS -ge $end ]; then
    left=$((${#files[@]} - i))
    break
  fi
  printf '%s\0' "${files[@]:i:step}" |
    xargs -0 -P "$step" -n 1 clang-tidy-22 -p "$build/tidy" --quiet 2> /dev/null || status=1
done
echo "tidy: $((${#files[@]} - left)) of ${#files[@]} files that changed since $base"
exit $status
