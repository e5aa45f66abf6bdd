#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tabulates the launches of models and their memory traffic.

  tools/mpc-bench/launches.py FOLDER [NAME...] [--policy P] [--target cuda:sm_90a] [--training PART] [--most NAME=N]...

FOLDER/NAME/model.onnx are the models (networks.py exports some). Nothing is run:
`mpc explain` lists the kernels of the compiled program. Exit code 1 if a model is
rejected or has more launches than --most allows.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys


def explain(mpc, model, policy, target, training):
    """The kernels of `model`, or of a part of its training step, or an error message."""
    command = [mpc, "explain", str(model), "--policy", policy, "--target", target, "--json", "--quiet"]
    if training:
        command += ["--training", training]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        document = json.loads(done.stdout)
    except json.JSONDecodeError:
        return None, done.stderr.strip() or f"exit code {done.returncode}"
    return document.get("kernels"), json.dumps(document)[:300]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--mpc", default=os.environ.get("MPC", "mpc"))
    parser.add_argument("--policy", default="mixed_bfloat16")
    parser.add_argument("--target", default="cuda:sm_90a")
    parser.add_argument("--training", metavar="PART", help='part of a training step: "step optimizer=adam"')
    parser.add_argument("--most", action="append", default=[], metavar="NAME=N")
    parser.add_argument("--kernels", action="store_true", help="list the kernels of each model too")
    arguments = parser.parse_args()
    limits = {name: int(number) for name, _, number in (limit.partition("=") for limit in arguments.most)}
    names = arguments.names or sorted(path.parent.name for path in arguments.folder.glob("*/model.onnx"))
    status = 0
    print("| model | launches | MB |\n|---|--:|--:|")
    for name in names:
        model = arguments.folder / name / "model.onnx"
        kernels, why = explain(arguments.mpc, model, arguments.policy, arguments.target, arguments.training)
        if kernels is None:
            print(f"{name}: {why}", file=sys.stderr)
            status = 1
            continue
        print(f"| {name} | {len(kernels)} | {sum(k['bytes'] for k in kernels) / 1e6:.2f} |")
        for kernel in kernels if arguments.kernels else []:
            print(f"|   {kernel['name']} ({kernel['kind']}) | | {kernel['bytes'] / 1e6:.3f} |")
        if len(kernels) > limits.get(name, len(kernels)):
            print(f"{name}: {len(kernels)} launches, at most {limits[name]} are allowed", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
