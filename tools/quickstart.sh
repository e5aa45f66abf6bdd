#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Installs the packages of the build, builds mpc and runs a trained network on 1,000
# Fashion-MNIST test images under three precision policies, and a decoder with
# weights of five types.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/install-deps.sh build
tools/ci/build.sh default mpc
exec python3 tools/quickstart.py
