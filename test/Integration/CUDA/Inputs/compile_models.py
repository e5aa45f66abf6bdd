#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles every model of a folder into files for GPUs.

usage: compile_models.py MPC FOLDER [--models NAME,...] [--policies P,...]
                         [--architectures sm_80,...]
FOLDER holds model cases (NAME/model.onnx). Prints one line per model and policy with the
kernels and the machine code of each architecture, and closes with `N of M compile`; exit
status 1 where one does not. What the user's cache has is not compiled again.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

POLICIES = "float32,tf32,mixed_float16,mixed_bfloat16"
# Extents of open dimensions.
DIMENSIONS = {"dynamic-batch": ["--dim", "batch=8"],
              "gpt-dynamic": ["--dim", "batch=2", "--dim", "time=32"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mpc")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--models", default="")
    parser.add_argument("--policies", default=POLICIES)
    parser.add_argument("--architectures", default="sm_80,sm_90a")
    parser.add_argument("--times", action="store_true", help="print seconds as well")
    args = parser.parse_args()

    targets = ",".join("cuda:" + name for name in args.architectures.split(","))
    total, good, kernels = 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for case in sorted(args.folder.iterdir()):
            model = case / "model.onnx"
            if not model.exists() or (args.models and case.name not in args.models.split(",")):
                continue
            for policy in args.policies.split(","):
                total += 1
                start = time.monotonic()
                done = subprocess.run(
                    [args.mpc, "compile", model, "-o", os.path.join(folder, "m.mpcx"), "--json", "--quiet",
                     "--policy", policy, "--target", targets] + DIMENSIONS.get(case.name, []),
                    capture_output=True, text=True, check=False)
                took = f" in {time.monotonic() - start:.1f} s" if args.times else ""
                if done.returncode != 0:
                    # The line with the diagnostic follows the location.
                    print(f"{case.name} {policy}: exit {done.returncode}")
                    print("    " + "\n    ".join(done.stderr.strip().splitlines()[:12]), flush=True)
                    continue
                good += 1
                parts = []
                for target in json.loads(done.stdout)["targets"]:
                    kernels += target["kernels"]
                    parts.append(f"{target['name'][5:]} {target['kernels']} kernels {target['code_bytes']} bytes")
                print(f"{case.name} {policy}: {', '.join(parts)}{took}", flush=True)
    print(f"{good} of {total} compile, {kernels} kernels")
    return int(good != total or total == 0)


if __name__ == "__main__":
    sys.exit(main())
