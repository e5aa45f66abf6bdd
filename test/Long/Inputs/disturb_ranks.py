# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains on several ranks, one of which is killed, stopped for good or suspended at a random time,
over and over; the others resume by --resume. usage: disturb_ranks.py FOLDER RUNS SEED mpc train ...

Fails if a run does not end in time, if the output of a disturbed run does not name
a rank, if a checkpoint is damaged, or if the last result differs from that of an undisturbed
run. Time limits are relative to an undisturbed run; a run during which the whole machine was
suspended is repeated."""
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

folder, runs, source = pathlib.Path(sys.argv[1]), int(sys.argv[2]), random.Random(sys.argv[3])
RANKS = 4
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
shutil.rmtree(folder, ignore_errors=True)
folder.mkdir(parents=True)


def command(name, *more):
    return ["mpirun", "--oversubscribe", "-n", str(RANKS), *sys.argv[4:], "--threads", "1", "--quiet", "--json",
            "--log-every", "5", "--rank-timeout", str(patience), "--checkpoint", str(folder / name),
            "--checkpoint-every", "3", *more]


class Clock(threading.Thread):
    """Detects that this process, and with it the machine, was suspended."""

    def __init__(self):
        super().__init__(daemon=True)
        self.longest = 0.0
        self.start()

    def run(self):
        while True:
            before = time.monotonic()
            time.sleep(0.1)
            self.longest = max(self.longest, time.monotonic() - before)

    def stood_still(self):
        stood, self.longest = self.longest > 1, 0.0
        return stood


def checkpoints(name):
    """Complete checkpoints: parts without the file that names them do not count. That file has their digests."""
    return sorted(path for path in (folder / name).glob("step-*.safetensors") if ".part-" not in path.name)


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


def undisturbed():
    done = subprocess.run(command("straight"), check=True, capture_output=True, text=True, timeout=600, env=ENVIRONMENT)
    return final(done.stdout)


def disturbed(number):
    """One run and its resumption; returns the disturbance and the error, if any."""
    name = f"run{number}"
    how = source.choice(("killed", "stopped", "held up"))
    errors = folder / "errors.txt"
    with errors.open("w") as stderr:
        process = subprocess.Popen(command(name), stdout=subprocess.PIPE, stderr=stderr, text=True, env=ENVIRONMENT)
        wait = source.random() * takes
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
        said = f"run {number}, {how} after {wait:.2f} s: "
        try:
            output, _ = process.communicate(timeout=limit / 2)
        except subprocess.TimeoutExpired:
            # The launcher waits for a rank that stopped after its last message.
            is_last = how == "stopped" and ranks_of(process.pid) == [victim]
            for rank in ranks_of(process.pid):
                os.kill(rank, signal.SIGKILL)
            output, _ = process.communicate(timeout=limit / 2)
            if not is_last:
                return how, said + f"still there after {limit / 2} s"
    if process.returncode and how in ("held up", "too late") and ranks:
        return how, said + f"exit code {process.returncode}\n{errors.read_text()}"
    if process.returncode:
        if "rank" not in errors.read_text():
            return how, said + f"nobody names a rank\n{errors.read_text()}"
        more = ["--resume"] if checkpoints(name) else []
        done = subprocess.run(command(name, *more), capture_output=True, text=True, timeout=limit, env=ENVIRONMENT,
                              check=False)
        if done.returncode:
            return how, said + f"cannot go on\n{done.stderr}"
        output = done.stdout
    for field in ("steps", "train_loss", "test_loss", "test_accuracy", "loss_scale", "skipped_steps"):
        if straight[field] != final(output)[field]:
            return how, said + f"{field} is {final(output)[field]}, undisturbed {straight[field]}"
    last = [checkpoints(which)[-1] for which in ("straight", name)]
    if last[0].name != last[1].name or last[0].read_bytes() != last[1].read_bytes():
        return how, said + "its last checkpoint is another"
    return how, ""


patience = 100
undisturbed()  # compiles
shutil.rmtree(folder / "straight")
clock, start = Clock(), time.monotonic()
straight = undisturbed()
takes = time.monotonic() - start
# Duration of a run, and timeouts of waiting ranks; others may use the machine too.
patience, limit = max(3, 2 * takes), max(60, 60 * takes)
counts = {"killed": 0, "stopped": 0, "held up": 0, "too late": 0}
done_runs = 0
while done_runs < runs:
    clock.stood_still()
    try:
        done_how, wrong = disturbed(done_runs)
    except subprocess.TimeoutExpired as error:
        done_how, wrong = "too late", f"run {done_runs}: {error}"
    shutil.rmtree(folder / f"run{done_runs}", ignore_errors=True)
    if clock.stood_still():
        continue
    if wrong:
        sys.exit(wrong)
    counts[done_how] += 1
    done_runs += 1
    print(f"{done_runs} of {runs}: {done_how}", file=sys.stderr, flush=True)
print(", ".join(f"{count} {how}" for how, count in counts.items()))
print("all runs ended as the one that nothing disturbed")
