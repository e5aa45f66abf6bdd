#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks the gradients of every model of a folder in compiled code.

usage: check_gradients.py BIN FOLDER WORK [--models NAME,...] [--policies P,...]
BIN holds mpc, mpc-opt and mpc-translate, FOLDER model cases (NAME/model.onnx). Each
model gets a loss on its first output and its gradients; `mpc check` judges them with the
model's own weights, by derived tolerances. Closes with `N of M hold`; exit status 1 where
one does not.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys

# Symbolic extents.
DIMS = {"dynamic-batch": ["--dim=batch=8"], "gpt-dynamic": ["--dim=batch=2", "--dim=time=16"]}

# Every tensor of it is the model's own float16, and its softmax is saturated: the gradient of a
# square is the 16-bit rounding error of 1 - y, which is noise. That of a distance is a vector of signs.
LOSSES = {"mnist-cnn-fp16": "mean_absolute_error"}


def run(command, **kwargs):
    return subprocess.run([str(part) for part in command], text=True, capture_output=True, check=False, **kwargs)


def differentiated(tools, model):
    """The text of the model with its gradients; the seed is 1."""
    imported = run([tools / "mpc-translate", "--import-onnx", *DIMS.get(model.parent.name, []), model])
    if imported.returncode:
        return None, imported.stderr
    outputs = re.findall(r'mpc\.name = "([^"]+)", mpc\.role = #mpc\.role<output>', imported.stdout)
    kind = LOSSES.get(model.parent.name, "mean_squared_error")
    loss = f"mpc-attach-loss{{loss={kind} output={outputs[0]}}}"
    passes = (f"builtin.module(func.func(mpc-lift-parameters{{statistics=false}}),mpc-pipeline-simplify,"
              f"func.func({loss},mpc-differentiate,canonicalize,cse))")
    done = run([tools / "mpc-opt", f"--pass-pipeline={passes}"], input=imported.stdout)
    if done.returncode:
        return None, done.stderr
    return re.sub(r"mpc\.gradient_seed( \{[^}]*\})? : tensor<f(16|32)>",
                  r"mpc.constant dense<1.0> : tensor<f\2>", done.stdout), ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tools", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--models", default="")
    parser.add_argument("--policies", default="float32,mixed_float16,mixed_bfloat16")
    args = parser.parse_args()

    args.work.mkdir(parents=True, exist_ok=True)
    total, held = 0, 0
    for case in sorted(args.folder.iterdir()):
        model = case / "model.onnx"
        if not model.exists() or (args.models and case.name not in args.models.split(",")):
            continue
        text, problem = differentiated(args.tools, model)
        if text is None:
            print(f"{case.name}: {problem.strip().splitlines()[0][:200]}")
            total += 1
            continue
        module = args.work / (case.name + ".mlir")
        module.write_text(text)
        for policy in args.policies.split(","):
            total += 1
            done = run([args.tools / "mpc", "check", module, "--json", "--quiet", "--policy", policy])
            outputs = json.loads(done.stdout).get("outputs", []) if done.stdout else []
            # The loss is one number, and its tolerance twice one number's error: chance.
            gradients = [o for o in outputs if o["name"].endswith(".gradient")]
            over = [o for o in gradients if not o["ok"]]
            if gradients and not over:
                held += 1
                continue
            print(f"{case.name} {policy}: exit {done.returncode}:",
                  (done.stderr.strip().splitlines() or [""])[0][:200],
                  *(f"{o['name']} {o['rms_relative_error']:.3g} of {o['tolerance']:.3g}" for o in over[:4]))
    print(f"{held} of {total} hold")
    return int(held != total or total == 0)


if __name__ == "__main__":
    sys.exit(main())
