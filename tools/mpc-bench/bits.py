#!/usr/bin/env python3
"""Compares the bits of reproducible results over CPU levels, threads and batches.

For each model and policy, every level of a bit class must have one SHA-256 per output with 1, 2 and 3
threads; with --batch, each row of a batch of 7 must have the bits of the row alone. Levels that this
machine lacks are emulated. Finished cases are kept in --state, so that an interrupted run continues.

    bits.py --mpc build/bin/mpc --state bits.json shared/models/*/model.onnx
"""

from __future__ import annotations

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import numpy

CLASSES = {"vector": ("avx2", "avx512", "avx512vnni", "avx512bf16"), "amx": ("amx",)}
POLICIES = ("float32", "mixed_bfloat16", "mixed_float16")
THREADS = (1, 2, 3)
BATCH = 7


class Matrix:
    """Runs models and remembers their digests."""

    def __init__(self, mpc: str, state: pathlib.Path | None, native: bool) -> None:
        self.mpc, self.state, self.native = mpc, state, native
        self.known: dict[str, dict[str, str]] = {}
        if state and state.exists():
            self.known = json.loads(state.read_text())

    def run(self, model: str, flags: list[str], output: str = "") -> dict[str, str]:
        """Returns the digest of each output."""
        command = [self.mpc, "run", model, "--reproducible", "--digest", "--json", "--quiet", *flags,
                   *(["--output", output] if output else [])]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
        return json.loads(done.stdout)["digests"]["outputs"]

    def level(self, name: str) -> list[str]:
        native = self.native or name == "avx2"
        return ["--isa", name, *([] if native else ["--emulate-units"])]

    def digests(self, key: str, model: str, flags: list[str]) -> dict[str, str]:
        if key not in self.known:
            self.known[key] = self.run(model, flags)
            if self.state:
                self.state.write_text(json.dumps(self.known))
        return self.known[key]


def inputs_of(model: pathlib.Path) -> list[str]:
    file = model.parent / "inputs.npz"
    return ["--input", str(file)] if file.exists() else []


def check_levels(matrix: Matrix, model: pathlib.Path, policy: str) -> Iterator[str]:
    """Yields what differs over levels and threads."""
    for bit_class, levels in CLASSES.items():
        first: tuple[str, dict[str, str]] | None = None
        for level in levels:
            for threads in THREADS:
                case = f"{level}, {threads} threads"
                flags = [*inputs_of(model), "--policy", policy, *matrix.level(level), "--threads", str(threads)]
                found = matrix.digests(f"{model} {policy} {case}", str(model), flags)
                if first is None:
                    first = case, found
                elif found != first[1]:
                    names = ", ".join(name for name in found if found[name] != first[1].get(name))
                    yield f"class {bit_class}: {names}: {case} differs from {first[0]}"


def check_batch(matrix: Matrix, model: pathlib.Path, policy: str) -> Iterator[str]:
    """Yields which rows of a batch differ from the row alone; the first dimension is the batch."""
    given = dict(numpy.load(model.parent / "inputs.npz"))
    rows = {name: array[:1] for name, array in given.items()}
    for bit_class, levels in CLASSES.items():
        key = f"{model} {policy} batch {bit_class}"
        if key not in matrix.known:
            with tempfile.TemporaryDirectory() as folder:
                def outputs(arrays: dict[str, numpy.ndarray]) -> dict[str, numpy.ndarray]:
                    source, target = f"{folder}/in.npz", f"{folder}/out.npz"
                    numpy.savez(source, **arrays)
                    matrix.run(str(model), ["--input", source, "--policy", policy, *matrix.level(levels[0])], target)
                    return dict(numpy.load(target))

                alone = outputs(rows)
                for place in (0, BATCH - 1):
                    batch = {}
                    for name, row in rows.items():
                        # Other rows hold the same values in another order.
                        others = [numpy.roll(row, i + 1, axis=-1) for i in range(BATCH)]
                        others[place] = row
                        batch[name] = numpy.concatenate(others)
                    together = outputs(batch)
                    for name, array in alone.items():
                        if array[:1].tobytes() != together[name][place:place + 1].tobytes():
                            matrix.known[key] = {name: f"row {place} of {BATCH} differs from the row alone"}
            matrix.known.setdefault(key, {})
            if matrix.state:
                matrix.state.write_text(json.dumps(matrix.known))
        for name, text in matrix.known[key].items():
            yield f"class {bit_class}: {name}: {text}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--mpc", default="mpc")
    parser.add_argument("--policies", nargs="+", default=POLICIES)
    parser.add_argument("--state", type=pathlib.Path, help="file of finished cases")
    parser.add_argument("--batch", action="store_true", help="also compare rows of a batch; the batch must be open")
    parser.add_argument("--native", action="store_true", help="use this machine's units, without emulation")
    parser.add_argument("--minutes", type=float, default=60)
    arguments = parser.parse_args()
    matrix = Matrix(arguments.mpc, arguments.state, arguments.native)
    end = time.monotonic() + 60 * arguments.minutes
    wrong = 0
    for model in arguments.models:
        for policy in arguments.policies:
            if time.monotonic() > end:
                print("out of time; run it again with --state to continue")
                return 1
            try:
                problems = list(check_levels(matrix, model, policy))
                if arguments.batch:
                    problems += check_batch(matrix, model, policy)
            except RuntimeError as error:
                problems = [str(error)]
            wrong += bool(problems)
            print(f"{model.parent.name or model.name} {policy}: {'equal' if not problems else 'DIFFERENT'}", flush=True)
            for problem in problems:
                print(f"  {problem}")
    print(f"{wrong} of {len(arguments.models) * len(arguments.policies)} differ")
    return 4 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
