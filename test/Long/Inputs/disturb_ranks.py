# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains on several ranks, one of which is killed, stopped for good or held up at a random moment,
over and over; what is left goes on by --resume. usage: disturb_ranks.py FOLDER RUNS SEED mpc train ...

Ends with an error where a run does not end in time, where a disturbed run says nothing that names
a rank, where a checkpoint is damaged, or where the last result is not that of a run that nothing
disturbed."""
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

folder, runs, source = pathlib.Path(sys.argv[1]), int(sys.argv[2]), random.Random(sys.argv[3])
RANKS, PATIENCE = 4, 3
LIMIT = 60  # seconds of a run: what it takes, and the patience of those that wait
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
shutil.rmtree(folder, ignore_errors=True)
folder.mkdir(parents=True)


def command(name, *more):
    return ["mpirun", "--oversubscribe", "-n", str(RANKS), *sys.argv[4:], "--threads", "1", "--quiet", "--json",
            "--log-every", "5", "--rank-timeout", str(PATIENCE), "--checkpoint", str(folder / name),
            "--checkpoint-every", "3", *more]


def checkpoints(name):
    return sorted((folder / name).glob("step-*.safetensors"))


def children(pid):
    return [int(text) for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children")
            for text in path.read_text().split()]


def ranks_of(pid):
    """The processes below mpirun that are mpc."""
    found, waiting = [], children(pid)
    while waiting:
        child = waiting.pop()
        try:
            if "mpc" in pathlib.Path(f"/proc/{child}/comm").read_text():
                found.append(child)
            waiting += children(child)
        except OSError:
            pass
    return sorted(found)


def final(output):
    return json.loads(output.splitlines()[-1])


straight = final(subprocess.run(command("straight"), check=True, capture_output=True, text=True, timeout=LIMIT,
                                env=ENVIRONMENT).stdout)
counts = {"killed": 0, "stopped": 0, "held up": 0, "too late": 0}
for number in range(runs):
    name = f"run{number}"
    how = source.choice(("killed", "stopped", "held up"))
    errors = folder / "errors.txt"
    with errors.open("w") as stderr:
        process = subprocess.Popen(command(name), stdout=subprocess.PIPE, stderr=stderr, text=True, env=ENVIRONMENT)
        wait = source.random() * 1.5
        time.sleep(wait)
        ranks = ranks_of(process.pid)
        if process.poll() is not None or len(ranks) < RANKS:
            how = "too late"
        else:
            victim = source.choice(ranks)
            try:
                os.kill(victim, signal.SIGKILL if how == "killed" else signal.SIGSTOP)
                if how == "held up":
                    time.sleep(0.3)
                    os.kill(victim, signal.SIGCONT)
            except ProcessLookupError:
                how = "too late"
        counts[how] += 1
        try:
            output, _ = process.communicate(timeout=LIMIT / 2)
        except subprocess.TimeoutExpired:
            # One that stopped behind its last message is the launcher's to wait for.
            if how != "stopped" or ranks_of(process.pid) != [victim]:
                sys.exit(f"run {number}, {how} after {wait:.2f} s: still there after {LIMIT / 2} s")
            os.kill(victim, signal.SIGKILL)
            output, _ = process.communicate(timeout=LIMIT / 2)
    if process.returncode and how in ("held up", "too late") and not ranks == []:
        sys.exit(f"run {number}, {how}: exit code {process.returncode}\n{errors.read_text()}")
    if process.returncode:
        if "rank" not in errors.read_text():
            sys.exit(f"run {number}, {how}: nobody names a rank\n{errors.read_text()}")
        more = ["--resume"] if checkpoints(name) else []
        done = subprocess.run(command(name, *more), capture_output=True, text=True, timeout=LIMIT, env=ENVIRONMENT,
                              check=False)
        if done.returncode:
            sys.exit(f"run {number}, {how}: cannot go on\n{done.stderr}")
        output = done.stdout
    for field in ("steps", "train_loss", "test_loss", "test_accuracy", "loss_scale", "skipped_steps"):
        if straight[field] != final(output)[field]:
            sys.exit(f"run {number}, {how}: {field} is {final(output)[field]}, undisturbed {straight[field]}")
    last = [checkpoints(which)[-1] for which in ("straight", name)]
    if last[0].name != last[1].name or last[0].read_bytes() != last[1].read_bytes():
        sys.exit(f"run {number}, {how}: its last checkpoint is another")
    shutil.rmtree(folder / name)
print(", ".join(f"{count} {how}" for how, count in counts.items()))
print("all runs ended as the one that nothing disturbed")
