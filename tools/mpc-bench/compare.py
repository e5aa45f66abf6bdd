#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times mpc against ONNX Runtime fp32 on the same models, one thread, in one run.

usage: compare.py FOLDER [--models NAME,...] [--policies P,...] [--rounds 5] [--markdown FILE] [--json FILE]
FOLDER holds model cases (NAME/model.onnx, NAME/inputs.npz). ONNX Runtime is installed
into a private virtual environment (.venv) the first time. Rounds alternate between
the two systems, and each keeps its best median, so that a busy moment hurts neither.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
VENV = ROOT / ".venv" / "bench"
LIMITS = {"mlp": 1.5, "bert-tiny": 1.5, "mnist-cnn": 2.5, "resnet": 2.5}

PEER = r"""
import json, sys, time
import numpy, onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
arrays = numpy.load(sys.argv[2])
random = numpy.random.default_rng(0)
feed = {}
for spec in session.get_inputs():
    given = arrays[spec.name]
    feed[spec.name] = random.standard_normal(given.shape, dtype=given.dtype) if given.dtype == numpy.float32 else given
start = time.perf_counter()
while time.perf_counter() - start < 0.3:
    session.run(None, feed)
times = []
start = time.perf_counter()
while len(times) < 20 or time.perf_counter() - start < 1.5:
    t = time.perf_counter()
    session.run(None, feed)
    times.append(time.perf_counter() - t)
print(json.dumps({"median_ms": 1e3 * sorted(times)[len(times) // 2], "version": onnxruntime.__version__}))
"""


def peer_python():
    python = VENV / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", "onnxruntime", "numpy"], check=True)
    return python


def run(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False,
                          env={**os.environ, "OMP_NUM_THREADS": "1"})
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command[:4]))} ...: exit {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--models", default="mlp,bert-tiny,mnist-cnn,resnet")
    parser.add_argument("--policies", default="float32,mixed_bfloat16,mixed_float16")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mpc", default=ROOT / "build" / "bin" / "mpc")
    parser.add_argument("--markdown", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    python = peer_python()
    policies = args.policies.split(",")
    rows, isa = [], ""
    for name in args.models.split(","):
        case = args.folder / name
        best, bytes_moved, peer = {}, {}, None
        for _ in range(args.rounds):
            answer = run([python, "-c", PEER, case / "model.onnx", case / "inputs.npz"])
            if peer is None or answer["median_ms"] < peer["median_ms"]:
                peer = answer
            for policy in policies:
                bench = run([args.mpc, "bench", case / "model.onnx", "--policy", policy, "--threads", "1", "--json"])
                best[policy] = min(best.get(policy, float("inf")), bench["median_ms"])
                bytes_moved[policy] = bench["bytes"]
                isa = bench["isa"]
        rows.append({"model": name, "onnxruntime_ms": peer["median_ms"], "onnxruntime": peer["version"],
                     "mpc_ms": best, "bytes": bytes_moved})
    lines = ["| model | ONNX Runtime fp32, ms | " + " | ".join(f"mpc {p}, ms (ratio)" for p in policies) +
             " | bytes bf16 : f32 |", "|---" * (len(policies) + 3) + "|"]
    bad = []
    for row in rows:
        cells = [f"{row['mpc_ms'][p]:.3f} ({row['mpc_ms'][p] / row['onnxruntime_ms']:.2f})" for p in policies]
        moved = row["bytes"]
        share = slowdown = float("nan")  # no comparison holds or fails without both policies
        if {"mixed_bfloat16", "float32"} <= moved.keys():
            share = moved["mixed_bfloat16"] / moved["float32"]
            slowdown = row["mpc_ms"]["mixed_bfloat16"] / row["mpc_ms"]["float32"]
        lines.append(f"| {row['model']} | {row['onnxruntime_ms']:.3f} | " + " | ".join(cells) + f" | {share:.2f} |")
        ratio = row["mpc_ms"].get("float32", 0) / row["onnxruntime_ms"]
        if ratio > LIMITS.get(row["model"], float("inf")):
            bad.append(f"{row['model']}: {ratio:.2f}x ONNX Runtime, goal {LIMITS[row['model']]}x")
        if slowdown > 1.15:
            bad.append(f"{row['model']}: mixed_bfloat16 takes {slowdown:.2f}x the time of float32, goal 1.15x")
        if row["model"] in ("mlp", "bert-tiny") and share > 0.6:
            bad.append(f"{row['model']}: mixed_bfloat16 moves {share:.2f}x the bytes of float32, goal 0.6x")
    text = "\n".join(lines)
    print(f"isa {isa}, ONNX Runtime {rows[0]['onnxruntime']}, one thread, best median of {args.rounds} rounds")
    print(text)
    for row in bad:
        print(f"over the goal: {row}")
    if args.markdown:
        args.markdown.write_text(text + "\n")
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
