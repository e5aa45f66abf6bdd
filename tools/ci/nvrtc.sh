#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Compiles every model case for the oldest and the newest supported architectures. The output
# is the log under docs/. usage: nvrtc.sh MODELS [ARCHITECTURES]
set -euo pipefail
cd "$(dirname "$0")/../.."

models=${1:?usage: nvrtc.sh MODELS [ARCHITECTURES]}
architectures=${2:-sm_75,sm_120}
tools/ci/build.sh default mpc > /dev/null
python3 test/Integration/CUDA/Inputs/compile_models.py build/bin/mpc "$models" \
  --architectures "$architectures"
