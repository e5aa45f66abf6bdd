#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Run by check.sh once the runtime is available: every model and training step of an unpacked
# pack on one device. usage: check-pack.sh PACK MPC FOLDER DEVICE SECONDS
#
# Exits with 1 if a check fails, with 75 if SECONDS pass before the last.
set -euo pipefail
cd "$(dirname "$0")/../.."
pack=$1 mpc=$2 folder=$3 device=$4 seconds=$5
start=$SECONDS
results=$folder/check.jsonl
mkdir -p "$folder"
touch "$results"
failed=0
sanitizes=true
command -v compute-sanitizer > /dev/null || sanitizes=false

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

# checkFile FILE INPUTS EXPECTED SMALL [STATE]: compares with the limits next to FILE; a SMALL one
# also runs under compute-sanitizer, which is slow. STATE holds the inputs of a training step.
checkFile() {
  local file=$1 inputs=$2 expected=$3 small=$4 given=("${@:5}") name policy text
  name=$(basename "$(dirname "$file")") policy=$(basename "$file" .mpcx)
  local run=("$mpc" run "$file" --device "$device" --inputs "$inputs" --output "$folder/out.npz" --json)
  if [ $((SECONDS - start)) -ge "$seconds" ]; then
    echo "time is up before $name, $policy; call again"
    exit $((failed ? 1 : 75))
  fi
  if ! isDone "$name" "$policy" answers; then
    rm -f "$folder/out.npz"
    if text=$("${run[@]}" 2>&1) && text=$(python3 tools/gpu/compare.py "$folder/out.npz" \
        "$expected" "${file%.mpcx}.json" "${given[@]}" 2>&1); then
      note "$name" "$policy" answers true "$text"
    else
      note "$name" "$policy" answers false "$(quoted <<< "$text")"
    fi
  fi
  if ! $small || [ "$device" != cuda ] || ! $sanitizes; then
    return
  fi
  for tool in memcheck racecheck initcheck synccheck; do
    isDone "$name" "$policy" "$tool" && continue
    if text=$(compute-sanitizer --tool "$tool" --error-exitcode 9 "${run[@]}" 2>&1); then
      note "$name" "$policy" "$tool" true '""'
    elif grep -q 'Device not supported' <<< "$text"; then
      # It is installed but does not work here: neither pass nor failure.
      echo "skipped: compute-sanitizer does not support this device"
      sanitizes=false
      return
    else
      note "$name" "$policy" "$tool" false "$(quoted <<< "$text")"
    fi
  done
}

if [ -x "$pack/bin/prelude-check" ] && ! isDone prelude none bits; then
  if text=$("$pack/bin/prelude-check" 2>&1); then
    note prelude none bits true '""'
  else
    note prelude none bits false "$(quoted <<< "$text")"
  fi
fi
if [ -x "$pack/bin/product-check" ] && ! isDone products none reference; then
  if text=$("$pack/bin/product-check" "$device" 2>&1); then
    # Report products that the library does not support on this GPU.
    note products none reference true "$(grep '^passed over' <<< "$text" | quoted)"
  else
    note products none reference false "$(quoted <<< "$text")"
  fi
fi
shopt -s nullglob
for file in "$pack"/models/*/*.mpcx; do
  case=$(dirname "$file")
  small=false
  case $(basename "$case") in mlp | mnist-cnn | bert-tiny | gpt-tiny) small=true ;; esac
  checkFile "$file" "$case/inputs.npz" "$case/expected.npz" $small
done
# A step takes its state and returns new parameters and state.
for file in "$pack"/steps/*/*.mpcx; do
  checkFile "$file" "${file%.mpcx}.inputs.npz" "${file%.mpcx}.expected.npz" true "${file%.mpcx}.inputs.npz"
done
echo "$(grep -c '"ok":true' "$results") checks hold; see $results"
exit $failed
