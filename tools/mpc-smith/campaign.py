# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Shared by the campaigns over random models: check of one model by `mpc check`, and the loop over seeds."""

import argparse
import collections
import concurrent.futures
import json
import multiprocessing
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
POLICIES = ["float32", "mixed_bfloat16", "mixed_float16"]
# Limits of CPU time, which a suspended machine does not consume, and of wall-clock time, for deadlocks.
SECONDS = 60
WAIT = 15 * SECONDS


# Error of a peer's polynomial approximations of functions with values of magnitude 1.
PEER_ERROR = 2.0**-19


def is_near(entry, own=0.0):
    """Whether the peer is within tolerance of the oracle, as far as the distances tell; `own` is the rms
    relative error known of the peer."""
    numbers = entry["rms_relative_error"], entry["tolerance"], entry["max_abs_error"]
    return all(isinstance(n, float) for n in numbers) and 0 < numbers[0] and (
        numbers[0] <= 2 * numbers[1] + own or numbers[2] <= PEER_ERROR)


def judge(command, policy, peer_errors):
    """(outcome, reason) of one `mpc check`."""
    limited = ["prlimit", f"--cpu={SECONDS}:{SECONDS + 2}", *command, "--policy", policy]
    try:
        done = subprocess.run(limited, capture_output=True, text=True, timeout=WAIT)
    except subprocess.TimeoutExpired:
        return "hang", f"more than {WAIT} s"
    if done.returncode == -signal.SIGXCPU:
        return "hang", f"more than {SECONDS} s of the processor"
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
    # If the oracle agrees and the peer does not, the peer's accuracy is in question.
    differs = [entry for entry in document.get("expected", [])
               if not entry["ok"] and not is_near(entry, peer_errors.get(entry["name"], 0.0))]
    if not wrong and not differs:
        return "ok", ""
    return "wrong" if wrong else "differs", "; ".join(
        f"{entry['name']}: rms {entry['rms_relative_error']} of {entry['tolerance']}" for entry in wrong or differs)[:400]


def check(mpc, folder, model, has_inputs, has_answers, policies=POLICIES, peer_errors=None):
    """Findings on `model` of `folder`, whose arrays are inputs.npz and expected.npz. `mpc`: the program and flags for
    its check. `peer_errors`: of outputs by name, the rms relative error that the peer is known to make."""
    program, *flags = mpc
    command = [program, "check", str(folder / model), "--json", "--quiet", "--device", "cpu", "--threads", "1", *flags]
    if has_inputs:
        command += ["--inputs", str(folder / "inputs.npz")]
    findings = []
    for policy in policies:
        line = command
        if has_answers and policy == "float32":
            line = command + ["--expected", str(folder / "expected.npz")]
        outcome, reason = judge(line, policy, peer_errors or {})
        if outcome != "ok":
            findings.append((outcome, policy, reason))
            if outcome in ("refused", "hang"):
                break
    return findings


def keep(folder, failures, seed, findings, note=""):
    """Copies the files of `folder` to the failures directory."""
    kept = failures / f"seed-{seed}"
    kept.mkdir(parents=True, exist_ok=True)
    for file in folder.iterdir():
        shutil.copy(file, kept)
    (kept / "reason.txt").write_text("\n".join([*(" ".join(f) for f in findings), note]) + "\n")


def main(description, run_seed, peer):
    """Runs `run_seed((seed, mpc, failures))` -> (seed, findings, ops, why the peer has no answer) over
    seeds."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seeds", default="0..99", help="A..B, both included")
    parser.add_argument("--mpc", type=pathlib.Path, default=ROOT / "build" / "bin" / "mpc")
    parser.add_argument("--flags", action="append", default=[], metavar='"--isa avx2"',
                        help="more flags of mpc check; where there are several of these, seeds take them in turn")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=0, help="stop after so many")
    parser.add_argument("--failures", type=pathlib.Path, help="folder that receives the models of failures")
    arguments = parser.parse_args()
    match = re.fullmatch(r"(\d+)\.\.(\d+)", arguments.seeds)
    if not match:
        sys.exit(f"--seeds: \"{arguments.seeds}\" is not A..B")
    seeds = range(int(match[1]), int(match[2]) + 1)
    end = time.monotonic() + arguments.minutes * 60 if arguments.minutes else None
    programs = [[str(arguments.mpc), *shlex.split(flags)] for flags in arguments.flags or [""]]
    graphs, failed, peers, kinds = 0, 0, 0, collections.Counter()
    step, spawn = 100 * arguments.jobs, multiprocessing.get_context("spawn")
    for first in range(seeds.start, seeds.stop, step):
        if end and time.monotonic() > end:
            break
        tasks = [(seed, programs[seed % len(programs)], arguments.failures)
                 for seed in range(first, min(first + step, seeds.stop))]
        # Restart processes periodically: a peer's threads do not survive a fork, and its caches grow.
        with concurrent.futures.ProcessPoolExecutor(arguments.jobs, mp_context=spawn) as pool:
            for seed, findings, ops, note in pool.map(run_seed, tasks):
                graphs += bool(ops)
                peers += bool(ops) and not note
                kinds.update(ops)
                failed += bool(findings)
                for outcome, policy, reason in findings:
                    print(f"seed {seed}: {outcome} under {policy}: {reason}", flush=True)
    print(f"{graphs} graphs, {sum(kinds.values())} nodes of {len(kinds)} ops, {peers} with {peer}")
    print(f"{failed} failures")
    return 1 if failed else 0
