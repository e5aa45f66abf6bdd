#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Installs the wheels of FOLDER (default dist/) into fresh environments of each PYTHON (default:
# those that tools/wheel.sh used) and uses them without LLVM's folder: programs, five lines of
# Python, an .mpcx file, NVIDIA's NVRTC package, ONNX Runtime with the execution provider, and PyPI's
# other package mpc.
# usage: wheel.sh [FOLDER [PYTHON...]]
set -euo pipefail
cd "$(dirname "$0")/../.."

folder=$(realpath "${1:-dist}")
shift || true
pythons=("$@")
[ ${#pythons[@]} -gt 0 ] || pythons=(.venv/wheel-*/bin/python)
model=$PWD/test/Inputs/onnx/small-cnn.onnx

# Hide LLVM, so that nothing of it can be used.
if [ -z "${MPC_LLVM_HIDDEN:-}" ] && [ -d /usr/lib/llvm-22 ] && unshare -rm true 2>/dev/null; then
  # shellcheck disable=SC2016
  MPC_LLVM_HIDDEN=1 exec unshare -rm bash -c 'mount -t tmpfs none /usr/lib/llvm-22 && exec "$0" "$@"' \
    "tools/ci/wheel.sh" "$folder" "${pythons[@]}"
fi
[ -n "${MPC_LLVM_HIDDEN:-}" ] || echo "LLVM's folder could not be hidden"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "wheel.sh: $*" >&2
  exit 1
}
# expect TEXT COMMAND...: the command prints the text.
expect() {
  local text=$1
  shift
  "$@" >"$work/out" 2>&1 || true
  grep -qF -- "$text" "$work/out" || { tail -5 "$work/out" >&2; fail "'$*' does not print '$text'"; }
}

# A fresh environment, an explained model and five lines of Python.
from_nothing() {
  "$1" -m venv "$2"
  "$2/bin/pip" install --quiet --find-links "$folder" mpc-compiler
  cd "$work"
  "$2/bin/mpc" explain "$model" >explained.txt
  "$2/bin/python" - "$model" <<'END'
import sys
import mpc, numpy
classify = mpc.compile(sys.argv[1], policy="mixed_bfloat16")
images = numpy.ones(classify.inputs[0].shape, numpy.float32)
print(classify(images).shape)
classify.save("model.mpcx")
assert numpy.array_equal(mpc.load("model.mpcx")(images), classify(images))
assert classify.check(images) and classify.explain()["ops"]
END
  cd "$OLDPWD"
}

# The execution provider in PyPI's ONNX Runtime, which its removal leaves as it was.
in_onnxruntime() {
  local before after
  "$1/bin/pip" install --quiet "onnxruntime>=1.24"
  before=$(state_of_onnxruntime "$1")
  "$1/bin/pip" install --quiet --find-links "$folder" onnxruntime-ep-mpc
  "$1/bin/python" - "$model" <<'END' || fail "ONNX Runtime does not run the model by mpc"
import sys
import mpc, numpy, onnxruntime, onnxruntime_ep_mpc
onnxruntime.register_execution_provider_library("mpc", onnxruntime_ep_mpc.get_library_path())
name = onnxruntime_ep_mpc.get_ep_name()
options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
options.add_provider_for_devices([d for d in onnxruntime.get_ep_devices() if d.ep_name == name], {})
session = onnxruntime.InferenceSession(sys.argv[1], options)
images = numpy.ones(session.get_inputs()[0].shape, numpy.float32)
results = session.run(None, {session.get_inputs()[0].name: images})
assert numpy.array_equal(results[0], mpc.compile(sys.argv[1])(images))
END
  "$1/bin/pip" uninstall --quiet --yes onnxruntime-ep-mpc
  after=$(state_of_onnxruntime "$1")
  [ "$before" = "$after" ] || fail "the execution provider changes ONNX Runtime"
}

# Its files and providers, and what it computes.
state_of_onnxruntime() {
  find "$1"/lib/python3*/site-packages/onnxruntime -type f -not -name '*.pyc' | sort | xargs sha256sum
  "$1/bin/python" - "$model" <<'END'
import sys
import numpy, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1])
images = numpy.ones(session.get_inputs()[0].shape, numpy.float32)
print(onnxruntime.get_available_providers(), [device.ep_name for device in onnxruntime.get_ep_devices()],
      session.get_providers(), session.run(None, {session.get_inputs()[0].name: images}))
END
}

for python in "${pythons[@]}"; do
  python=$(realpath -s "$python")
  env=$work/env-$(basename "$(dirname "$(dirname "$python")")")
  TIMEFORMAT="$("$python" --version): %R s from nothing to results, of which the CPU worked %U s"
  time from_nothing "$python" "$env"

  grep -q "policy float32" "$work/explained.txt" || fail "mpc explain explains nothing"
  version=$("$env/bin/python" -c 'import mpc; print(mpc.__version__)')
  for program in "$env/bin/mpc" "$env/bin/mpcc" "$env/bin/mpc-opt" "$env/bin/mpc-translate" "$env/bin/python -m mpc"; do
    # shellcheck disable=SC2086  # the last one has arguments
    expect "$version" $program --version
  done
  expect "mpc.conv" "$env/bin/mpc-translate" --import-onnx "$model"
  "$env/bin/mpc" compile "$model" -o "$work/aot.mpcx" --quiet
  expect "k_Softmax" "$env/bin/mpc" bench "$work/aot.mpcx"

  # Libraries from outside of the package: the C library's and the unwinder.
  site=$("$env/bin/python" -c 'import mpc, os; print(os.path.dirname(os.path.dirname(mpc.__file__)))')
  find "$site"/mpc "$site"/mpc_compiler.libs -type f \( -name '*.so*' -o -path '*/bin/*' \) -exec ldd {} + |
    awk -v site="$site" '/=>/ && index($3, site) != 1 {print $1}' | sort -u |
    grep -vE '^(libc|libm|libdl|librt|libpthread|libgcc_s)\.so|^ld-linux' &&
    fail "the package needs the libraries above"

  in_onnxruntime "$env"

  # Both packages mpc in one folder.
  touch "$site/mpc/lqr_step.py"
  expect "has files of two packages" "$env/bin/python" -c 'import mpc'
  : >"$site/mpc/__init__.py"
  expect "has files of two packages" "$env/bin/python" -m mpc
  expect "has files of two packages" "$env/bin/python" -c 'import mpc.train'
done

# Kernels for a GPU are compiled by NVIDIA's package.
expect "nvidia-cuda-nvrtc" "$env/bin/pip" install --dry-run --find-links "$folder" "mpc-compiler[cuda]"
"$env/bin/pip" install --quiet --no-deps nvidia-cuda-nvrtc
"$env/bin/mpc" compile "$model" -o "$work/gpu.mpcx" --target cuda:sm_90a --gemm own --quiet ||
  fail "NVRTC was not found"

auditwheel=$(find "$PWD"/.venv/wheel-*/bin/auditwheel 2>/dev/null | head -1)
for wheel in "$folder"/*.whl; do
  ls -l "$wheel"
  [ -z "$auditwheel" ] || "$auditwheel" show "$wheel"
done
