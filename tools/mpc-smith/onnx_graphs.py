#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Draws ONNX models by seed and has `mpc check` judge them.

  tools/mpc-smith/onnx_graphs.py --seeds 0..999 [--jobs 2] [--minutes 60] [--failures FOLDER]

Each model is checked under float32, mixed_bfloat16 and mixed_float16: importer,
float64 interpreter and compiled code. Under float32 the results of ONNX Runtime
are held against it too. A graph that nobody can run is drawn again; one that
ONNX Runtime refuses goes without it. Prints a line per failure and keeps its
model and inputs in FOLDER. Exit code 1 where something failed.
"""

import argparse
import collections
import concurrent.futures
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "onnx_ops"))
sys.dont_write_bytecode = True

import onnx  # noqa: E402
import onnxruntime  # noqa: E402

import elementwise  # noqa: E402
import layers  # noqa: E402
import movement  # noqa: E402
from graph import Graph, Skip  # noqa: E402

POLICIES = ["float32", "mixed_bfloat16", "mixed_float16"]
SECONDS = 60


def draw(seed):
    g = Graph(seed)
    families = [elementwise.OPS, movement.OPS, layers.OPS]
    weights = [g.random.choice([1, 2, 4]) for _ in families]
    wanted = g.random.choice([3, 6, 10, 16, 24])
    tries = 0
    while len(g.nodes) < wanted and tries < 200:
        tries += 1
        state = len(g.nodes), len(g.initializers), len(g.values), len(g.inputs), dict(g.feeds)
        try:
            g.random.choice(g.random.choices(families, weights)[0])(g)
        except Skip:
            nodes, initializers, values, inputs, g.feeds = state
            del g.nodes[nodes:], g.initializers[initializers:], g.values[values:], g.inputs[inputs:]
            read = {name for node in g.nodes for name in node.input}
            for value in g.values:
                value.used = value.name in read
    return g


def run_peer(model, feeds):
    """What ONNX Runtime computes, or why it does not."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    # Some of its rewrites compute something else.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        return dict(zip(names, session.run(names, feeds))), ""
    except Exception as error:  # its own exceptions have no common class but this
        return None, str(error).splitlines()[0]


def is_near(entry):
    """Whether both sides are within the oracle's tolerance of it, as far as their distance tells."""
    numbers = entry["rms_relative_error"], entry["tolerance"]
    return all(isinstance(n, float) for n in numbers) and 0 < numbers[0] <= 2 * numbers[1]


def judge(command, policy):
    """(outcome, reason) of one `mpc check`."""
    try:
        done = subprocess.run([*command, "--policy", policy], capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return "hang", f"more than {SECONDS} s"
    if done.returncode == 0:
        return "ok", ""
    if done.returncode not in (1, 4):
        return "crash", f"exit {done.returncode}: {done.stderr.strip()[-300:]}"
    try:
        document = json.loads(done.stdout)
    except json.JSONDecodeError:
        return "crash", f"exit {done.returncode} without a report: {done.stderr.strip()[-300:]}"
    if "outputs" not in document:
        errors = document.get("errors") or document.get("diagnostics") or [document]
        return "refused", json.dumps(errors[0])[:400]
    wrong = [entry for entry in document["outputs"] if not entry["ok"]]
    # What the oracle agrees with and ONNX Runtime does not is a question of its own.
    differs = [entry for entry in document.get("expected", []) if not entry["ok"] and not is_near(entry)]
    if not wrong and not differs:
        return "ok", ""
    return "wrong" if wrong else "differs", "; ".join(
        f"{entry['name']}: rms {entry['rms_relative_error']} of {entry['tolerance']}" for entry in wrong or differs)[:400]


def run_seed(task):
    seed, mpc, failures = task
    findings = []
    try:
        g = draw(seed)
        model, _ = g.model()
    except Exception as error:
        return seed, [("drawer", "", repr(error))], [], ""
    if not model.graph.output:
        return seed, [], [], "empty"
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        path, inputs, expected = folder / "model.onnx", folder / "inputs.npz", folder / "expected.npz"
        path.write_bytes(model.SerializeToString())
        np.savez(inputs, **g.feeds)
        command = [str(mpc), "check", str(path), "--json", "--quiet", "--device", "cpu", "--threads", "1"]
        if g.feeds:
            command += ["--inputs", str(inputs)]
        found, peer = run_peer(path.read_bytes(), g.feeds)
        for policy in POLICIES:
            line = command
            if found is not None and policy == "float32":
                np.savez(expected, **found)
                line = command + ["--expected", str(expected)]
            outcome, reason = judge(line, policy)
            if outcome != "ok":
                findings.append((outcome, policy, reason))
                if outcome in ("refused", "hang"):
                    break
        if findings and failures:
            kept = failures / f"seed-{seed}"
            kept.mkdir(parents=True, exist_ok=True)
            for file in folder.iterdir():
                shutil.copy(file, kept)
            (kept / "reason.txt").write_text("\n".join(" ".join(f) for f in findings) + "\n" + peer + "\n")
    return seed, findings, [node.op_type for node in g.nodes], peer


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", default="0..99", help="A..B, both included")
    parser.add_argument("--mpc", type=pathlib.Path, default=ROOT / "build" / "bin" / "mpc")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=0, help="stop after so many")
    parser.add_argument("--failures", type=pathlib.Path, help="folder that receives the models of failures")
    arguments = parser.parse_args()
    match = re.fullmatch(r"(\d+)\.\.(\d+)", arguments.seeds)
    if not match:
        sys.exit(f"--seeds: \"{arguments.seeds}\" is not A..B")
    seeds = range(int(match[1]), int(match[2]) + 1)
    end = time.monotonic() + arguments.minutes * 60 if arguments.minutes else None
    graphs, failed, peers, kinds = 0, 0, 0, collections.Counter()
    step = 16 * arguments.jobs
    with concurrent.futures.ProcessPoolExecutor(arguments.jobs) as pool:
        for first in range(seeds.start, seeds.stop, step):
            if end and time.monotonic() > end:
                break
            tasks = [(seed, arguments.mpc, arguments.failures) for seed in range(first, min(first + step, seeds.stop))]
            for seed, findings, ops, peer in pool.map(run_seed, tasks):
                graphs += bool(ops)
                peers += bool(ops) and not peer
                kinds.update(ops)
                failed += bool(findings)
                for outcome, policy, reason in findings:
                    print(f"seed {seed}: {outcome} under {policy}: {reason}", flush=True)
    print(f"{graphs} graphs, {sum(kinds.values())} nodes of {len(kinds)} ops, {peers} with ONNX Runtime")
    print(f"{failed} failures")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
