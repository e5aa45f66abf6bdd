#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that libraries include only what lies below them.

  tools/ci/layers.py [--print]

A library is a folder under lib/ with the headers of the folder of the same name
under include/mpc/. LAYERS names them from the bottom to the top; a file may
include its own library and those of lower lines. --print lists who includes
whom. Exit code 1 where an include points upwards or a folder has no place.
"""

import argparse
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# From the bottom to the top; libraries of one line do not include each other.
LAYERS = [
    # Neither LLVM nor MLIR.
    ["Runtime"],
    # The functions of numbers, for the compiler and for kernels.
    ["Support", "Target/Math"],
    ["Target/CUDA/Prelude"],
    ["Target/CUDA/Host"],
    # Names of what a step of training is asked for: data alone.
    ["Training/Options", "Policy"],
    ["Target"],
    ["Dialect/Mpc/IR", "Dialect/Cuda/IR", "Dialect/Tile/IR", "Dialect/Stablehlo/IR"],
    ["Dialect/Exe/IR", "Reference"],
    ["Analysis"],
    ["Dialect/Mpc/Transforms"],
    ["Dialect/Mpc/Vjp", "Dialect/Mpc/Training", "Dialect/Exe/Transforms"],
    ["Import", "Target/Kernel", "Tuning"],
    ["Target/CPU", "Target/CUDA"],
    ["Pipelines"],
    ["JIT"],
    ["Training"],
    ["Bindings"],
]

# Headers that belong to a library other than their folder's.
BELONGS = {
    "include/mpc/Training/Options.h": "Training/Options",
    "include/mpc/Training/LossScale.h": "Training/Options",
    "include/mpc/Training/WeightChoice.h": "Training/Options",
    "include/mpc/Target/CPU/CpuTarget.h": "Target",
    "include/mpc/Target/CUDA/CudaTarget.h": "Target",
    "lib/Target/CPU/CpuTarget.cpp": "Target",
    "lib/Target/CUDA/CudaTarget.cpp": "Target",
    # What everything of the compiler registers.
    "include/mpc/InitAllDialects.h": "Pipelines",
    "include/mpc/InitAllPasses.h": "Pipelines",
}

LEVEL = {name: level for level, row in enumerate(LAYERS) for name in row}


def library_of(path):
    """The library of a file, given from the root; None where it has none."""
    if path in BELONGS:
        return BELONGS[path]
    parts = path.split("/")
    parts = parts[1:-1] if parts[0] == "lib" else parts[2:-1]
    while parts and "/".join(parts) not in LEVEL:
        parts = parts[:-1]
    return "/".join(parts) or None


def target_of(source, include):
    """The file in the project that `include` of `source` means, or None."""
    candidates = [source.parent / include, ROOT / "lib" / include,
                  ROOT / "include" / include]
    for candidate in candidates:
        if candidate.exists():
            return candidate.resolve().relative_to(ROOT).as_posix()
    # Made by TableGen: it belongs to its folder.
    return f"include/{include}" if include.startswith("mpc/") else None


def includes():
    """(file, line, included file) of everything under lib and include."""
    for folder in ("lib", "include/mpc"):
        for source in sorted((ROOT / folder).rglob("*")):
            if source.suffix not in (".cpp", ".h"):
                continue
            for number, line in enumerate(source.read_text().splitlines(), 1):
                match = re.match(r'\s*#include "([^"]+)"', line)
                target = match and target_of(source, match.group(1))
                if target:
                    yield source.relative_to(ROOT).as_posix(), number, target


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--print", action="store_true",
                        help="list the libraries that each one includes")
    arguments = parser.parse_args()
    faults, edges = [], collections.defaultdict(set)
    for source, number, target in includes():
        above, below = library_of(source), library_of(target)
        for path, name in ((source, above), (target, below)):
            if name is None:
                faults.append(f"{path}: its folder has no place in LAYERS")
        if above is None or below is None or above == below:
            continue
        edges[above].add(below)
        if LEVEL[below] >= LEVEL[above]:
            faults.append(f"{source}:{number}: {above} includes {target} of "
                          f"{below}, which does not lie below it")
    if arguments.print:
        for row in reversed(LAYERS):
            for name in row:
                print(f"{name}: {', '.join(sorted(edges[name]))}")
    for fault in sorted(set(faults)):
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
