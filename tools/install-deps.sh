#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Installs packages on Debian 12: `build` for those of the programs and the
# quickstart, by default also those of the Python package, the tests, lint and the
# sanitizers, for `wheel` also those of tools/wheel.sh. Returns quickly if all are
# installed. usage: install-deps.sh [build | wheel]
set -euo pipefail

packages=(
  build-essential cmake ninja-build ccache pkg-config python3 clang-22 lld-22
  llvm-22-dev libmlir-22-dev mlir-22-tools libzstd-dev zlib1g-dev
  libprotobuf-dev protobuf-compiler nlohmann-json3-dev libcli11-dev libzip-dev
  libboost-dev libre2-dev nettle-dev
  dataset-fashion-mnist
)
if [ "${1:-}" != build ]; then
  packages+=(
    git python3-dev python3-venv clang-format-22 clang-tidy-22 libclang-rt-22-dev
    llvm-22-tools libgtest-dev libonnx-testdata openmpi-bin shellcheck graphviz
  )
fi
if [ "${1:-}" = wheel ]; then
  packages+=(liblld-22 liblld-22-dev dpkg-dev unicode-data)
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  exit 0
fi

sudo=()
if [ "$(id -u)" -ne 0 ]; then
  sudo=(sudo)
fi
echo "installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${sudo[@]}" apt-get update -qq
"${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"
