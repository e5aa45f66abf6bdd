#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the bits of reproducible results over CPU levels, threads and batches.

For each model and policy, every level of a bit class must have one SHA-256 per output with 1, 2 and 3
threads; with --batch, the first and the last row of a batch of 7 must have the bits of the row alone; with
--training, the results of a training step must be equal over levels. --seeds adds graphs of mpc-smith,
each under its own policy; with --fusion, one op per kernel must have the bits of fused kernels. Levels are emulated unless --native. Finished cases are kept in --state, so that
an interrupted run continues.

    bits.py --mpc build/bin/mpc --state bits.json --batch --seeds 1 1000 shared/models/*/model.onnx
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator

CLASSES = {"vector": ("avx2", "avx512", "avx512vnni", "avx512bf16"), "amx": ("amx",)}
POLICIES = ("float32", "mixed_bfloat16", "mixed_float16")
THREADS = (1, 2, 3)
BATCH = 7


@dataclasses.dataclass
class Case:
    """A model under a policy."""

    name: str
    model: pathlib.Path
    policy: str
    inputs: pathlib.Path | None = None


class Matrix:
    """Runs cases and remembers what was found."""

    def __init__(self, mpc: str, state: pathlib.Path | None, native: bool) -> None:
        self.mpc, self.state, self.native = mpc, state, native
        self.known: dict[str, dict[str, str]] = json.loads(state.read_text()) if state and state.exists() else {}

    def remembered(self, key: str, compute: Callable[[], dict[str, str]]) -> dict[str, str]:
        if key not in self.known:
            self.known[key] = compute()
            if self.state:
                self.state.write_text(json.dumps(self.known))
        return self.known[key]

    def call(self, *command: str) -> str:
        done = subprocess.run([self.mpc, *command, "--quiet"], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"mpc {' '.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def digests(self, model: str, *flags: str) -> dict[str, str]:
        """Returns the digest of each output."""
        return json.loads(self.call("run", model, "--digest", "--json", *flags))["digests"]["outputs"]

    def is_emulated(self, level: str) -> bool:
        return not self.native and level != "avx2"

    def flags(self, case: Case, level: str) -> list[str]:
        return ["--policy", case.policy, "--reproducible", "--isa", level,
                *(["--emulate-units"] if self.is_emulated(level) else [])]


def first_difference(runs: Iterable[tuple[str, dict[str, str]]], bit_class: str) -> Iterator[str]:
    """Yields the runs whose digests differ from those of the first one."""
    first: tuple[str, dict[str, str]] | None = None
    for name, found in runs:
        first = first or (name, found)
        if found != first[1]:
            outputs = ", ".join(output for output in found if found[output] != first[1].get(output))
            yield f"class {bit_class}: {outputs}: {name} differs from {first[0]}"


def check_levels(matrix: Matrix, case: Case, all_threads: bool) -> Iterator[str]:
    """Yields what differs over levels and threads; not `all_threads`: one number of threads per level."""
    inputs = ["--input", str(case.inputs)] if case.inputs else []
    for bit_class, levels in CLASSES.items():
        def runs() -> Iterator[tuple[str, dict[str, str]]]:
            for place, level in enumerate(levels if all_threads or len(levels) > 1 else levels * 2):
                for threads in THREADS if all_threads else (THREADS[place % len(THREADS)],):
                    name = f"{level}, {threads} threads"
                    flags = [*inputs, *matrix.flags(case, level), "--threads", str(threads)]
                    yield name, matrix.remembered(f"{case.name}: {name}",
                                                  lambda flags=flags: matrix.digests(str(case.model), *flags))

        yield from first_difference(runs(), bit_class)


def check_training(matrix: Matrix, case: Case) -> Iterator[str]:
    """Yields what differs over levels in the results of a training step: parameters, state and loss."""
    for bit_class, levels in CLASSES.items():
        def step(level: str) -> dict[str, str]:
            with tempfile.TemporaryDirectory() as folder:
                target = f"cpu:{level}{'-emulated' if matrix.is_emulated(level) else ''}"
                matrix.call("compile", str(case.model), "--input", str(case.inputs), "--policy", case.policy,
                            "--reproducible", "--training", "step optimizer=adam", "--target", target,
                            "-o", f"{folder}/step.mpcx")
                return matrix.digests(f"{folder}/step.mpcx")

        runs = ((level, matrix.remembered(f"{case.name}: step on {level}", lambda level=level: step(level)))
                for level in levels)
        yield from first_difference(runs, bit_class)


def check_batch(matrix: Matrix, case: Case) -> Iterator[str]:
    """Yields which rows of a batch differ from the row alone; the first dimension is the batch."""
    import numpy

    rows = {name: array[:1] for name, array in numpy.load(case.inputs).items()}

    def outputs(level: str, arrays: dict[str, numpy.ndarray]) -> dict[str, numpy.ndarray]:
        with tempfile.TemporaryDirectory() as folder:
            numpy.savez(f"{folder}/in.npz", **arrays)
            extent = len(next(iter(arrays.values())))
            matrix.call("run", str(case.model), "--input", f"{folder}/in.npz", "--output", f"{folder}/out.npz",
                        "--batch", str(extent), *matrix.flags(case, level))
            return dict(numpy.load(f"{folder}/out.npz"))

    def differences(level: str) -> dict[str, str]:
        alone, found = outputs(level, rows), {}
        for place in (0, BATCH - 1):
            batch = {}
            for name, row in rows.items():
                # The other rows hold the same values in another order.
                others = [numpy.roll(row, i + 1, axis=-1) for i in range(BATCH)]
                others[place] = row
                batch[name] = numpy.concatenate(others)
            together = outputs(level, batch)
            for name, array in alone.items():
                if array.tobytes() != together[name][place:place + 1].tobytes():
                    found[name] = f"row {place} of {BATCH} differs from the row alone"
        return found

    for bit_class, levels in CLASSES.items():
        key = f"{case.name}: batch, class {bit_class}"
        for name, text in matrix.remembered(key, lambda: differences(levels[0])).items():
            yield f"class {bit_class}: {name}: {text}"


def check_fusion(matrix: Matrix, case: Case) -> Iterator[str]:
    """Yields what differs between a graph in fused kernels and with one op per kernel."""
    head, function, body = case.model.read_text().partition(") {\n")
    alone = case.model.with_suffix(".unfused.mlir")
    alone.write_text(f"{head}) attributes {{mpc.unfused}} {{\n{body}" if function else head)
    for bit_class, levels in CLASSES.items():
        flags = matrix.flags(case, levels[0])
        runs = ((name, matrix.remembered(f"{case.name}: {name} on {levels[0]}",
                                         lambda model=model: matrix.digests(str(model), *flags)))
                for name, model in (("fused", case.model), ("unfused", alone)))
        yield from first_difference(runs, bit_class)


def generated(smith: str, seed: int, folder: pathlib.Path) -> Case:
    """Returns the graph that mpc-smith generates of a seed, with its policy; overrides may be wrong on purpose."""
    text = subprocess.run([smith, "--print", "--seed", str(seed), "--training", "0", "--cuda-host", "0", "--exact", "0"],
                          capture_output=True, text=True, check=True).stdout
    setting = json.loads(text.partition("\n")[0].removeprefix("// mpc-smith: "))
    model = folder / f"{seed}.mlir"
    model.write_text(text)
    policy = setting["policy"]
    if setting["policy_text"]:
        file = folder / f"{seed}.json"
        file.write_text(setting["policy_text"])
        policy = str(file)
    return Case(f"seed {seed}", model, policy)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=pathlib.Path, help="models with an inputs.npz beside them")
    parser.add_argument("--mpc", default="mpc")
    parser.add_argument("--smith", default="mpc-smith")
    parser.add_argument("--seeds", nargs=2, type=int, metavar=("FIRST", "LAST"), help="graphs of mpc-smith")
    parser.add_argument("--policies", nargs="+", default=POLICIES)
    parser.add_argument("--state", type=pathlib.Path, help="file of finished cases")
    parser.add_argument("--batch", action="store_true", help="also compare rows of a batch")
    parser.add_argument("--training", action="store_true", help="also compare training steps")
    parser.add_argument("--fusion", action="store_true", help="also compare fused and unfused generated graphs")
    parser.add_argument("--native", action="store_true", help="use this machine's units, without emulation")
    parser.add_argument("--minutes", type=float, default=60, help="time limit")
    arguments = parser.parse_args()
    matrix = Matrix(arguments.mpc, arguments.state, arguments.native)
    end = time.monotonic() + 60 * arguments.minutes
    wrong = count = 0
    with tempfile.TemporaryDirectory() as folder:
        cases = [Case(f"{model.parent.name} {policy}", model, policy, inputs=model.parent / "inputs.npz")
                 for model in arguments.models for policy in arguments.policies]
        first, last = arguments.seeds or (0, -1)
        lazy = itertools.chain(cases, (generated(arguments.smith, seed, pathlib.Path(folder))
                                       for seed in range(first, last + 1)))
        for case in lazy:
            if time.monotonic() > end:
                print(f"out of time after {count} cases; --state continues")
                return 1
            count += 1
            try:
                problems = list(check_levels(matrix, case, all_threads=case.inputs is not None))
                if arguments.batch and case.inputs:
                    problems += check_batch(matrix, case)
                if arguments.training and case.inputs:
                    problems += check_training(matrix, case)
                if arguments.fusion and not case.inputs:
                    problems += check_fusion(matrix, case)
            except RuntimeError as error:
                problems = [str(error)]
            wrong += bool(problems)
            if problems or case.inputs:
                print(f"{case.name}: {'DIFFERENT' if problems else 'equal'}", flush=True)
            for problem in problems:
                print(f"  {problem}")
    print(f"{wrong} of {count} cases differ")
    return 4 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
