#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Accuracy of narrow weights: for each format the error of the model with those weights against the
original, both in float64, and that of the compiled model against the same narrow weights.

usage: narrow_weights.py [--mpc PATH] [--samples N] MODEL...
                                                    folders with model.onnx and inputs.npz

The worst output of a model counts. With samples, also measures the formats with clipping by
`mpc calibrate` on N inputs resampled from the elements of inputs.npz, which is not one of them.
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
    "float8_e4m3fn": "float8_e4m3fn",
    "int8, not clipped": {"type": "int8", "clip": False},
    "int4, 32": "int4",
    "int4, 32, not clipped": {"type": "int4", "clip": False},
    "int4, 32, zero points": {"type": "int4", "zero_point": True},
    "int4, 64": {"type": "int4", "group": 64},
    "int4, 128": {"type": "int4", "group": 128},
}
# For 16-bit products, scales are chosen such that the weights are exact in that type.
MIXED = {"int8": "int8", "int4, 32": "int4"}


def check(mpc, model, policy):
    """Largest error of the weights, largest fraction of the tolerance, and whether all passed."""
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


def draw(model, folder, count):
    """Samples like the model's inputs: each array is resampled from the model's own elements."""
    import numpy as np
    folder.mkdir()
    source = np.random.RandomState(1)
    arrays = np.load(model / "inputs.npz")
    for sample in range(count):
        np.savez(folder / f"{sample}.npz", **{name: source.choice(arrays[name].ravel(), arrays[name].shape)
                                              for name in arrays.files})


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mpc", default="build/bin/mpc")
    parser.add_argument("models", nargs="+", type=pathlib.Path, metavar="MODEL")
    parser.add_argument("--samples", type=int, default=0)
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
        policies = [(*each, False) for each in policies]
        if arguments.samples:
            for model in arguments.models:
                draw(model, pathlib.Path(folder) / model.name, arguments.samples)
            policies += [(f"{form}, by data", "float32", weights, True) for form, weights in FORMS.items()
                         if "16" not in form and "not" not in form]
        for form, base, weights, by_data in policies:
            cells = []
            for model in arguments.models:
                policy.write_text(json.dumps({"name": "narrow", "extends": base, "weights": weights}))
                if by_data:
                    subprocess.run([arguments.mpc, "calibrate", str(model / "model.onnx"), "--inputs",
                                    str(pathlib.Path(folder) / model.name), "--policy", str(policy), "-o",
                                    str(policy), "--quiet"], check=True, stdout=subprocess.DEVNULL)
                error, share, ok = check(arguments.mpc, model, policy)
                held &= ok
                cells.append(f"{error:.2e} ({share:.2f})")
            print(f"| {form} | " + " | ".join(cells) + " |", flush=True)
    print("\nIn brackets: the compiled result's own error as a share of its bound.")
    return 0 if held else 4


if __name__ == "__main__":
    sys.exit(main())
