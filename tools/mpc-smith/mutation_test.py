#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mutation test of mpc-smith: inserts known faults into the compiler, one at a time.

  tools/mpc-smith/mutation_test.py [--build build] [--graphs 2000] [NAME...]

Each fault is one edit of a source file, reverted afterwards; the work tree must be
clean. Prints a line per fault: the graph that found it and how. Exit code 1 if a
fault is not found within the given number of graphs.
"""

import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Name: file, text to replace (unique), replacement.
FAULTS = {
    "dropped-mask": (
        "lib/Target/CPU/AttentionEmitter.cpp",
        "scores = formula.masked(scores, value);",
        "(void)value;"),
    "wrong-epilogue": (
        "lib/Target/Kernel/ContractionEpilogue.cpp",
        "order.dimensions[to] = input.dimensions[from];",
        "order.dimensions[to] = input.dimensions[to];"),
    "unrounded-store": (
        "lib/Target/Kernel/ElementEmitter.cpp",
        "if (rounded.lookup(value) == elementType)",
        "if (rounded.lookup(value))"),
    "stale-pad": (
        "lib/Dialect/Mpc/Transforms/PaddedValues.cpp",
        "if (!form.dims[dim].isPadded() || form.lanes[dim].holds(fill))",
        "if (!form.dims[dim].isPadded() || form.lanes[dim].holds(0))"),
    "swapped-stride": (
        "lib/Target/CPU/ConvolutionEmitter.cpp",
        "math.add(region, math.mul(localRow, g.stride[1] * reader->rowStride));",
        "math.add(region, math.mul(localRow, g.stride[2] * reader->rowStride));"),
    "missed-barrier": (
        "lib/Target/CUDA/Rows/ThreadGroupLowering.cpp",
        """      emitter.store(value, array, warp, 1);
  });
  kernel.barrier();
""",
        """      emitter.store(value, array, warp, 1);
  });
"""),
    "lost-override": (
        "lib/Analysis/ForcedTypes.cpp",
        """  if (!override)
    return false;
""",
        """  if (!override || override->key == PolicyOverride::Key::Name)
    return false;
"""),
    "wrong-axis": (
        "lib/Dialect/Mpc/IR/MpcTensor.cpp",
        "access[from] = {int64_t(dim), 1, 0};",
        "access[dim] = {int64_t(from), 1, 0};"),
    "off-by-one-tail": (
        "lib/Target/CPU/AttentionEmitter.cpp",
        "ArrayRef<int64_t>{rest});",
        "ArrayRef<int64_t>{rest - 1});"),
    "scale-twice": (
        "lib/Dialect/Mpc/Training/LossScaling.cpp",
        """  } else if (scale) {
    unscale = inverseScale();
""",
        """  } else if (scale) {
    unscale = create<MulOp>(inverseScale(), inverseScale());
"""),
}


def run(command):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def build(folder):
    made = run(["ninja", "-C", str(folder), "mpc-smith"])
    if made.returncode:
        sys.exit(made.stdout[-2000:])


def find(folder, graphs):
    """The generator's result: number of graphs and first finding."""
    said = run([str(folder / "bin" / "mpc-smith"), "--seeds", f"1..{graphs}",
                "--most-failures", "1", "--json", "--quiet"])
    document = json.loads(said.stdout)
    if not document["failures"]:
        return None
    failure = document["failures"][0]
    finding = failure["findings"][0]
    return (f"seed {failure['seed']} ({failure['kind']}), {finding['step']}: "
            f"{finding['text']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build", type=pathlib.Path,
                        help="a configured build folder (default: build)")
    parser.add_argument("--graphs", default=2000, type=int,
                        help="graphs to find a fault within (default: 2000)")
    parser.add_argument("names", nargs="*", metavar="NAME",
                        help="faults (default: all): " + ", ".join(FAULTS))
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in FAULTS]
    if unknown:
        parser.error(f"no fault '{unknown[0]}'; there are {', '.join(FAULTS)}")
    folder = ROOT / arguments.build
    if run(["git", "status", "--porcelain", "-uno"]).stdout:
        sys.exit("the tree has changes; commit or stash them")
    missed = []
    for name in arguments.names or FAULTS:
        path, old, new = FAULTS[name]
        source = ROOT / path
        text = source.read_text()
        if text.count(old) != 1:
            sys.exit(f"{path}: '{old.strip()}' stands there "
                     f"{text.count(old)} times, once is meant")
        try:
            source.write_text(text.replace(old, new))
            build(folder)
            found = find(folder, arguments.graphs)
        finally:
            source.write_text(text)
        if not found:
            missed.append(name)
        print(f"{name}: {found or f'not found in {arguments.graphs} graphs'}",
              flush=True)
    build(folder)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
