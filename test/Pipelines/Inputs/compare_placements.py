#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints, as a markdown table, the bytes that the kernels of each model move in
float32 and under both ways to place casts; fails where the minimum cut moves more than
propagation.

usage: compare_placements.py MPC POLICY MODELS_FOLDER [DIM=N ...]
"""

import json
import pathlib
import subprocess
import sys


def moved(mpc, model, dims, *options):
    command = [mpc, "explain", str(model), "--json", "--quiet", "--target", "cpu:avx2", *options]
    names = model.parent.name
    for dim in dims if names in ("dynamic-batch", "gpt-dynamic") else []:
        if not (names == "dynamic-batch" and dim.startswith("time")):
            command += ["--dim", dim]
    document = json.loads(subprocess.run(command, stdout=subprocess.PIPE).stdout)
    if "kernels" not in document:
        sys.exit(f"{model}: {document['errors'][0]['text']}")
    return sum(kernel["bytes"] for kernel in document["kernels"])


def main(mpc, policy, folder, *dims):
    worse = []
    for model in sorted(pathlib.Path(folder).glob("*/model.onnx")):
        single = moved(mpc, model, dims)
        propagated = moved(mpc, model, dims, "--policy", policy, "--cast-placement", "propagate")
        cut = moved(mpc, model, dims, "--policy", policy, "--cast-placement", "mincut")
        print(f"| {model.parent.name} | {single:,} | {propagated:,} | {cut:,} |")
        if cut > propagated:
            worse.append(model.parent.name)
    if worse:
        sys.exit("the minimum cut moves more than propagation: " + ", ".join(worse))


main(*sys.argv[1:])
