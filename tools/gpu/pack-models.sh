#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Compiles model cases under every policy, with their inputs and answers.
# usage: pack-models.sh MODELS FOLDER TARGETS [POLICY...]. Needs build/bin/mpc, or the program
# MPC.
#
# MODELS holds NAME/model.onnx, inputs.npz, expected.npz. Writes FOLDER/NAME/POLICY.mpcx and
# POLICY.json, the limits of each output. All files of a model repeat its weights; they are
# adjacent, so that an archiver's window spans them.
set -euo pipefail
cd "$(dirname "$0")/../.."
models=$1
folder=$2
targets=$3
policies=("${@:4}")
[ ${#policies[@]} -gt 0 ] || policies=(float32 tf32 mixed_float16 mixed_bfloat16)
mpc=${MPC:-build/bin/mpc}
for case in "$models"/*/model.onnx; do
  name=$(basename "$(dirname "$case")")
  [ -f "$models/$name/expected.npz" ] || continue
  mkdir -p "$folder/$name"
  cp "$models/$name/inputs.npz" "$models/$name/expected.npz" "$folder/$name/"
  for policy in "${policies[@]}"; do
    echo "$name, $policy" >&2
    $mpc compile "$case" --policy "$policy" --target "$targets" -o "$folder/$name/$policy.mpcx" \
      > /dev/null
    # The oracle's tolerance, the same for every device.
    $mpc check "$case" --policy "$policy" --inputs "$models/$name/inputs.npz" --json \
      > "$folder/$name/$policy.json"
  done
done
