#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Memory of training steps: arena size of a step of each model, without
parameters and states, per policy, as a table in Markdown. Compiles only up to
the plan and runs nothing.

  tools/mpc-bench/step_memory.py MODELS [--build build] [--target cpu:avx512]

MODELS holds one directory per model with a model.onnx. `bound` is the maximum
size of live values at one launch, a lower bound for any plan of these launches.
"""

import argparse
import pathlib
import re
import subprocess
import sys

STAGES = ["lift", "simplify", "differentiate", "precision", "loss-scale", "pad",
          "layout", "fuse", "plan"]
POLICIES = ["float32", "mixed_float16", "mixed_bfloat16"]

# Directory, batch (None for the model's), loss, output for the loss.
MODELS = [
    ("mlp", 256, "softmax_cross_entropy", ""),
    ("mnist-cnn", 256, "softmax_cross_entropy", ""),
    ("resnet", None, "mean_squared_error", ""),
    ("unet-small", None, "mean_squared_error", ""),
    ("vit-tiny", None, "mean_squared_error", ""),
    ("bert-tiny", None, "mean_squared_error", "last_hidden_state"),
    ("gpt-tiny", None, "mean_squared_error", ""),
    ("lstm-lm", None, "mean_squared_error", "logits"),
]


def plan(tools, model, batch, loss, output, policy, target):
    """The launches of the planned program as text, or None and the error."""
    command = [tools / "mpc-translate", "--import-onnx", model]
    if batch:
        command.append(f"--batch={batch}")
    imported = subprocess.run(command, capture_output=True, check=False)
    options = f"policy={policy} target={target} training=step loss={loss}"
    if output:
        options += f" loss-output={output}"
    passes = [f"--mpc-pipeline-{stage}={options}" for stage in STAGES]
    planned = subprocess.run([tools / "mpc-opt", "-", *passes],
                             input=imported.stdout, capture_output=True,
                             check=False)
    if imported.returncode or planned.returncode:
        errors = (imported.stderr + planned.stderr).decode()
        found = re.search(r"error: (.*)", errors)
        return None, found.group(1)[:200] if found else errors[:200]
    return planned.stdout.decode(), ""


def bound(text):
    """Peak bytes of live values in the arena over all launches."""
    values, standing = [], []  # [begin, end, first, last]
    launches = re.findall(r"exe\.(?:launch|gemm) .*", text)
    for step, launch in enumerate(launches):
        ranges = [(access, int(offset), int(offset) + int(size))
                  for access, offset, size in re.findall(
                      r"(read|write) arena\[(\d+) : (\d+)\]", launch)]
        for access, begin, end in ranges:
            if access == "read":
                for value in standing:
                    if value[0] < end and begin < value[1]:
                        value[3] = step
        for access, begin, end in ranges:
            if access != "write":
                continue
            # Written in place: the value stays live.
            if any(v[:2] == [begin, end] and v[2] < step and v[3] == step
                   for v in standing):
                continue
            standing = [v for v in standing
                        if not (v[0] < end and begin < v[1])]
            standing.append([begin, end, step, step])
            values.append(standing[-1])
    return max((sum(v[1] - v[0] for v in values if v[2] <= step <= v[3])
                for step in range(len(launches))), default=0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("models", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, default="build")
    parser.add_argument("--target", default="cpu:avx512")
    arguments = parser.parse_args()
    tools = arguments.build / "bin"
    print("| model | batch | " + " | ".join(
        f"{policy}: MB (bound)" for policy in POLICIES) +
        " | f16 / f32 | bf16 / f32 |")
    print("|---|" + "--:|" * (len(POLICIES) + 3))
    failed = False
    for name, batch, loss, output in MODELS:
        cells, sizes = [], []
        for policy in POLICIES:
            text, why = plan(tools, arguments.models / name / "model.onnx",
                             batch, loss, output, policy, arguments.target)
            if text is None:
                print(f"{name}, {policy}: {why}", file=sys.stderr)
                failed = True
                break
            size = int(re.search(r"arena\((\d+)\)", text).group(1))
            sizes.append(size)
            cells.append(f"{size / 1e6:.2f} ({bound(text) / 1e6:.2f})")
        if len(sizes) == len(POLICIES):
            ratios = [f"{size / sizes[0]:.2f}" for size in sizes[1:]]
            print(f"| {name} | {batch or ''} | " +
                  " | ".join(cells + ratios) + " |")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
