#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the documentation with its generated parts.

usage: generate.py --tblgen mlir-tblgen [--include DIR...] --output DIR
Copies the pages and schemas of docs/ to the output folder. A line `<!-- generated NAME -->` becomes what
mlir-tblgen prints for NAME; generated headings are demoted below the preceding one.
Each NAME must be used by exactly one line.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys

DOCS = pathlib.Path(__file__).resolve().parent
INCLUDE = DOCS.parent / "include"

# Name of a generated part: file under include/, generator.
PARTS = {
    "mpc-ops": ("mpc/Dialect/Mpc/IR/MpcOps.td", ["-gen-op-doc", "-dialect=mpc"]),
    "mpc-attributes": ("mpc/Dialect/Mpc/IR/MpcBase.td", ["-gen-attrdef-doc", "-attrdefs-dialect=mpc"]),
    "mpc-pack-ops": ("mpc/Dialect/Mpc/IR/MpcPackOps.td", ["-gen-op-doc", "-dialect=mpc"]),
    "mpc-communication-ops": ("mpc/Dialect/Mpc/IR/MpcCommunicationOps.td", ["-gen-op-doc", "-dialect=mpc"]),
    "mpc-recurrence-ops": ("mpc/Dialect/Mpc/IR/MpcRecurrenceOps.td", ["-gen-op-doc", "-dialect=mpc"]),
    "mpc-training-ops": ("mpc/Dialect/Mpc/IR/MpcTrainingOps.td", ["-gen-op-doc", "-dialect=mpc"]),
    "mpc-training-interfaces": ("mpc/Dialect/Mpc/IR/MpcTrainingInterfaces.td", ["-gen-op-interface-docs"]),
    "mpc-interfaces": ("mpc/Dialect/Mpc/IR/MpcInterfaces.td", ["-gen-op-interface-docs"]),
    "cuda-ops": ("mpc/Dialect/Cuda/IR/CudaOps.td", ["-gen-op-doc", "-dialect=cuda"]),
    "tile-ops": ("mpc/Dialect/Tile/IR/TileOps.td", ["-gen-op-doc", "-dialect=tile"]),
    "tile-attributes": ("mpc/Dialect/Tile/IR/TileOps.td", ["-gen-attrdef-doc", "-attrdefs-dialect=tile"]),
    "tile-types": ("mpc/Dialect/Tile/IR/TileOps.td", ["-gen-typedef-doc", "-typedefs-dialect=tile"]),
    "stablehlo-ops": ("mpc/Dialect/Stablehlo/IR/StablehloOps.td", ["-gen-op-doc", "-dialect=stablehlo"]),
    "chlo-ops": ("mpc/Dialect/Stablehlo/IR/ChloOps.td", ["-gen-op-doc", "-dialect=chlo"]),
    "exe-attributes": ("mpc/Dialect/Exe/IR/ExeBase.td", ["-gen-attrdef-doc", "-attrdefs-dialect=exe"]),
    "exe-ops": ("mpc/Dialect/Exe/IR/ExeOps.td", ["-gen-op-doc", "-dialect=exe"]),
    "mpc-passes": ("mpc/Dialect/Mpc/Transforms/Passes.td", ["-gen-pass-doc"]),
    "training-passes": ("mpc/Dialect/Mpc/Training/Passes.td", ["-gen-pass-doc"]),
    "cpu-passes": ("mpc/Target/CPU/Passes.td", ["-gen-pass-doc"]),
    "cuda-passes": ("mpc/Target/CUDA/Passes.td", ["-gen-pass-doc"]),
    "exe-passes": ("mpc/Dialect/Exe/Transforms/Passes.td", ["-gen-pass-doc"]),
}
REFERENCE = re.compile(r"^<!-- generated ([a-z-]+) -->$")
HEADING = re.compile(r"^(#+) ")


def run_tblgen(tblgen, includes, name):
    source, generator = PARTS[name]
    command = [tblgen, *generator]
    for folder in [INCLUDE, *includes]:
        command += ["-I", str(folder)]
    done = subprocess.run([*command, str(INCLUDE / source)], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    return [line for line in lines if not line.startswith("<!--") and line != "[TOC]"]


def outside_fences(lines):
    """Yields each line and whether it is outside of fenced blocks."""
    fenced = False
    for line in lines:
        if line.startswith("```"):
            fenced = not fenced
            yield line, False
        else:
            yield line, not fenced


def demote(lines, level):
    """Demotes headings such that the highest has `level`."""
    highest = min((len(match[1]) for line, free in outside_fences(lines) if free and (match := HEADING.match(line))),
                  default=level)
    shift = "#" * max(0, level - highest)
    return [shift + line if free and HEADING.match(line) else line for line, free in outside_fences(lines)]


def expand(page, tblgen, includes, used):
    lines, level = [], 0
    for line, free in outside_fences(page.read_text().splitlines()):
        if free and (match := HEADING.match(line)):
            level = len(match[1])
        match = REFERENCE.match(line) if free else None
        if not match:
            lines.append(line)
            continue
        name = match[1]
        if name not in PARTS or name in used:
            sys.exit(f"{page}: '{name}' is {'used twice' if name in used else 'no generated part'}; "
                     f"there are {', '.join(PARTS)}")
        used.add(name)
        lines += demote(run_tblgen(tblgen, includes, name), level + 1)
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tblgen", default="mlir-tblgen")
    parser.add_argument("--include", action="extend", nargs="+", default=[], type=pathlib.Path)
    parser.add_argument("--output", required=True, type=pathlib.Path)
    args = parser.parse_args()
    used = set()
    for page in sorted(DOCS.rglob("*.md")):
        target = args.output / page.relative_to(DOCS)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(expand(page, args.tblgen, args.include, used))
    for schema in sorted(DOCS.rglob("*.json")):  # pages link to them
        shutil.copy(schema, args.output / schema.relative_to(DOCS))
    if unused := PARTS.keys() - used:
        sys.exit(f"no page has a line <!-- generated NAME --> for {', '.join(sorted(unused))}")


if __name__ == "__main__":
    main()
