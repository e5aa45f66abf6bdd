#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Counts the launches of planned programs, and the bytes that they move.

usage: count_launches.py MPC TARGET POLICY MODEL...
Prints a line per model: launches, how many of them only bring inputs into the
program's types, only copy or only transpose, and the bytes of all operands and
results.
"""
import json
import pathlib
import subprocess
import sys


def main():
    mpc, target, policy, *models = sys.argv[1:]
    for model in map(pathlib.Path, models):
        done = subprocess.run([mpc, "explain", str(model), "--target", target, "--policy", policy,
                               "--json", "--quiet"], capture_output=True, text=True, check=True)
        kernels = json.loads(done.stdout)["kernels"]
        kinds = [kernel["kind"] for kernel in kernels]
        name = model.parent.name if model.name == "model.onnx" else model.stem
        total = sum(kernel["bytes"] for kernel in kernels)
        print(f"{name}: {len(kinds)} launches, {kinds.count('input_cast')} input casts, "
              f"{kinds.count('copy')} copies, {kinds.count('transpose')} transposes, {total} bytes")


if __name__ == "__main__":
    main()
