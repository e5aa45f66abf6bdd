#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains real models by PyTorch's own loop under several systems, and compares curves and times.

  loops.py train --out FOLDER [--models gpt,resnet18,cnn] [--systems ...] [--seeds 3] [--steps 300]
  loops.py time --out FOLDER [--models ...] [--systems ...] [--seconds 20]
  loops.py report --out FOLDER [--svg docs] [--page docs/Reference/TrainingLoops.md]

`train` stores the losses of each run as a line of FOLDER/runs.jsonl; runs are separate processes,
and finished ones are not repeated. `time` gives the systems turns of a few steps in one process and
adds a line for each to FOLDER/times.jsonl. `report` prints the tables of docs/Reference/TrainingLoops.md and
draws the curves. For a seed, all systems have the same initial weights and batches.

Needs torch, jax and the package mpc (PYTHONPATH=build/python).
"""
import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import time
import warnings

# How each model is run: framework, backend and precision.
EAGER, INDUCTOR, MPC = "eager", "inductor", "mpc"
SYSTEMS = {
    "eager float32": (EAGER, "float32"),
    "eager autocast bfloat16": (EAGER, "bfloat16"),
    "inductor float32": (INDUCTOR, "float32"),
    "inductor autocast bfloat16": (INDUCTOR, "bfloat16"),
    "inductor autocast float16": (INDUCTOR, "float16"),
    "mpc float32": (MPC, "float32"),
    "mpc mixed_bfloat16": (MPC, "mixed_bfloat16"),
    "mpc mixed_float16": (MPC, "mixed_float16"),
}
JAX_SYSTEMS = {
    "jax.jit float32": None,
    "mpc.jax.jit float32": "float32",
    "mpc.jax.jit mixed_bfloat16": "mixed_bfloat16",
    "mpc.jax.jit mixed_float16": "mixed_float16",
}
# Number of final losses to average for a run's result.
LAST = 50
# Markers around the tables in a page.
MARKS = "<!-- tables: begin -->\n", "<!-- tables: end -->"


# ===----------------------------------------------------------------------=== #
# One loop
# ===----------------------------------------------------------------------=== #


class TorchLoop:
    """A training loop as users write it; `step` returns the loss."""

    def __init__(self, task, system, seed, data, options):
        import torch
        backend, precision = SYSTEMS[system]
        self.torch, self.task, self.steps, self.done = torch, task, options.steps, 0
        self.batches = task.batches(data, seed)
        self.module = task.module(data, seed)
        self.optimizer = task.optimizer(self.module)
        self.narrow = {"bfloat16": torch.bfloat16, "float16": torch.float16}.get(precision)
        self.run = self.module
        if backend == INDUCTOR:
            self.run = torch.compile(self.module)
        elif backend == MPC:
            import mpc.torch  # noqa: F401
            self.run = torch.compile(self.module, backend="mpc",
                                     options={"policy": precision, "threads": options.threads})
        # float16 needs loss scaling, by PyTorch's scaler as under autocast.
        self.scaler = torch.amp.GradScaler("cpu", enabled=precision in ("float16", "mixed_float16"))
        torch.manual_seed(seed)  # for dropout

    def step(self):
        torch, task = self.torch, self.task
        x, y = (torch.from_numpy(a) for a in next(self.batches))
        for group in self.optimizer.param_groups:
            group["lr"] = task.rate_at(self.done, self.steps)
        with torch.autocast("cpu", self.narrow, enabled=self.narrow is not None):
            loss = self.run(x, y)
        self.scaler.scale(loss).backward()
        if task.clip:
            self.scaler.unscale_(self.optimizer)
            torch.nn.utils.clip_grad_norm_(self.module.parameters(), task.clip)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        self.done += 1
        return loss.item()

    def facts(self):
        return {"scale": self.scaler.get_scale()} if self.scaler.is_enabled() else {}


def make_loop(task, system, seed, data, options):
    if system in JAX_SYSTEMS:
        import loop_jax
        return loop_jax.Loop(task, JAX_SYSTEMS[system], seed, data, options)
    return TorchLoop(task, system, seed, data, options)


def prepare(options):
    """Sets the thread count of all libraries, before their import."""
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    if options.threads == 1:
        os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import torch
    torch.set_num_threads(options.threads)
    warnings.filterwarnings("ignore", module="torch")


# ===----------------------------------------------------------------------=== #
# Losses
# ===----------------------------------------------------------------------=== #


def run_one(options):
    """A run in this process; prints its line to stdout."""
    import loop_models
    model, system, seed = options.one
    task = loop_models.TASKS[model]
    loop = make_loop(task, system, int(seed), task.data(options), options)
    start, losses = time.monotonic(), []
    for _ in range(options.steps):
        losses.append(round(loop.step(), 5))
    print(json.dumps({"model": model, "system": system, "seed": int(seed), "steps": options.steps,
                      "seconds": round(time.monotonic() - start, 1), **loop.facts(), "losses": losses}))


def read_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def train(options):
    kept = options.out / "runs.jsonl"
    done = {(r["model"], r["system"], r["seed"]) for r in read_lines(kept) if r["steps"] == options.steps}
    end, longest = time.monotonic() + 60 * options.minutes, 0
    passed = ["--steps", options.steps, "--threads", options.threads, "--images", options.images,
              *(["--text", options.text] if options.text else [])]
    for seed in range(1, options.seeds + 1):
        for model in options.models:
            for system in options.systems:
                if (model, system, seed) in done or (system in JAX_SYSTEMS and not model.startswith("gpt")):
                    continue
                start = time.monotonic()
                if start + longest > end:
                    sys.exit("the time is over; call again to continue")
                command = [sys.executable, __file__, "train", "--out", options.out, *passed,
                           "--one", model, system, seed]
                ran = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True)
                if ran.returncode:
                    sys.exit(f"{model}, {system}, seed {seed}: ended with {ran.returncode}")
                longest = max(longest, time.monotonic() - start)
                line = json.loads(ran.stdout.splitlines()[-1])
                with kept.open("a") as file:
                    file.write(json.dumps(line) + "\n")
                print(f"{model}, {system}, seed {seed}: {statistics.mean(line['losses'][-LAST:]):.4f} "
                      f"in {line['seconds']} s", file=sys.stderr, flush=True)


# ===----------------------------------------------------------------------=== #
# Times
# ===----------------------------------------------------------------------=== #


def measure(options):
    """Turns of a few steps each, for all systems of a model in one process."""
    import loop_models
    for model in options.models:
        task = loop_models.TASKS[model]
        data = task.data(options)
        loops = {}
        for system in options.systems:
            if system in JAX_SYSTEMS and not task.gpt:
                continue
            loops[system] = make_loop(task, system, 1, data, options)
            for _ in range(3):  # compile and warm up
                loops[system].step()
        if options.pause:
            print(f"{model} is compiled; a line of input starts the clock", file=sys.stderr, flush=True)
            sys.stdin.readline()
        if options.core is not None:  # after compilation, which may use all
            for thread in os.listdir("/proc/self/task"):
                os.sched_setaffinity(int(thread), {options.core})
        times = {system: [] for system in loops}
        end = time.monotonic() + options.seconds
        while time.monotonic() < end:
            for system, loop in loops.items():
                start = time.perf_counter()
                loop.step()  # warm the caches
                # Slow systems run once, to leave time for the others.
                for _ in range(1 if time.perf_counter() - start > 1 else 3):
                    start = time.perf_counter()
                    loop.step()
                    times[system].append(time.perf_counter() - start)
        with (options.out / "times.jsonl").open("a") as file:
            for system, taken in times.items():
                line = {"model": model, "system": system, "batch": task.batch, "steps": len(taken),
                        "least_ms": round(1e3 * min(taken), 2), "median_ms": round(1e3 * statistics.median(taken), 2)}
                file.write(json.dumps(line) + "\n")
                print(json.dumps(line), flush=True)


# ===----------------------------------------------------------------------=== #
# Report
# ===----------------------------------------------------------------------=== #


def reached(run):
    return statistics.mean(run["losses"][-LAST:])


def row_of(system, base, ends, noise, clock):
    """A row of the table, and whether the system's losses differ significantly."""
    found, row, apart = list(ends[system].values()), [system, *["-"] * 6], False
    if found:
        row[1] = f"{statistics.mean(found):.4f}"
        row[2] = f"{statistics.stdev(found):.4f}" if len(found) > 1 else "-"
        both = [ends[system][seed] - ends[base][seed] for seed in ends[system] if seed in ends.get(base, ())]
        if both and system != base:
            row[3] = f"{statistics.mean(both):+.4f}"
            apart = abs(statistics.mean(both)) > noise
    if system in clock:
        t = clock[system]
        row[4:] = [f"{v:.1f}" for v in (1e3 * t["batch"] / t["median_ms"], t["least_ms"], t["median_ms"])]
    return row, apart


def report(options):
    """Tables as Markdown, curves as SVG; returns 4 if a system's curves differ significantly."""
    import loop_plots
    runs, times = read_lines(options.out / "runs.jsonl"), read_lines(options.out / "times.jsonl")
    lines, apart, unjudged = [], [], []
    for model in options.models:
        for systems in (SYSTEMS, JAX_SYSTEMS):
            names = [s for s in systems if any(line["model"] == model and line["system"] == s for line in runs + times)]
            if not names:
                continue
            base = next(iter(systems))
            of = {s: {r["seed"]: r for r in runs if r["model"] == model and r["system"] == s} for s in names}
            ends = {s: {seed: reached(r) for seed, r in of[s].items()} for s in names}
            noise = statistics.stdev(ends[base].values()) if len(ends.get(base, ())) > 1 else math.nan
            if any(of.values()) and math.isnan(noise):
                unjudged.append(f"{model}: {base} has no spread: fewer than two seeds")
            clock = {t["system"]: t for t in times if t["model"] == model}  # the last line counts
            counts = sorted({len(found) for found in of.values() if found})
            title = f"`{model}`{' in JAX' if systems is JAX_SYSTEMS else ''}"
            seeds = f", seeds: {' to '.join(map(str, counts[:1] + counts[1:][-1:]))}" if counts else ""
            lines += ["", f"{title}{seeds}:", "",
                      f"| system | loss | spread | from {base} | samples/s | least ms | median ms |",
                      "|---|--:|--:|--:|--:|--:|--:|"]
            for s in names:
                row, leaves = row_of(s, base, ends, noise, clock)
                lines.append("| " + " | ".join(row) + " |")
                if leaves:
                    apart.append(f"{model}: {s} is {row[3]} from {base}, whose seeds spread by {noise:.4f}")
            if options.svg and any(of.values()):
                name = f"loops-{model}{'-jax' if systems is JAX_SYSTEMS else ''}.svg"
                curves = {s: [r["losses"] for _, r in sorted(of[s].items())] for s in names if of[s]}
                (options.svg / name).write_text(loop_plots.draw(curves, base, noise))
                lines += ["", f"![losses of {title}]({name})"]
    print("\n".join(lines))
    if options.page:
        page = options.page.read_text()
        start, end = page.index(MARKS[0]) + len(MARKS[0]), page.index(MARKS[1])
        options.page.write_text(page[:start] + "\n".join([*lines, ""]) + page[end:])
    print("\n".join(["", *unjudged, *(apart or ["no curve ends outside the noise"])]))
    return 4 if apart else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["train", "time", "report"])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("loops"))
    parser.add_argument("--models", type=lambda text: text.split(","), default=["gpt", "resnet18", "cnn"])
    parser.add_argument("--systems", type=lambda text: text.split(","), default=[*SYSTEMS, *JAX_SYSTEMS])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--core", type=int, help="the core on which all threads stay while they are timed")
    parser.add_argument("--minutes", type=float, default=600, help="no run begins that would end later")
    parser.add_argument("--seconds", type=float, default=20, help="of a model's turns")
    parser.add_argument("--pause", action="store_true", help="wait for a line of input between compiles and turns")
    parser.add_argument("--images", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--text", help="a file in place of the Bible")
    parser.add_argument("--svg", type=pathlib.Path, help="the folder of the curves")
    parser.add_argument("--page", type=pathlib.Path, help="a page that gets the tables between its marks")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    unknown = [s for s in options.systems if s not in SYSTEMS and s not in JAX_SYSTEMS]
    if unknown:
        parser.error(f"no systems: {', '.join(unknown)}; there are {', '.join([*SYSTEMS, *JAX_SYSTEMS])}")
    options.out.mkdir(parents=True, exist_ok=True)
    if options.command == "train" and not options.one:
        return train(options)
    if options.command == "report":
        return report(options)
    prepare(options)
    return run_one(options) if options.one else measure(options)


if __name__ == "__main__":
    sys.exit(main())
