#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tuned policies beside the built-in ones: what keeps a budget, and for how many bytes.

  tools/mpc-bench/tuning.py --mpc build/bin/mpc MODELS [NAME...] [--budgets 1e-2,1e-3,1e-4]
  tools/mpc-bench/tuning.py --mpc build/bin/mpc MODELS [NAME...] --predictions

MODELS is a folder of NAME/model.onnx with NAME/inputs.npz. Of each model six samples are made
from its inputs: floats with normal noise of a tenth of their deviation, integers in another order.
`mpc tune` sees the first four and holds two of them back; the last two judge it, and all six the
built-in policies. Bytes are those of `mpc explain --json`, errors the largest rms of `mpc check`. Prints a
Markdown table; exit code 1 where a tuned policy breaks its budget.

--predictions prints, of each model, how well first-order errors agree with measured ones: every
product in f16 alone, all else in f32, on one sample.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

BUILT_IN = ["mixed_float16", "mixed_bfloat16", "float32"]


def samples(source, folder):
    """Six samples around the arrays of a file."""
    given = dict(np.load(source))
    paths = []
    for number in range(6):
        random = np.random.default_rng(number)
        drawn = {}
        for name, array in given.items():
            if number == 0:
                drawn[name] = array
            elif array.dtype.kind == "f":
                noise = random.standard_normal(array.shape) * array.std() / 10
                drawn[name] = (array + noise).astype(array.dtype)
            else:
                drawn[name] = random.permutation(array.reshape(-1)).reshape(array.shape)
        paths.append(folder / f"{number}.npz")
        np.savez(paths[-1], **drawn)
    return paths


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, (json.loads(done.stdout) if done.stdout.startswith("{") else {})


def rms(mpc, model, policy, paths, isa):
    worst = 0
    for path in paths:
        _, report = run([mpc, "check", model, "--policy", policy, "--inputs", path, "--json",
                         "--quiet", "--isa", isa])
        for output in report.get("outputs", []):
            if output["type"].startswith(("f", "bf")):
                worst = max(worst, output["rms_relative_error"])
    return worst


def moved(mpc, model, policy, path, isa):
    _, report = run([mpc, "explain", model, "--policy", policy, "--json", "--quiet", "--target",
                     f"cpu:{isa}"])
    return sum(kernel["bytes"] for kernel in report.get("kernels", []))


def ranks(values):
    return np.argsort(np.argsort(np.array(values))).astype(float)


def predictions(mpc, model, path, isa, scratch):
    """(predicted, measured) errors of each product in f16 alone."""
    _, found = run([mpc, "tune", model, "--inputs", path, "--budget", "rms 2e-6", "--types", "f16",
                    "--isa", isa, "--json", "--quiet"])
    pairs = []
    for op in found.get("ops", []):
        if op["what"] != "product" or "error_if_narrow" not in op:
            continue
        file = f"{scratch}/one.json"
        pathlib.Path(file).write_text(json.dumps(
            {"name": "one", "extends": "mixed_float16", "compute": "float32", "store": "float32",
             "products": {op["name"]: "float16"}}))
        measured = rms(mpc, model, file, [path], isa)
        # What drowns in float32's own error says nothing.
        if measured > 1e-6 and op["error_if_narrow"] < 1e30:
            pairs.append((op["error_if_narrow"], measured))
    return pairs


def print_predictions(arguments, names):
    print("| model | products | rank correlation | median predicted / measured |")
    print("|---|--:|--:|--:|")
    for name in names:
        folder = arguments.models / name
        with tempfile.TemporaryDirectory() as scratch:
            path = str(samples(folder / "inputs.npz", pathlib.Path(scratch))[0])
            pairs = predictions(arguments.mpc, str(folder / "model.onnx"), path, arguments.isa,
                                scratch)
        if len(pairs) < 3:
            print(f"| {name} | {len(pairs)} | | |", flush=True)
            continue
        predicted, measured = zip(*pairs)
        correlation = np.corrcoef(ranks(predicted), ranks(measured))[0, 1]
        ratio = np.median(np.array(predicted) / np.array(measured))
        print(f"| {name} | {len(pairs)} | {correlation:.3f} | {ratio:.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--mpc", default="mpc")
    parser.add_argument("--isa", default="avx2")
    parser.add_argument("--budgets", default="1e-2,1e-3,1e-4")
    parser.add_argument("--predictions", action="store_true")
    arguments = parser.parse_args()
    names = arguments.names or sorted(
        path.parent.name for path in arguments.models.glob("*/model.onnx")
        if (path.parent / "inputs.npz").exists())
    if arguments.predictions:
        return print_predictions(arguments, names)
    broken = better = pairs = 0
    print("| model | budget | tuned MB | error | best built-in | MB | error | tuned / built-in | s |")
    print("|---|---|--:|--:|---|--:|--:|--:|--:|")
    for name in names:
        folder = arguments.models / name
        model = str(folder / "model.onnx")
        with tempfile.TemporaryDirectory() as scratch:
            paths = [str(p) for p in samples(folder / "inputs.npz", pathlib.Path(scratch))]
            known = {policy: (moved(arguments.mpc, model, policy, paths[0], arguments.isa),
                              rms(arguments.mpc, model, policy, paths, arguments.isa))
                     for policy in BUILT_IN}
            for budget in arguments.budgets.split(","):
                file = f"{scratch}/tuned.json"
                code, found = run([arguments.mpc, "tune", model, "--inputs", *paths[:4], "--budget",
                                   f"rms {budget}", "--isa", arguments.isa, "-o", file, "--json",
                                   "--quiet"])
                if code:
                    print(f"| {name} | {budget} | exit code {code} | | | | | | |", flush=True)
                    broken += 1
                    continue
                bytes_, error = (moved(arguments.mpc, model, file, paths[0], arguments.isa),
                                 rms(arguments.mpc, model, file, paths[4:], arguments.isa))
                keeping = {p: v for p, v in known.items() if v[1] <= float(budget)}
                best = min(keeping, key=lambda p: keeping[p][0])
                ratio = bytes_ / keeping[best][0]
                pairs += 1
                better += ratio <= 0.95
                broken += error > float(budget)
                print(f"| {name} | {budget} | {bytes_ / 1e6:.3f} | {error:.2e} | {best} | "
                      f"{keeping[best][0] / 1e6:.3f} | {keeping[best][1]:.2e} | {ratio:.2f} | "
                      f"{found['seconds']:.1f} |", flush=True)
    print(f"\n{better} of {pairs} pairs move at least 5 % fewer bytes; {broken} break their budget.")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
