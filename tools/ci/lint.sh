#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Format, white space, licence lines, shell scripts and the order of libraries, of
# all tracked and new files; clang-tidy of those that changed (tidy.sh).
set -euo pipefail
cd "$(dirname "$0")/../.."

status=0
report() {
  echo "lint: $*" >&2
  status=1
}

mapfile -t files < <(git ls-files --cached --others --exclude-standard)
sources=() scripts=()
for file in "${files[@]}"; do
  [ -f "$file" ] || continue
  case $file in
  *.cpp | *.h) sources+=("$file") ;;
  *.sh | .ci/run | tools/hooks/*) scripts+=("$file") ;;
  esac
  case $file in
  *.cpp | *.h | *.td | *.py | *.sh | *.cmake)
    head -5 "$file" | grep -q "SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception" ||
      report "$file: no SPDX licence line in the first five lines"
    ;;
  esac
  case $file in
  *.cpp | *.h | *.td | *.py | *.sh | *.cmake | *.md | *.mlir | *.txt | *.json)
    if grep -nE '[[:space:]]+$' "$file" /dev/null | head -3 | grep .; then
      report "$file: white space at the end of a line"
    fi
    ;;
  esac
done

if [ ${#sources[@]} -gt 0 ]; then
  clang-format-22 --dry-run -Werror "${sources[@]}" || report "run: clang-format-22 -i on the files above"
fi
if [ ${#scripts[@]} -gt 0 ]; then
  shellcheck "${scripts[@]}" || report "shellcheck found something above"
fi

tools/ci/tidy.sh || report "clang-tidy found something above"

python3 tools/ci/layers.py || report "an include above points upwards; docs/Explanation/Overview.md has the order of libraries"
python3 tools/ci/mathematics.py >/dev/null || report "a family of kernels has its mathematics twice (tools/ci/mathematics.py)"

limit=$((16 * 1024 * 1024))
size=$(git ls-files -z | xargs -0 -r stat -c %s 2>/dev/null | awk '{s += $1} END {print s + 0}')
lines=()
for area in lib include tools test docs; do
  lines+=("$area $(git ls-files -z "$area" | xargs -0 -r cat 2>/dev/null | wc -l)")
done
printf 'lint: %d of %d bytes tracked; lines:' "$size" "$limit"
printf ' %s' "${lines[@]}"
echo
[ "$size" -le "$limit" ] || report "the tracked tree takes $size bytes, more than $limit"
exit $status
