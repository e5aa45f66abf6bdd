#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times mpc and its peers on the same workloads, pinned to one core or to --threads cores,
taking turns in one run.

  bench.py [WORKLOAD...] [--history bench.jsonl] [--markdown FILE] [--svg FILE]
  bench.py [WORKLOAD...] --threads 2 --busy 2         # beside two busy loops on these cores
  bench.py [WORKLOAD...] --systems mpc,mpc-reproducible      # the cost of reproducible bits
  bench.py --list                          # workloads; `sweep` is all products gemm_*
  bench.py --report [--history bench.jsonl] [--markdown FILE] [--svg FILE]    # of the last run

WORKLOAD may also be a directory with model.onnx and inputs.npz. Without one all of C1 to C13
run. PyTorch (eager and compiled) and ONNX Runtime are the peers; they are installed into a
private virtual environment the first time, or taken from --python.

Every system prepares in a separate process, then they take turns for --rounds rounds. The
core's peak rate is probed before and after each turn; a turn is repeated if a probe is below
95 % of the best of the run, or if each of its runs was interrupted by other processes;
with --busy neither is checked. Each run appends a document to the history.
"""
import argparse
import contextlib
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import time

import report
from report import REPRODUCIBLE
from workloads import SWEEP, WORKLOADS, find

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
VENV = ROOT / ".venv" / "bench"
PACKAGES = ["torch", "onnx", "onnxruntime", "numpy", "matplotlib"]
# Keep large outputs mapped between a peer's runs.
KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "17179869184",
               "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
MOST_TRIES = 3


def private_python():
    python = VENV / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", *PACKAGES], check=True)
    return python


class Failed(Exception):
    pass


class Bench:
    """State shared by all turns."""

    def __init__(self, options):
        self.options = options
        self.best = {}  # best peak rates of the run, GFLOP/s by type
        self.bandwidths = {}  # read bandwidth, GB/s by working set
        self.device = None

    def run(self, command, **kwargs):
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                              check=False, preexec_fn=self.pin, env=self.environment(), **kwargs)
        if done.returncode:
            lines = (done.stderr.strip() or f"exit {done.returncode}").splitlines()
            raise Failed(lines[-1][:200])
        return json.loads(done.stdout.splitlines()[-1])

    def cores(self):
        """The cores of every system: --threads of those available, from --core on."""
        available = [core for core in sorted(os.sched_getaffinity(0))
                     if core >= self.options.core]
        return available[:self.options.threads]

    def pin(self):
        os.sched_setaffinity(0, self.cores())

    @contextlib.contextmanager
    def busy_loops(self):
        """Runs the programs that systems compete with for their cores."""
        loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"],
                                  preexec_fn=self.pin) for _ in range(self.options.busy)]
        try:
            yield
        finally:
            for loop in loops:
                loop.kill()
                loop.wait()

    def environment(self):
        threads = str(self.options.threads)
        return {**os.environ, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads,
                "CUDA_VISIBLE_DEVICES": "", "TORCHINDUCTOR_COMPILE_THREADS": "1"}

    def peer(self, *words):
        small = ["--small"] if self.options.small else []
        return [self.options.python, HERE / "peer.py", *words, *small]

    def probe(self):
        """Current peak rates of the core."""
        self.device = self.run([self.options.mpc, "devices", "--json"])["devices"][0]
        ceilings = self.device["ceilings"]["gflops"]
        for key, value in ceilings.items():
            self.best[key] = max(value, self.best.get(key, 0))
        for level in self.device["ceilings"]["bandwidths"]:
            size, rate = level["working_set"], level["gigabytes_per_second"]
            self.bandwidths[size] = max(rate, self.bandwidths.get(size, 0))
        return ceilings

    def turn(self, system):
        """An undisturbed measurement of a system; after some tries, any."""
        if self.options.busy:
            with self.busy_loops():
                return {**system.measure(), "calm": True}
        for _ in range(MOST_TRIES):
            before = self.probe()
            measured = system.measure()
            after = self.probe()
            slow = any(min(before[key], after[key]) < 0.95 * self.best[key] for key in before)
            measured["calm"] = not slow and measured["disturbed_runs"] < measured["runs"]
            if measured["calm"]:
                break
        return measured


class Mpc:
    """mpc recompiles for each turn, outside the timed region."""

    def __init__(self, bench, name, system, workload, policy, storage, folder, guess):
        self.bench, self.system, self.precision = bench, system, PRECISIONS[policy, storage]
        self.folder = folder
        model = folder / f"{storage}.onnx" if workload else f"{name}/model.onnx"
        self.model = [str(model), "--policy", policy,
                      *(["--reproducible"] if system == REPRODUCIBLE else [])]
        self.training = ["--training", workload.training()] if workload and workload.trains else []
        self.runs = ["--runs", str(max(2, int(bench.options.seconds / guess)))] \
            if guess > 0.2 else []

    def start(self):
        return self.errors()

    def measure(self):
        found = self.bench.run([self.bench.options.mpc, "bench", *self.model, *self.training,
                                *self.runs, "--threads", self.bench.options.threads, "--seed", "7",
                                "--json", "--quiet",
                                *([] if self.training else ["--input", self.inputs()])])
        keep = ["median_ms", "min_ms", "runs", "disturbed_runs", "peak_rss_bytes", "arena_bytes",
                "bytes", "isa"]
        slowest = sorted(found["kernels"], key=lambda kernel: -kernel["median_ms"])[:3]
        whole = sum(kernel["median_ms"] for kernel in found["kernels"]) or 1
        return {**{key: found[key] for key in keep}, "prepare_ms": found["compile_ms"],
                "kernels": [{**{key: kernel[key] for key in ("name", "kind", "count", "median_ms",
                                                             "fraction_of_ceiling")},
                             "share": kernel["median_ms"] / whole} for kernel in slowest]}

    def inputs(self):
        return self.folder / "inputs.npz"

    def errors(self):
        expected = self.folder / "expected.npz"
        if self.training or not expected.exists():
            return {}
        output = self.folder / "actual.npz"
        self.bench.run([self.bench.options.mpc, "run", *self.model, "--threads", "1", "--quiet",
                        "--json", "--input", self.inputs(), "--output", output])
        return self.bench.run(self.bench.peer("judge", output, expected))

    def stop(self):
        pass


class Peer:
    """A process that has prepared a peer and waits for its turns."""

    def __init__(self, bench, name, system, precision, folder):
        self.bench, self.system, self.precision = bench, system, precision
        self.words = ["serve", name, system, precision, folder]
        self.process = self.log = None

    def start(self):
        bench = self.bench
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [str(word) for word in bench.peer(*self.words)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=self.log, text=True, preexec_fn=bench.pin,
            env={**bench.environment(), **KEEP_MEMORY})
        return self.hear()

    def hear(self):
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        self.process.wait()
        self.log.seek(0)
        lines = [line for line in self.log.read().splitlines() if line.strip()] or ["no answer"]
        raise Failed(f"exit {self.process.returncode}: {lines[-1][:200]}")

    def measure(self):
        try:
            self.process.stdin.write(json.dumps({"seconds": self.bench.options.seconds}) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # hear() reports the cause
        return self.hear()

    def stop(self):
        if self.process:
            self.process.stdin.close()
            self.process.wait()
            self.log.close()


# bench.py's name of a policy with the storage type of the model's tensors.
PRECISIONS = {("float32", "float32"): "float32", ("mixed_bfloat16", "float32"): "mixed",
              ("mixed_bfloat16", "bfloat16"): "bfloat16"}


def systems_of(bench, name, workload, folder, flops):
    """The systems that run a workload, in the order of their turns."""
    guess = flops / (bench.best["f32"] * 1e9)
    inference = workload and not workload.trains
    precisions = workload.precisions if workload else ["float32", "mixed"]
    mpc = [Mpc(bench, name, system, workload, *how, folder, guess)
           for how, precision in PRECISIONS.items() if precision in precisions
           for system in ("mpc", REPRODUCIBLE)]
    peers = []
    if workload:
        peers = [(system, precision) for system in ("torch-eager", "torch-compile")
                 for precision in precisions]
    if inference or not workload:
        peers.append(("onnxruntime", "float32"))
    chosen = bench.options.systems.split(",")
    return [system for system in mpc + [Peer(bench, name, *peer, folder) for peer in peers]
            if system.system in chosen]


def median(values):
    return sorted(values)[len(values) // 2]


def merge(turns):
    """One row of a system's turns; the minimum time if all were disturbed."""
    calm = [turn for turn in turns if turn["calm"]]
    least = min(turn["min_ms"] for turn in turns)
    row = {**(calm or turns)[-1], "min_ms": least, "calm": bool(calm),
           "median_ms": median([turn["median_ms"] for turn in calm]) if calm else least,
           "turns": len(turns), "runs": sum(turn["runs"] for turn in turns),
           "disturbed_runs": sum(turn["disturbed_runs"] for turn in turns)}
    if "peak_rss_bytes" in row:
        row["peak_rss_bytes"] = max(turn["peak_rss_bytes"] for turn in turns)
    return row


def run_workload(bench, name, workload, folder):
    """Rows of all systems on one workload."""
    facts = bench.run(bench.peer("prepare", name, folder))
    systems, rows = [], []
    everyone = systems_of(bench, name, workload, folder, facts["flops"])
    try:
        for system in everyone:
            row = {"system": system.system, "precision": system.precision}
            try:
                systems.append((system, {**row, **system.start()}, []))
            except Failed as why:
                rows.append({**row, "error": str(why)})
        for _ in range(bench.options.rounds):
            for entry in list(systems):
                system, row, turns = entry
                try:
                    turns.append(bench.turn(system))
                except Failed as why:
                    rows.append({**row, "error": str(why)})
                    systems.remove(entry)
    finally:
        for system in everyone:
            system.stop()
    rows += [{**row, **merge(turns)} for _, row, turns in systems]
    return {"workload": pathlib.Path(name).name, **facts, "rows": rows,
            "trains": bool(workload and workload.trains)}


def machine(bench):
    return {"processor": bench.device["name"], "features": bench.device["features"],
            "isa": bench.device["isa"], "system": platform.platform(), "gflops": bench.best,
            "bandwidths": sorted(bench.bandwidths.items())}


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--report", action="store_true", help="report the history's last run")
    parser.add_argument("--history", type=pathlib.Path, default=pathlib.Path("bench.jsonl"))
    parser.add_argument("--markdown", type=pathlib.Path)
    parser.add_argument("--svg", type=pathlib.Path)
    parser.add_argument("--mpc", type=pathlib.Path, default=ROOT / "build" / "bin" / "mpc")
    parser.add_argument("--python", type=pathlib.Path, help="environment that has the peers")
    parser.add_argument("--systems", default="mpc,torch-eager,torch-compile,onnxruntime")
    parser.add_argument("--core", type=int, default=min(os.sched_getaffinity(0)))
    parser.add_argument("--threads", type=int, default=1, help="of each system, on as many cores")
    parser.add_argument("--busy", type=int, default=0, metavar="N",
                        help="busy loops beside each system, on the same cores")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="of one turn")
    parser.add_argument("--small", action="store_true", help="small shapes, to try the tool")
    return parser.parse_args(arguments)


def listing():
    for i, workload in enumerate(WORKLOADS):
        print(f"C{i + 1:<3} {workload.name:20} {workload.about}")
    print(f"sweep    {', '.join(workload.name for workload in SWEEP)}")


def run_one(bench, name, document):
    """Appends a workload's rows to the document."""
    print(f"{name} ...", file=sys.stderr, flush=True)
    workload = None if "/" in name else find(name)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="mpc-bench-"))
    try:
        found = run_workload(bench, workload.name if workload else name, workload, folder)
        document["workloads"].append(found)
        print(report.lines_of(found), file=sys.stderr, flush=True)
    except Failed as why:
        print(f"{name}: {why}", file=sys.stderr)
    finally:
        shutil.rmtree(folder)


def measure_all(options):
    names = options.workloads or [workload.name for workload in WORKLOADS]
    names = [each for name in names
             for each in ([w.name for w in SWEEP] if name == "sweep" else [name])]
    for name in names:
        if "/" not in name:
            find(name)
    options.python = options.python or private_python()
    bench = Bench(options)
    if len(bench.cores()) < options.threads:
        sys.exit(f"error: there are {len(bench.cores())} cores from {options.core} on, but "
                 f"--threads is {options.threads}")
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"],
                            capture_output=True, text=True, check=False).stdout.strip()
    bench.probe()
    document = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "small": options.small, "commit": commit, "core": options.core,
                "threads": options.threads, "busy": options.busy,
                "workloads": []}
    try:
        for name in names:
            run_one(bench, name, document)
    finally:  # write partial results on interruption
        document["machine"] = machine(bench)
        with open(options.history, "a", encoding="utf-8") as file:
            file.write(json.dumps(document) + "\n")
    return document


def main():
    options = parse(sys.argv[1:])
    if options.list:
        listing()
        return 0
    if options.report:
        with open(options.history, encoding="utf-8") as file:
            document = json.loads(file.readlines()[-1])
    else:
        document = measure_all(options)
    text = report.markdown(document)
    if options.markdown:
        options.markdown.write_text(text, encoding="utf-8")
    else:
        print(text)
    if options.svg:
        report.draw(document, options.svg, options.python or private_python())
    return 0


if __name__ == "__main__":
    sys.exit(main())
