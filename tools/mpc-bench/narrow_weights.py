#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What narrow weights cost: for each form the error of the model with those weights against its
own, both in float64, and that of the compiled result against the same narrow weights.

usage: narrow_weights.py [--mpc PATH] MODEL...      folders with model.onnx and inputs.npz

A model of several outputs is judged by the worst of them.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

FORMS = {
    "bfloat16": "bfloat16",
    "float16": "float16",
    "int8": "int8",
    "int8, not clipped": {"type": "int8", "clip": False},
    "int4, 32": "int4",
    "int4, 32, not clipped": {"type": "int4", "clip": False},
    "int4, 32, zero points": {"type": "int4", "zero_point": True},
    "int4, 64": {"type": "int4", "group": 64},
    "int4, 128": {"type": "int4", "group": 128},
}
# Where 16 bits are multiplied, the scales are such that the weights are numbers of that type.
MIXED = {"int8": "int8", "int4, 32": "int4"}


def check(mpc, model, policy):
    """Worst error of the weights, worst share of the tolerance, and whether all held."""
    inputs = model / "inputs.npz"
    command = [mpc, "check", str(model / "model.onnx"), "--inputs", str(inputs), "--policy",
               str(policy), "--json", "--quiet"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode not in (0, 4):
        sys.exit(result.stderr or result.stdout)
    outputs = [each for each in json.loads(result.stdout)["outputs"] if "weights_error" in each]
    return (max(each["weights_error"] for each in outputs),
            max(each["rms_relative_error"] / each["tolerance"] for each in outputs),
            result.returncode == 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mpc", default="build/bin/mpc")
    parser.add_argument("models", nargs="+", type=pathlib.Path, metavar="MODEL")
    arguments = parser.parse_args()
    print("| weights | " + " | ".join(model.name for model in arguments.models) + " |")
    print("|---|" + "--:|" * len(arguments.models))
    held = True
    with tempfile.TemporaryDirectory() as folder:
        policy = pathlib.Path(folder) / "policy.json"
        policies = [(form, "float32", weights) for form, weights in FORMS.items()]
        policies += [(f"{form}, {base}", base, weights)
                     for base in ("mixed_bfloat16", "mixed_float16")
                     for form, weights in MIXED.items()]
        for form, base, weights in policies:
            policy.write_text(json.dumps({"name": "narrow", "extends": base, "weights": weights}))
            cells = []
            for model in arguments.models:
                error, share, ok = check(arguments.mpc, model, policy)
                held &= ok
                cells.append(f"{error:.2e} ({share:.2f})")
            print(f"| {form} | " + " | ".join(cells) + " |", flush=True)
    print("\nIn brackets: the compiled result's own error as a share of its bound.")
    return 0 if held else 4


if __name__ == "__main__":
    sys.exit(main())
