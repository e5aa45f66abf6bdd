#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Runs all tests; the last line is "N passed, N failed".
set -euo pipefail
cd "$(dirname "$0")/../.."
# The disassembler for tests of GPU machine code, which are skipped if it is not
# available.
if [ ! -d .venv/sass ]; then
  { python3 -m venv .venv/sass &&
    .venv/sass/bin/pip install --quiet --no-compile --retries 1 --timeout 20 nvidia-cuda-nvdisasm; } ||
    rm -rf .venv/sass
fi
# ONNX's own tests, from the last wheel that contains them; skipped without.
if [ ! -d .venv/onnx-tests ]; then
  { python3 -m venv .venv/onnx-tests &&
    .venv/onnx-tests/bin/pip install --quiet --no-compile --retries 1 --timeout 20 --no-deps onnx==1.22.0; } ||
    rm -rf .venv/onnx-tests
fi
# StableHLO export; tests that trace networks are skipped without.
if [ ! -d .venv/jax ]; then
  { python3 -m venv .venv/jax &&
    .venv/jax/bin/pip install --quiet --no-compile --retries 1 --timeout 20 jax==0.10.2 flax equinox pytest; } ||
    rm -rf .venv/jax
fi
# Generation of random ONNX models, and ONNX Runtime; skipped without.
if [ ! -d .venv/onnx-smith ]; then
  { python3 -m venv .venv/onnx-smith &&
    .venv/onnx-smith/bin/pip install --quiet --no-compile --retries 1 --timeout 20 onnx==1.22.0 onnxruntime; } ||
    rm -rf .venv/onnx-smith
fi
# Browser tests of reports; skipped without a browser.
if [ ! -d .venv/browser ] && command -v chromium >/dev/null; then
  { python3 -m venv .venv/browser &&
    .venv/browser/bin/pip install --quiet --no-compile --retries 1 --timeout 20 playwright; } ||
    rm -rf .venv/browser
fi
cmake --build --preset default --target check-mpc
