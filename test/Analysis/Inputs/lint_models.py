# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Lints every ONNX model of a folder under each policy and prints the warnings.

usage: lint_models.py MPC FOLDER POLICY...
       lint_models.py --find MODEL VALUE

--find looks for an f32 number in a model file and prints its value in float16.
"""
import json
import pathlib
import struct
import subprocess
import sys

# Extents of the symbolic dimensions, by model.
EXTENTS = {"dynamic-batch": ["batch=4"], "gpt-dynamic": ["batch=2", "time=16"]}


def lint(mpc, model, policy):
    command = [mpc, "lint", str(model), "--policy", policy, "--json"]
    for extent in EXTENTS.get(model.parent.name, []):
        command += ["--dim", extent]
    result = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=60)
    return json.loads(result.stdout)["warnings"]


def find(model, value):
    if struct.pack("<f", value) not in pathlib.Path(model).read_bytes():
        sys.exit(f"{value} is not in {model}")
    try:
        struct.pack("<e", value)
        print("found; float16 holds it")
    except OverflowError:
        print("found; float16 gives", "inf" if value > 0 else "-inf")


def main(arguments):
    if arguments[0] == "--find":
        return find(arguments[1], float(arguments[2]))
    mpc, folder, policies = arguments[0], pathlib.Path(arguments[1]), arguments[2:]
    models = sorted(folder.glob("*/model.onnx"))
    count = 0
    for model in models:
        for policy in policies:
            for warning in lint(mpc, model, policy):
                count += 1
                print(model.parent.name, policy, warning["code"], warning["op"], warning["value"])
    print(f"{len(models)} models, {len(models) * len(policies)} runs, {count} warnings")


main(sys.argv[1:])
