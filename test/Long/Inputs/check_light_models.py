#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks every ONNX model of a folder. usage: check_light_models.py MPC FOLDER"""
import pathlib
import subprocess
import sys

models = sorted(pathlib.Path(sys.argv[2]).glob("*.onnx"))
good = 0
for model in models:
    done = subprocess.run([sys.argv[1], "check", str(model), "--device", "cpu", "--quiet"],
                          capture_output=True, text=True, check=False)
    good += done.returncode == 0
    if done.returncode:
        print(f"{model.name}: exit {done.returncode}: {done.stderr.strip()[:300]}")
print(f"{good} of {len(models)} hold")
sys.exit(good != len(models))
