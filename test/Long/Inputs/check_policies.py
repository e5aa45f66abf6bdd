#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks every model of a folder under many policies.

usage: check_policies.py MPC FOLDER [--models NAME,...] [--policies P,...] [--device D]
FOLDER holds model cases (NAME/model.onnx or model.mlir, NAME/inputs.npz). Runs
`mpc check` for each model under every built-in policy and, on the CPU, under `bfloat16`
with overrides per op, and closes with `N of M hold`; exit status 1 where one does not.
"""
import argparse
import json
import pathlib
import subprocess
import sys

POLICIES = ["float32", "mixed_float16", "mixed_bfloat16", "float16", "bfloat16", "tf32",
            "torch_autocast_cuda_float16", "torch_autocast_cuda_bfloat16",
            "torch_autocast_cpu_float16", "torch_autocast_cpu_bfloat16",
            "tf_amp_gpu_float16", "tf_amp_cpu_float16", "tf_amp_onednn_bfloat16",
            "keras_mixed_float16", "keras_mixed_bfloat16"]
# Kinds that many models have; an override by kind that matches nothing is an
# error, so each model gets those it has.
OVERRIDES = {"add": "float32", "softmax": "bfloat16", "layer_norm": "bfloat16", "relu": "float32",
             "gelu": "float32", "max_pool": "float32", "mul": "float32"}


def run(command):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)


def kinds_of(base):
    """Kinds of the model's ops; the checked inputs bind open dimensions."""
    done = run(base + ["--per-op"])
    return {op["kind"] for op in json.loads(done.stdout)["ops"]} if done.stdout else set()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mpc")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--models", default="")
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()

    total, held = 0, 0
    for case in sorted(args.folder.iterdir()):
        model = case / "model.onnx"
        if not model.exists() or (args.models and case.name not in args.models.split(",")):
            continue
        base = [args.mpc, "check", model, "--json", "--quiet", "--device", args.device]
        if (case / "inputs.npz").exists():
            base += ["--inputs", case / "inputs.npz"]
        jobs = [(policy, []) for policy in args.policies.split(",")]
        kinds = kinds_of(base) if args.device == "cpu" else []
        sets = [f"op:{kind}={kind_type}" for kind, kind_type in OVERRIDES.items() if kind in kinds]
        if sets:
            jobs.append(("bfloat16", [flag for text in sets for flag in ("--set", text)]))
        for policy, flags in jobs:
            total += 1
            done = run(base + ["--policy", policy] + flags)
            if done.returncode == 0:
                held += 1
                continue
            first = (done.stderr.strip().splitlines() or [done.stdout.strip()[:300]])[0]
            print(f"{case.name} {policy} {' '.join(flags)}: exit {done.returncode}: {first}")
    print(f"{held} of {total} hold")
    return int(held != total or total == 0)


if __name__ == "__main__":
    sys.exit(main())
