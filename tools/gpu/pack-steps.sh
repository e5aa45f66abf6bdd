#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Compiles one training step of each small model under every policy, with its inputs and
# expected outputs. usage: pack-steps.sh FOLDER TARGETS [NAME]. Needs build/bin/mpc, or the
# program MPC. NAME selects one model.
#
# Writes FOLDER/NAME.OPTIMIZER/POLICY.mpcx, POLICY.json (the limits of each result),
# POLICY.inputs.npz and POLICY.expected.npz, the oracle's answers in float64.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$1
targets=$2
mpc=${MPC:-build/bin/mpc}
export PYTHONDONTWRITEBYTECODE=1
texts=$(mktemp -d)
trap 'rm -rf "$texts"' EXIT
python3 tools/gpu/training.py models "$texts" small

# Adam divides by the root of the second moment. An epsilon as large as a gradient keeps the
# update a smooth function of the gradient, so that a parameter's limit, which is derived from
# roundings, also holds for gradients close to 0: stored answers cannot depend on the GPU's
# state.
declare -A optimizers=(
  [sgd]="optimizer=sgd optimizer-numbers=momentum=0.9 learning-rate=0.1"
  [adam]="optimizer=adam optimizer-numbers=epsilon=0.001 learning-rate=0.01")
for text in "$texts"/*.mlir; do
  name=$(basename "$text" .mlir)
  [[ $name != g11-* ]] || continue # contained in the others
  [[ $name == "${3:-$name}" ]] || continue
  read -r part loss _ < "${text%.mlir}.flags"
  for optimizer in "${!optimizers[@]}"; do
    case=$folder/$name.$optimizer
    mkdir -p "$case"
    for policy in float32 tf32 mixed_float16 mixed_bfloat16; do
      flags="$part $loss ${optimizers[$optimizer]} init-seed=1"
      # No overflow: the answer must be that of a step that is not skipped.
      [ "$policy" != mixed_float16 ] || flags="$flags loss-scale=dynamic,init=1024"
      $mpc compile "$text" --training "$flags" --policy "$policy" --target "$targets" \
        -o "$case/$policy.mpcx" > /dev/null
      # The oracle's tolerance, the same for every device.
      $mpc check "$text" --training "$flags" --policy "$policy" --save "$case/$policy" --json \
        > "$case/$policy.json"
      mv "$case/$policy/inputs.npz" "$case/$policy.inputs.npz"
      mv "$case/$policy/expected.npz" "$case/$policy.expected.npz"
      rmdir "$case/$policy"
    done
  done
done
