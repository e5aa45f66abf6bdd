#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares each model's arena with the bytes that are live at one launch.

usage: check_arenas.py MPC FOLDER
Prints both and their ratio for every model of the folder (NAME/model.onnx) that
has no open dimension, and closes with the number of ratios above 1.10.
"""
import json
import pathlib
import subprocess
import sys

LIMIT = 1.10


def main():
    mpc, folder = sys.argv[1:]
    above, seen = 0, 0
    for model in sorted(pathlib.Path(folder).glob("*/model.onnx")):
        for policy in ("float32", "mixed_bfloat16"):
            done = subprocess.run([mpc, "explain", str(model), "--policy", policy, "--json", "--quiet"],
                                  capture_output=True, text=True, check=False)
            if done.returncode:
                continue
            report = json.loads(done.stdout)
            arena, live = report["arena_bytes"], report["arena_live_bytes"]
            ratio = arena / live if live else 1.0
            seen += 1
            above += ratio > LIMIT
            print(f"{model.parent.name} {policy}: {arena} of {live} bytes, {ratio:.3f}")
    print(f"{above} above {LIMIT:.2f} of {seen}")
    return int(above > 0 or seen == 0)


if __name__ == "__main__":
    sys.exit(main())
