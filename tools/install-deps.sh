#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Installs the packages for building and testing on Debian 12. Returns quickly if
# all are installed.
set -euo pipefail

packages=(
  build-essential cmake git ninja-build ccache pkg-config python3 python3-dev python3-venv
  clang-22 lld-22 clang-format-22 clang-tidy-22 libclang-rt-22-dev
  llvm-22-dev llvm-22-tools libmlir-22-dev mlir-22-tools libzstd-dev zlib1g-dev
  libomp-22-dev libprotobuf-dev protobuf-compiler libonnx-testdata nlohmann-json3-dev
  libgtest-dev libcli11-dev libzip-dev libboost-dev libre2-dev
  nettle-dev openmpi-bin shellcheck graphviz dataset-fashion-mnist
)

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
