#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks modules against the answers that JAX gave for them.

usage: check_modules.py MPC FOLDER [--policy NAME] [--rounded-answers] [--over MODULE/OUTPUT...]

FOLDER/NAME holds module.mlir, inputs.npz, expected.npz and meta.json, which says
how far JAX itself was from float64. Under float32 an output may be twice as far;
those of --over, and only those, are farther. Answers that are kept in single
precision add two units in the last place. Other policies: the check itself must
hold.
"""
import argparse
import json
import pathlib
import subprocess
import sys

UNITS = 2 * 2.0**-23


def errors_of_jax(meta):
    """Root mean square errors relative to the answers, by output."""
    if "errors_against_float64" in meta:
        outputs = meta["errors_against_float64"]["jax_module_as_typed"]["outputs"]
        return {name: entry.get("rms_rel", 0.0) for name, entry in outputs.items()}
    return {entry["name"]: entry["rms_relative_error"] for entry in meta["outputs"]}


def check(mpc, folder, policy, slack):
    """The outputs of one module that are too far; a message where it fails."""
    # One level and one thread: the same sums everywhere.
    command = [mpc, "check", str(folder / "module.mlir"), "--policy", policy, "--json", "--device", "cpu",
               "--isa", "avx2", "--threads", "1", "--input", str(folder / "inputs.npz"), "--expected", str(folder / "expected.npz")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    # Judged here: under other policies the answers of float64 are another matter.
    report = json.loads(done.stdout) if done.returncode in (0, 4) else {}
    if not report.get("ok"):
        return None, f"{folder.name}: exit {done.returncode}: {done.stderr.strip()[:300]}"
    if policy != "float32":
        return set(), None
    allowed = errors_of_jax(json.loads((folder / "meta.json").read_text()))
    far = set()
    for output in report["expected"]:
        error = output["rms_relative_error"]
        if error is None or not error <= 2 * allowed[output["name"]] + slack:
            far.add(f"{folder.name}/{output['name']}")
    return far, None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mpc")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--policy", default="float32")
    parser.add_argument("--rounded-answers", action="store_true")
    parser.add_argument("--over", nargs="*", default=[])
    args = parser.parse_args()
    folders = sorted(path.parent for path in args.folder.glob("*/module.mlir"))
    far, failed = set(), []
    for folder in folders:
        found, message = check(args.mpc, folder, args.policy, UNITS if args.rounded_answers else 0.0)
        far |= found or set()
        failed += [message] if message else []
    for message in failed:
        print(message)
    for name in sorted(far - set(args.over)):
        print(f"{name} is more than twice as far from float64 as JAX")
    for name in sorted(set(args.over) - far):
        print(f"{name} is near enough: take it from --over")
    print(f"{len(folders) - len(failed)} of {len(folders)} modules under {args.policy}")
    sys.exit(bool(failed or far != set(args.over)))


if __name__ == "__main__":
    main()
