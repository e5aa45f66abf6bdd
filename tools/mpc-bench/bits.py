#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the bits of reproducible results over CPU levels, threads and batches.

For each model and policy, every level of a bit class must have one SHA-256 per output with 1, 2 and 3
threads; with --batch, the first and the last row of a batch of 7 must have the bits of the row alone; with
--training, parameters after five training steps must be equal over levels, and the first step's logits
those of inference. --seeds adds graphs of mpc-smith, each under its own policy and those of --policies;
with --fusion, one op per kernel must have the bits of fused kernels. Levels are emulated unless --native.
Finished cases are kept in --state, so that an interrupted run continues.

    bits.py --mpc build/bin/mpc --state bits.json --batch --seeds 1 1000 shared/models/*/model.onnx
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import functools
import itertools
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy

CLASSES = {"vector": ("avx2", "avx512", "avx512vnni", "avx512bf16"), "amx": ("amx",)}
POLICIES = ("float32", "mixed_bfloat16", "mixed_float16")
THREADS = (1, 2, 3)
BATCH = 7
STEPS = 5


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
        self.lock = threading.Lock()
        self.known: dict[str, dict[str, str]] = json.loads(state.read_text()) if state and state.exists() else {}

    def remembered(self, key: str, compute: Callable[[], dict[str, str]]) -> dict[str, str]:
        if key not in self.known:
            found = compute()
            with self.lock:
                self.known[key] = found
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


def with_threads(levels: tuple[str, ...]) -> list[tuple[str, int]]:
    """Returns the levels with one number of threads each; one level with two."""
    return list(zip(levels if len(levels) > 1 else levels * 2, itertools.cycle(THREADS), strict=False))


def check_levels(matrix: Matrix, case: Case, all_threads: bool) -> Iterator[str]:
    """Yields what differs over levels and threads; not `all_threads`: one number of threads per level."""
    inputs = ["--input", str(case.inputs)] if case.inputs else []
    for bit_class, levels in CLASSES.items():
        def runs() -> Iterator[tuple[str, dict[str, str]]]:
            for level, threads in itertools.product(levels, THREADS) if all_threads else with_threads(levels):
                name = f"{level}, {threads} threads"
                flags = [*inputs, *matrix.flags(case, level), "--threads", str(threads)]
                yield name, matrix.remembered(f"{case.name}: {name}",
                                              lambda flags=flags: matrix.digests(str(case.model), *flags))

        yield from first_difference(runs(), bit_class)


def labels_for(matrix: Matrix, step: str, inputs: pathlib.Path | None) -> numpy.ndarray:
    """Returns labels for a training step, which names their type in the error without them."""
    import numpy

    done = subprocess.run([matrix.mpc, "run", step, "--input", str(inputs), "--quiet"], capture_output=True, text=True,
                          check=False)
    found = re.search(r"input 'label': has no array; add (\w+)\[([\d,]*)\]", done.stderr)
    if not found:
        raise RuntimeError(f"{step}: wants no labels: {done.stderr.strip()}")
    shape = [int(extent) for extent in found[2].split(",") if extent]
    integers = numpy.arange(numpy.prod(shape, dtype=int)).reshape(shape) % 2
    return integers.astype(numpy.int32 if found[1] == "i32" else numpy.float32)


def check_training(matrix: Matrix, case: Case) -> Iterator[str]:
    """Yields what differs over levels after some training steps: parameters, state, loss and logits.

    Labels are generated, the loss reads the first output. The first step's logits must be those of inference.
    """
    import numpy

    def steps(level: str, threads: int, output: str) -> dict[str, str]:
        target = f"cpu:{level}{'-emulated' if matrix.is_emulated(level) else ''}"
        with tempfile.TemporaryDirectory() as folder:
            step, labels, state = f"{folder}/step.mpcx", f"{folder}/labels.npz", f"{folder}/state.npz"
            matrix.call("compile", str(case.model), "--input", str(case.inputs), "--policy", case.policy,
                        "--reproducible", "--training", f"step optimizer=adam loss-output={output}", "--target", target,
                        "-o", step)
            numpy.savez(labels, label=labels_for(matrix, step, case.inputs))
            found: dict[str, str] = {}
            for number in range(STEPS):
                before = ["--input", state] if number else []
                outputs = matrix.digests(step, "--input", str(case.inputs), "--input", labels, *before,
                                         "--output", state, "--threads", str(threads))
                if number == 0:
                    found = {f"first {name}": digest for name, digest in outputs.items()}
            return found | outputs

    for bit_class, levels in CLASSES.items():
        inference = matrix.remembered(f"{case.name}: inference on {levels[0]}", lambda level=levels[0]: matrix.digests(
            str(case.model), "--input", str(case.inputs), *matrix.flags(case, level)))
        runs = []
        for level, threads in with_threads(levels):
            name = f"{level}, {threads} threads"
            runs.append((name, matrix.remembered(f"{case.name}: {STEPS} steps on {name}",
                                                 functools.partial(steps, level, threads, next(iter(inference))))))
        yield from first_difference(runs, bit_class)
        # Training normalizes with a batch's statistics.
        if not any("running_mean" in name for name in runs[0][1]):
            for name, digest in inference.items():
                if runs[0][1].get(f"first {name}", digest) != digest:
                    yield f"class {bit_class}: {name} of a training step differs from inference"


def row_of(array: numpy.ndarray, place: int, extent: int) -> numpy.ndarray:
    """Returns one row of a batch, which is the first dimension of that extent; an array without one as it is."""
    return array.take([place], axis=array.shape.index(extent)) if extent in array.shape else array


def check_batch(matrix: Matrix, case: Case) -> Iterator[str]:
    """Yields which rows of a batch differ from the row alone; the first input's first dimension is the batch.

    A model with a fixed batch has no row alone: its first row among others is the reference. A sequence is no
    batch: its states have no such dimension. A dynamic scale is one of all rows.
    """
    import numpy

    given = dict(numpy.load(case.inputs))
    extent = len(next(iter(given.values())))
    if (any(array.ndim and extent not in array.shape for array in given.values())
            or b"DynamicQuantizeLinear" in case.model.read_bytes()):
        return
    rows = {name: row_of(array, 0, extent) for name, array in given.items()}
    axes = {name: array.shape.index(extent) if extent in array.shape else None for name, array in given.items()}

    def outputs(level: str, arrays: dict[str, numpy.ndarray], *flags: str) -> dict[str, numpy.ndarray]:
        with tempfile.TemporaryDirectory() as folder:
            numpy.savez(f"{folder}/in.npz", **arrays)
            matrix.call("run", str(case.model), "--input", f"{folder}/in.npz", "--output", f"{folder}/out.npz",
                        *flags, *matrix.flags(case, level))
            return dict(numpy.load(f"{folder}/out.npz"))

    def differences(levels: tuple[str, ...]) -> dict[str, str]:
        size, flags, found = BATCH, ["--batch", str(BATCH)], {}
        try:
            alone = outputs(levels[0], rows, "--batch", "1")
        except RuntimeError:
            size, flags = extent, []
            alone = {name: row_of(array, 0, size) for name, array in outputs(levels[0], given).items()}
        for level, place in itertools.product(levels, sorted({0, size - 1})):
            batch = {}
            for name, row in rows.items():
                if axes[name] is None:
                    batch[name] = row
                    continue
                # The other rows hold the same values in another order.
                others = [numpy.roll(row, i + 1, axis=-1) for i in range(size)]
                others[place] = row
                batch[name] = numpy.concatenate(others, axis=axes[name])
            for name, array in outputs(level, batch, *flags).items():
                if alone[name].tobytes() != row_of(array, place, size).tobytes():
                    found[name] = f"row {place} of {size} on {level} differs from the row alone"
        return found

    for bit_class, levels in CLASSES.items():
        key = f"{case.name}: batch, class {bit_class}"
        for name, text in matrix.remembered(key, lambda levels=levels: differences(levels)).items():
            yield f"class {bit_class}: {name}: {text}"


def check_fusion(matrix: Matrix, case: Case) -> Iterator[str]:
    """Yields what differs between a graph in fused kernels and with one op per kernel."""
    head, function, body = case.model.read_text().partition(") {\n")
    alone = case.model.with_suffix(".unfused.mlir")
    if not function:
        raise RuntimeError(f"{case.model}: has no function to mark as unfused")
    alone.write_text(f"{head}) attributes {{mpc.unfused}} {{\n{body}")
    for bit_class, levels in CLASSES.items():
        flags = matrix.flags(case, levels[0])
        runs = ((name, matrix.remembered(f"{case.name}: {name} on {levels[0]}",
                                         lambda model=model: matrix.digests(str(model), *flags)))
                for name, model in (("fused", case.model), ("unfused", alone)))
        yield from first_difference(runs, bit_class)


def generated(smith: str, seed: int, other: str | None, folder: pathlib.Path) -> Case:
    """Returns the graph that mpc-smith generates of a seed, under its policy or another one, without overrides."""
    text = subprocess.run([smith, "--print", "--seed", str(seed), "--training", "0", "--cuda-host", "0", "--exact", "0"],
                          capture_output=True, text=True, check=True).stdout
    setting = json.loads(text.partition("\n")[0].removeprefix("// mpc-smith: "))
    model = folder / f"{seed}-{pathlib.Path(other or 'own').stem}.mlir"
    model.write_text(text)
    policy = setting["policy"]
    if setting["policy_text"]:
        file = folder / f"{seed}.json"
        file.write_text(setting["policy_text"])
        policy = str(file)
    return Case(f"seed {seed} {other}", model, other) if other else Case(f"seed {seed}", model, policy)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=pathlib.Path, help="models with an inputs.npz beside them")
    parser.add_argument("--mpc", default="mpc")
    parser.add_argument("--smith", default="mpc-smith")
    parser.add_argument("--seeds", nargs=2, type=int, metavar=("FIRST", "LAST"), help="graphs of mpc-smith")
    parser.add_argument("--policies", nargs="*", help=f"policies of models (default: {' '.join(POLICIES)}), and "
                        "of generated graphs beside their own (default: none)")
    parser.add_argument("--state", type=pathlib.Path, help="file of finished cases")
    parser.add_argument("--batch", action="store_true", help="also compare rows of a batch")
    parser.add_argument("--training", action="store_true", help="also compare training steps")
    parser.add_argument("--fusion", action="store_true", help="also compare fused and unfused generated graphs")
    parser.add_argument("--native", action="store_true", help="use this machine's units, without emulation")
    parser.add_argument("--jobs", type=int, default=1, help="cases at once")
    parser.add_argument("--minutes", type=float, default=60, help="time limit")
    arguments = parser.parse_args()
    matrix = Matrix(arguments.mpc, arguments.state, arguments.native)
    end = time.monotonic() + 60 * arguments.minutes

    def problems_of(make: Callable[[], Case]) -> tuple[Case, list[str]] | None:
        if time.monotonic() > end:
            return None
        case = make()
        try:
            problems = list(check_levels(matrix, case, all_threads=case.inputs is not None))
            # Arguments of StableHLO modules are weights, too.
            is_model = case.model.suffix == ".onnx"
            if arguments.batch and is_model:
                problems += check_batch(matrix, case)
            if arguments.training and is_model:
                problems += check_training(matrix, case)
            if arguments.fusion and not case.inputs:
                problems += check_fusion(matrix, case)
            return case, problems
        except RuntimeError as error:
            return case, [str(error)]

    wrong = count = late = 0
    with (tempfile.TemporaryDirectory() as folder,
          concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool):
        cases = [Case(f"{model.parent.name} {policy}", model, policy, inputs=model.parent / "inputs.npz")
                 for model in arguments.models for policy in arguments.policies or POLICIES]
        first, last = arguments.seeds or (0, -1)
        makers: list[Callable[[], Case]] = [lambda case=case: case for case in cases]
        makers += [functools.partial(generated, arguments.smith, seed, policy, pathlib.Path(folder))
                   for seed in range(first, last + 1) for policy in (None, *(arguments.policies or ()))]
        for done in pool.map(problems_of, makers):
            if done is None:
                late += 1
                continue
            case, problems = done
            count += 1
            wrong += bool(problems)
            if problems or case.inputs:
                print(f"{case.name}: {'DIFFERENT' if problems else 'equal'}", flush=True)
            for problem in problems:
                print(f"  {problem}", flush=True)
    if late:
        print(f"out of time before {late} cases; --state continues")
    print(f"{wrong} of {count} cases differ")
    return 4 if wrong else bool(late)


if __name__ == "__main__":
    sys.exit(main())
