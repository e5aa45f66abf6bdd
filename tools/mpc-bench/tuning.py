#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares tuned policies with the built-in ones: error budgets and costs.

  tools/mpc-bench/tuning.py --mpc build/bin/mpc MODELS [NAME...] [--budgets 1e-2,1e-3,1e-4]
                            [--objective time] [--keep FOLDER]
  tools/mpc-bench/tuning.py --mpc build/bin/mpc MODELS [NAME...] --times FOLDER
  tools/mpc-bench/tuning.py --mpc build/bin/mpc MODELS [NAME...] --predictions
  tools/mpc-bench/tuning.py --mpc build/bin/mpc MODELS [NAME...] --assignments N

MODELS is a directory of NAME/model.onnx with NAME/inputs.npz. Six samples per model are made from
its inputs: floats with normal noise of a tenth of their deviation, permuted integers. `mpc tune`
gets the first four, two of them for validation; the last two test it, and all six the built-in
policies. Bytes are those of `mpc bench --json`, errors the largest rms of `mpc check`. Prints a
Markdown table; exit code 1 if a tuned policy exceeds its budget or costs more than a built-in one.
--keep stores each model, compiled under each policy, with its measurements in a directory; an
existing tuned policy NAME-BUDGET.json is reused. --times reads that directory, so that only timing
needs an idle machine: the minimum of `mpc bench` in ms on one thread, policies in turn, compared
with the built-in policy of least memory traffic within the budget, and the fastest one within it.

--predictions prints how well first-order errors agree with measured ones for each model: each
product alone in f16, all else in f32, on one sample. --assignments does so for N random
assignments of all types.
"""
import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np

BUILT_IN = ["mixed_float16", "mixed_bfloat16", "float32"]
ROUNDS = 5


def samples(source, folder, count=6):
    """Samples around the arrays of a file."""
    given = dict(np.load(source))
    paths = []
    for number in range(count):
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
    return [str(path) for path in paths]


def run(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    return done.returncode, (json.loads(done.stdout) if done.stdout.startswith("{") else {})


class Model:
    """A model under policies, and its samples."""

    def __init__(self, arguments, name, scratch):
        self.arguments, self.scratch = arguments, pathlib.Path(scratch)
        self.path = str(arguments.models / name / "model.onnx")
        self.samples = samples(arguments.models / name / "inputs.npz", self.scratch)

    def mpc(self, command, *flags):
        return run([self.arguments.mpc, command, self.path, *flags, "--json", "--quiet"])

    def rms(self, policy, paths):
        worst = 0
        for path in paths:
            _, report = self.mpc("check", "--policy", policy, "--inputs", path, "--isa",
                                 self.arguments.isa)
            for output in report.get("outputs", []):
                if output["type"].startswith(("f", "bf")):
                    worst = max(worst, output.get("own_error", output["rms_relative_error"]))
        return worst

    def moved(self, policy):
        _, report = self.mpc("bench", "--policy", policy, "--inputs", self.samples[0], "--isa",
                             self.arguments.isa, "--runs", "1")
        return report["bytes"]

    def compile(self, policy, path):
        self.mpc("compile", "--policy", policy, "--target", f"cpu:{self.arguments.isa}", "-o", path)

    def tune(self, *flags):
        return self.mpc("tune", "--isa", self.arguments.isa, "--threads", "1", *flags)


def ranks(values):
    return np.argsort(np.argsort(np.array(values))).astype(float)


def predictions(model):
    """(predicted, measured) error of each product when it alone is in f16."""
    path = model.samples[0]
    _, found = model.tune("--inputs", path, "--budget", "rms 2e-6", "--types", "f16")
    pairs = []
    for op in found.get("ops", []):
        if op["what"] != "product" or "error_if_narrow" not in op:
            continue
        file = model.scratch / "one.json"
        file.write_text(json.dumps(
            {"name": "one", "extends": "mixed_float16", "compute": "float32", "store": "float32",
             "products": {op["name"]: "float16"}}))
        measured = model.rms(file, [path])
        # Skip errors below float32's own.
        if measured > 1e-6 and op["error_if_narrow"] < 1e30:
            pairs.append((op["error_if_narrow"], measured))
    return pairs


def print_predictions(arguments, names):
    print("| model | products | rank correlation | median predicted / measured |")
    print("|---|--:|--:|--:|")
    for name in names:
        with tempfile.TemporaryDirectory() as scratch:
            pairs = predictions(Model(arguments, name, scratch))
        if len(pairs) < 3:
            print(f"| {name} | {len(pairs)} | | |", flush=True)
            continue
        predicted, measured = zip(*pairs)
        correlation = np.corrcoef(ranks(predicted), ranks(measured))[0, 1]
        ratio = np.median(np.array(predicted) / np.array(measured))
        print(f"| {name} | {len(pairs)} | {correlation:.3f} | {ratio:.2f} |", flush=True)


def print_assignments(arguments, names):
    print("| model | assignments | rank correlation | median predicted / measured | s |")
    print("|---|--:|--:|--:|--:|")
    for name in names:
        with tempfile.TemporaryDirectory() as scratch:
            model = Model(arguments, name, scratch)
            _, found = model.tune("--inputs", *model.samples[:2], "--budget", "rms 1e-3",
                                  "--trials", arguments.assignments)
        trials = found.get("trials")
        if not trials:
            print(f"| {name} | 0 | | | |", flush=True)
            continue
        print(f"| {name} | {trials['count']} | {trials['rank_correlation']:.3f} | "
              f"{trials['median_ratio']:.2f} | {found['seconds']:.0f} |", flush=True)


def number(value):
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"


def print_table(arguments, names):
    broken = dearer = better = pairs = 0
    head = ["model", "budget", "tuned MB", "error", "best built-in", "MB", "error", "bytes"]
    if arguments.keep:
        arguments.keep.mkdir(parents=True, exist_ok=True)
    print(f"| {' | '.join(head + ['search s'])} |")
    print("|---|---|--:|--:|---|" + "--:|" * (len(head) - 4))
    for name in names:
        with tempfile.TemporaryDirectory() as scratch:
            model = Model(arguments, name, scratch)
            known = {policy: (model.moved(policy), model.rms(policy, model.samples))
                     for policy in BUILT_IN}
            keep = arguments.keep
            for policy in BUILT_IN if keep else []:
                model.compile(policy, keep / f"{name}-{policy}.mpcx")
            for budget in arguments.budgets.split(","):
                file = f"{scratch}/tuned.json"
                flags = ["--objective", arguments.objective] if arguments.objective else []
                known_file = keep / f"{name}-{budget}.json" if keep else None
                if known_file and known_file.exists():
                    shutil.copy(known_file, file)
                    code, found = 0, {"seconds": 0}
                else:
                    code, found = model.tune("--inputs", *model.samples[:4], "--budget",
                                             f"rms {budget}", "-o", file, *flags)
                if code == 4:
                    print(f"| {name} | {budget} | float32 itself errs more |" + " |" * (len(head) - 2),
                          flush=True)
                    continue
                if code:
                    print(f"| {name} | {budget} | exit code {code} |" + " |" * (len(head) - 2),
                          flush=True)
                    broken += 1
                    continue
                moved, error = model.moved(file), model.rms(file, model.samples[4:])
                keeping = {p: v for p, v in known.items() if v[1] <= float(budget)}
                best = min(keeping, key=lambda p: keeping[p][0])
                least = keeping[best][0]
                cells = [name, budget, f"{moved / 1e6:.3f}", f"{error:.1e}", best,
                         f"{least / 1e6:.3f}", f"{keeping[best][1]:.1e}", f"{moved / least:.2f}"]
                if keep:
                    kept = keep / f"{name}-{budget}"
                    shutil.copy(file, f"{kept}.json")
                    shutil.copy(model.samples[0], keep / f"{name}.npz")
                    model.compile(file, f"{kept}.mpcx")
                    pathlib.Path(f"{kept}.keeping").write_text(
                        json.dumps({"best": best, "keeping": list(keeping), "cells": cells,
                                    "seconds": found["seconds"]}))
                pairs += 1
                better += moved <= 0.95 * least
                dearer += moved > least and arguments.objective != "time"
                broken += error > float(budget)
                print(f"| {' | '.join(cells)} | {found['seconds']:.1f} |", flush=True)
    print(f"\n{better} of {pairs} pairs move at least 5 % fewer bytes, {dearer} move more; "
          f"{broken} break their budget.")
    return 1 if broken or dearer else 0


def print_times(arguments, names):
    worse = pairs = better = 0
    print("| model | budget | tuned MB | error | best built-in | MB | error | bytes | tuned ms | ms "
          "| time | fastest built-in | time |")
    print("|---|---|--:|--:|---|--:|--:|--:|--:|--:|--:|---|--:|")
    for name in names:
        folder, best = arguments.times, {}
        budgets = [b for b in arguments.budgets.split(",")
                   if (folder / f"{name}-{b}.keeping").exists()]
        for _ in range(ROUNDS):
            for policy in [*BUILT_IN, *budgets]:
                compiled, file = (folder / f"{name}-{policy}{end}" for end in (".mpcx", ".json"))
                # Models with symbolic extents are compiled for the inputs.
                subject = [compiled] if compiled.exists() else [
                    arguments.models / name / "model.onnx", "--isa", arguments.isa, "--policy",
                    file if file.exists() else policy]
                _, report = run([arguments.mpc, "bench", *subject, "--inputs",
                                 folder / f"{name}.npz", "--threads", "1", "--runs", "40", "--json",
                                 "--quiet"])
                best[policy] = min(best.get(policy, float("inf")),
                                   report.get("min_ms", float("inf")))
        for budget in budgets:
            known = json.loads((folder / f"{name}-{budget}.keeping").read_text())
            least = known["best"]
            fastest = min(known["keeping"], key=best.get)
            bytes_ratio, ratio = float(known["cells"][-1]), best[budget] / best[least]
            pairs += 1
            worse += ratio > 1.01 or bytes_ratio > 1
            better += ratio <= 1.01 and bytes_ratio <= 1 and min(ratio, bytes_ratio) <= 0.95
            print(f"| {' | '.join(known['cells'])} | {number(best[budget])} | "
                  f"{number(best[least])} | {ratio:.3f} | {fastest} | "
                  f"{best[budget] / best[fastest]:.2f} |", flush=True)
    print(f"\nBeside the built-in policy that moves least {better} of {pairs} pairs need at least "
          f"5 % less of one and no more of the other, {worse} need more bytes, or 1 % more time.")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--mpc", default="mpc")
    parser.add_argument("--isa", default="avx2")
    parser.add_argument("--budgets", default="1e-2,1e-3,1e-4")
    parser.add_argument("--objective", choices=["bytes", "time", "memory"])
    parser.add_argument("--keep", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--times", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--predictions", action="store_true")
    parser.add_argument("--assignments", type=int, metavar="N")
    arguments = parser.parse_args()
    names = arguments.names or sorted(
        path.parent.name for path in arguments.models.glob("*/model.onnx")
        if (path.parent / "inputs.npz").exists())
    if arguments.predictions:
        return print_predictions(arguments, names)
    if arguments.assignments:
        return print_assignments(arguments, names)
    if arguments.times:
        return print_times(arguments, names)
    return print_table(arguments, names)


if __name__ == "__main__":
    sys.exit(main())
