#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Runs every compiled model of the pack on this machine's GPU and compares with stored
# float64 answers; the small ones under compute-sanitizer too. Exits with 77 where there
# is no GPU. usage: check.sh [PACK=build-gpu/pack.tar.xz] [FOLDER=build-gpu-run]
#
# Writes FOLDER/check.jsonl, one line per model and policy. Runs that are in it are not
# repeated: remove it to begin again.
set -euo pipefail
cd "$(dirname "$0")/../.."
archive=${1:-build-gpu/pack.tar.xz}
folder=${2:-build-gpu-run}
if ! nvidia-smi -L > /dev/null 2>&1; then
  echo "skipped: nvidia-smi finds no GPU"
  exit 77
fi
tools/gpu/build-runtime.sh "$archive" "$folder"
pack=$folder/pack mpc=$folder/mpc results=$folder/check.jsonl
touch "$results"
failed=0

# note MODEL POLICY WHAT OK DETAIL: appends a line and reports a failure.
note() {
  printf '{"model":"%s","policy":"%s","check":"%s","ok":%s,"detail":%s}\n' "$@" >> "$results"
  if [ "$4" = false ]; then
    echo "FAILED: $1, $2, $3: $5"
    failed=1
  fi
}
# isDone MODEL POLICY WHAT
isDone() { grep -q "\"model\":\"$1\",\"policy\":\"$2\",\"check\":\"$3\",\"ok\":true" "$results"; }
quoted() { python3 -c 'import json, sys; print(json.dumps(sys.stdin.read()[-2000:]))'; }

if [ -x "$pack/prelude-check" ] && ! isDone prelude none bits; then
  if text=$("$pack/prelude-check" 2>&1); then
    note prelude none bits true '""'
  else
    note prelude none bits false "$(quoted <<< "$text")"
  fi
fi

for file in "$pack"/models/*/*.mpcx; do
  case=$(dirname "$file")
  name=$(basename "$case") policy=$(basename "$file" .mpcx)
  run=("$mpc" run "$file" --device cuda --inputs "$case/inputs.npz" --output "$folder/out.npz")
  if ! isDone "$name" "$policy" answers; then
    rm -f "$folder/out.npz"
    if text=$("${run[@]}" --json 2>&1) && text=$(python3 tools/gpu/compare.py "$folder/out.npz" \
        "$case/expected.npz" "$case/$policy.json" 2>&1); then
      note "$name" "$policy" answers true "$text"
    else
      note "$name" "$policy" answers false "$(quoted <<< "$text")"
    fi
  fi
  # Slow: only what has few and small kernels.
  case $name in
  mlp | mnist-cnn | bert-tiny | gpt-tiny) ;;
  *) continue ;;
  esac
  command -v compute-sanitizer > /dev/null || continue
  for tool in memcheck racecheck initcheck synccheck; do
    isDone "$name" "$policy" "$tool" && continue
    if text=$(compute-sanitizer --tool "$tool" --error-exitcode 9 "${run[@]}" --json 2>&1); then
      note "$name" "$policy" "$tool" true '""'
    else
      note "$name" "$policy" "$tool" false "$(quoted <<< "$text")"
    fi
  done
done
echo "$(grep -c '"ok":true' "$results") checks hold; see $results"
exit $failed
