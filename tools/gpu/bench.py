#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Run by bench.sh: all systems take turns on each workload.

usage: bench.py --mpc DRIVER --pack FOLDER --out FOLDER [--seconds N] [--rounds 3] [--device TEXT]

Results are stored in OUT/bench-parts/NAME.json, and existing ones are reused. Writes
OUT/bench.json and OUT/bench.md when all are complete, otherwise exits with 75.
"""
import argparse
import dataclasses
import json
import pathlib
import select
import subprocess
import sys
import time

import training
import workloads

HERE = pathlib.Path(__file__).resolve().parent
MODELS = ["mlp", "mnist-cnn", "resnet", "unet-small", "bert-tiny", "gpt-tiny", "vit-tiny", "lstm-lm"]
# Measured on an H200: a large device copy, and 8192^3 in bf16 on random data.
COPY_BYTES, MATRIX_FLOPS = 4.3e12, 788e12
LEFT = 75
SYSTEMS = ["mpc (library)", "mpc (own)", "torch-eager", "torch-graph", "torch-compile", "jax"]


@dataclasses.dataclass
class Task:
    """`name` is also the peers' name. `data` names the training step whose weights and batch mpc uses; if
    empty, mpc generates them."""
    name: str
    title: str
    files: dict
    peers: list
    flops: int = 0
    bytes: int = 0
    data: str = ""
    # Whether all products precede the memory traffic, as gradients precede an update.
    in_turn: bool = False

    def part(self):
        return self.name.replace(":", ".")

    def floor_ms(self):
        times = [self.flops / MATRIX_FLOPS, self.bytes / COPY_BYTES]
        return 1e3 * (sum(times) if self.in_turn else max(times))


class Peer:
    """A worker process; `error` explains missing times."""

    def __init__(self, system, name, pack, log, env=None):
        self.system, self.name = system, name
        self.error, self.version, self.medians = None, None, []
        self.process = subprocess.Popen([sys.executable, HERE / "bench_worker.py", system, name, str(pack)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=env)

    def answer(self, deadline):
        """The next line of JSON; other lines are library output."""
        while self.error is None:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0.1, deadline - time.monotonic()))
            line = self.process.stdout.readline() if ready else None
            if line is None or line == "":
                self.error = "took too long" if line is None else "failed: see the log"
                self.process.kill()
            elif line.startswith("{"):
                return json.loads(line)
        return {}

    def time(self, deadline):
        if self.error is None:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
            if "median_ms" in (answer := self.answer(deadline)):
                self.medians.append(answer["median_ms"])

    def close(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            self.process.wait(timeout=60)


def time_mpc(driver, file, data):
    given = ["--inputs", data] if data else []
    done = subprocess.run([driver, "bench", file, "--device", "cuda", "--json", *given], capture_output=True, text=True,
                          check=False)
    if done.returncode:
        return {"error": (done.stderr or done.stdout).strip()[-400:]}
    return json.loads(done.stdout)


def measure(task, arguments, deadline):
    """Rounds of all systems in turn; the median per system."""
    files = task.files
    stem = arguments.out / "bench-parts" / task.part()
    data = stem.with_name(f"{task.part()}.npz") if task.data else None
    with open(stem.with_name(f"{task.part()}.log"), "w", encoding="utf-8") as log:
        if data:
            # If that fails, mpc reports the missing file.
            subprocess.run([sys.executable, HERE / "training.py", "data", task.data, data], stderr=log, check=False)
        peers = [Peer(system, task.name, arguments.pack, log) for system in task.peers]
        for peer in peers:
            peer.version = peer.answer(deadline).get("version")
        rows = {f"mpc ({label})": {"medians": []} for label in files}
        for _ in range(arguments.rounds):
            for label, file in files.items():
                answer = time_mpc(arguments.mpc, file, data)
                row = rows[f"mpc ({label})"]
                if "median_ms" in answer:
                    row["medians"].append(answer["median_ms"])
                else:
                    row["error"] = answer["error"]
            for peer in peers:
                peer.time(deadline)
        for peer in peers:
            peer.close()
            rows[peer.system] = {"medians": peer.medians, "version": peer.version}
            if peer.error:
                rows[peer.system]["error"] = peer.error
    if data:
        data.unlink(missing_ok=True)
    for row in rows.values():
        ordered = sorted(row["medians"])
        row["median_ms"] = ordered[len(ordered) // 2] if ordered else None
    return rows


def tasks(pack):
    """The tasks to time, in order."""
    def files_of(stem, flops):
        # Without products the library is not used.
        return {gemm: stem.with_name(f"{stem.name}.{gemm}.mpcx") for gemm in ("library", "own")[0 if flops else 1:]}

    for workload in workloads.workloads():
        yield Task(workload.name, workload.title, files_of(pack / "bench" / workload.name, workload.flops),
                   ["torch-eager", "torch-compile", "jax"], workload.flops, workload.bytes())
    for workload in training.workloads():
        for kind in ("bfloat16", "float16"):
            yield Task(f"{workload.name}:{kind}", f"{workload.title}, a step in {kind}",
                       files_of(pack / "training" / f"{workload.name}.mixed_{kind}", workload.flops),
                       ["torch-eager", "torch-graph", "torch-compile", "jax"], workload.flops, workload.bytes(),
                       workload.name, in_turn=True)
    for name in MODELS:
        file = pack / "models" / name / "mixed_bfloat16.mpcx"
        if file.exists() and (pack / "bench" / "make_models.py").exists():
            yield Task(name, f"{name}, forward", {"own": file}, ["torch-eager", "torch-compile"])


def table(results):
    systems = SYSTEMS
    lines = ["| workload | " + " | ".join(f"{system}, us" for system in systems) + " | floor, us | of floor | best peer |",
             "|---" * (len(systems) + 4) + "|"]
    for entry in results:
        times = {system: entry["systems"].get(system, {}).get("median_ms") for system in systems}
        cells = ["-" if time is None else f"{1e3 * time:.1f}" for time in times.values()]
        own = min((time for system, time in times.items() if time and system.startswith("mpc")), default=None)
        peer = min((time for system, time in times.items() if time and not system.startswith("mpc")), default=None)
        floor = entry["floor_ms"]
        cells += [f"{1e3 * floor:.1f}" if floor else "-", f"{100 * floor / own:.0f} %" if floor and own else "-",
                  f"{own / peer:.2f}x" if own and peer else "-"]
        lines.append(f"| {entry['title']} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mpc", type=pathlib.Path, required=True)
    parser.add_argument("--pack", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=float, default=480)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="", help="what the answers were measured on")
    arguments = parser.parse_args()
    arguments.mpc = arguments.mpc.resolve()
    parts = arguments.out / "bench-parts"
    parts.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + arguments.seconds
    results = []
    for task in tasks(arguments.pack):
        part = parts / f"{task.part()}.json"
        if not part.exists():
            # Compiling a workload for all peers takes a minute or two.
            if deadline - time.monotonic() < 120:
                print(f"time is up before {task.name}; call again")
                return LEFT
            rows = measure(task, arguments, deadline)
            part.write_text(json.dumps({"name": task.name, "title": task.title, "flops": task.flops,
                                        "bytes": task.bytes, "floor_ms": task.floor_ms(), "systems": rows}),
                            encoding="utf-8")
        results.append(json.loads(part.read_text(encoding="utf-8")))
    (arguments.out / "bench.json").write_text(json.dumps({"device": arguments.device, "workloads": results}, indent=1) + "\n",
                                              encoding="utf-8")
    (arguments.out / "bench.md").write_text(table(results), encoding="utf-8")
    print(table(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
