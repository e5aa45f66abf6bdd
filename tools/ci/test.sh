#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Runs all tests; the last line is "N passed, N failed".
set -euo pipefail
cd "$(dirname "$0")/../.."
export CCACHE_SLOPPINESS=pch_defines,time_macros
# The disassembler by which tests read the machine code of GPU kernels; they are
# skipped where it cannot be had.
if [ ! -d .venv/sass ]; then
  { python3 -m venv .venv/sass &&
    .venv/sass/bin/pip install --quiet --no-compile --retries 1 --timeout 20 nvidia-cuda-nvdisasm; } ||
    rm -rf .venv/sass
fi
# ONNX's own tests, as the last wheel that holds them has them; skipped without.
if [ ! -d .venv/onnx-tests ]; then
  { python3 -m venv .venv/onnx-tests &&
    .venv/onnx-tests/bin/pip install --quiet --no-compile --retries 1 --timeout 20 --no-deps onnx==1.22.0; } ||
    rm -rf .venv/onnx-tests
fi
# What writes StableHLO: tests that trace networks are skipped without.
if [ ! -d .venv/jax ]; then
  { python3 -m venv .venv/jax &&
    .venv/jax/bin/pip install --quiet --no-compile --retries 1 --timeout 20 jax==0.10.2 flax equinox pytest; } ||
    rm -rf .venv/jax
fi
# What draws ONNX models and what runs them beside mpc; skipped without.
if [ ! -d .venv/onnx-smith ]; then
  { python3 -m venv .venv/onnx-smith &&
    .venv/onnx-smith/bin/pip install --quiet --no-compile --retries 1 --timeout 20 onnx==1.22.0 onnxruntime; } ||
    rm -rf .venv/onnx-smith
fi
# What opens reports in a browser, where there is one; skipped without.
if [ ! -d .venv/browser ] && command -v chromium >/dev/null; then
  { python3 -m venv .venv/browser &&
    .venv/browser/bin/pip install --quiet --no-compile --retries 1 --timeout 20 playwright; } ||
    rm -rf .venv/browser
fi
cmake --build --preset default --target check-mpc
