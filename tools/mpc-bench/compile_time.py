#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compile time and memory by stage, for graphs of 1,000 to 50,000 ops, as a
table in Markdown.

  tools/mpc-bench/compile_time.py [KIND...] [--ops 1000,10000,50000]
      [--flags "policy=mixed_bfloat16 target=cuda:sm_90"] [--build build]

KIND names a graph of large_graphs.py; all by default. Each stage runs in a
separate process, on one core, from the bytecode that the previous stage wrote.
A cell holds CPU seconds, including reading and writing, and after a slash the
peak memory in MB; 'empty' is an idle process. Flags with 'training=...' add the
stages of a training step.
"""

import argparse
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

from large_graphs import KINDS

STAGES = ["lift", "simplify", "differentiate", "precision", "loss-scale", "pad",
          "layout", "fuse", "plan"]
TRAINING = {"lift", "differentiate", "loss-scale"}


def measure(command, limit):
    """CPU seconds, peak MB, and the error message of a failure."""
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU,
                                              (limit, limit)))
    errors = process.stderr.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    seconds = usage.ru_utime + usage.ru_stime
    if status:
        return None, f"more than {limit} s" if seconds >= limit - 1 else errors
    return (seconds, usage.ru_maxrss / 1024), ""


def cell(figures):
    return f"{figures[0]:.2f} / {figures[1]:.0f}"


def row(tool, name, graph, stages, flags, limit, folder):
    """The cells of one graph; stops at the first failing stage."""
    commands = [("parse", [])] + [
        (stage, [f"--mpc-pipeline-{stage}={flags}"]) for stage in stages]
    cells, total, source = [], 0, graph
    for stage, passes in commands:
        target = folder / f"{stage}.mlirbc"
        figures, error = measure(
            [tool, source, "--mlir-disable-threading", "--emit-bytecode", "-o",
             target, *passes], limit)
        if not figures:
            cells.append(error.split("\n")[0][:60])
            break
        cells.append(cell(figures))
        total += figures[0]
        source = target
    cells += [""] * (len(commands) - len(cells))
    print("|", " | ".join([name, *cells, f"{total:.2f}"]), "|", flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="KIND")
    parser.add_argument("--ops", default="1000,10000,50000")
    parser.add_argument("--flags",
                        default="policy=mixed_bfloat16 target=cuda:sm_90")
    parser.add_argument("--build", type=pathlib.Path,
                        default=pathlib.Path("build"))
    parser.add_argument("--limit", type=int, default=600,
                        help="seconds that a stage may take")
    options = parser.parse_args()
    unknown = set(options.kinds) - set(KINDS)
    if unknown:
        sys.exit(f"unknown graph '{sorted(unknown)[0]}'; there are "
                 + ", ".join(KINDS))
    tool = options.build / "bin" / "mpc-opt"
    stages = [stage for stage in STAGES
              if "training=" in options.flags or stage not in TRAINING]
    print("| graph | ops |", " | ".join(["parse", *stages, "seconds"]), "|")
    print("|---|--:|" + "--:|" * (len(stages) + 2))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        empty = folder / "empty.mlir"
        empty.write_text("")
        figures, error = measure([tool, empty], options.limit)
        if error:
            sys.exit(error)
        print(f"| empty | 0 | {cell(figures)} |"
              + " |" * (len(stages) + 1))
        for kind in options.kinds or KINDS:
            for ops in map(int, options.ops.split(",")):
                graph = folder / "graph.mlir"
                graph.write_text(KINDS[kind](ops))
                row(tool, f"{kind} | {ops:,}", graph, stages, options.flags,
                    options.limit, folder)


if __name__ == "__main__":
    main()
