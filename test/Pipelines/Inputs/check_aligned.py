# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks the extents of a dumped module's contractions.

usage: check_aligned.py DUMP MULTIPLE
M, N and K of every matmul, S, T, D and E of every attention and the channels of every
conv must be multiples; others are listed. Ends with the number of contractions, of
pads and of slices.
"""
import pathlib
import re
import sys

TYPE = re.compile(r"tensor<((?:\d+x)*)\w+>")


def shapes(line):
    types = line.rsplit(" : ", 1)[1]
    return [[int(extent) for extent in dims.split("x")[:-1]] for dims in TYPE.findall(types.split(" loc(")[0])]


def product(extents):
    result = 1
    for extent in extents:
        result *= extent
    return result


def wanted(op, line):
    """The extents of a contraction that should be multiples."""
    lhs, rhs, *rest = shapes(line)
    if op == "conv":
        return {"C": rhs[1], "O": rhs[0]}
    if op == "attention":
        value = rest[0]
        return {"S": lhs[-2], "D": lhs[-1], "T": rhs[-2], "E": value[-1]}
    result = rest[-1]
    rows = product(result[:-1]) if len(rhs) == 2 else result[-2]
    return {"M": rows, "N": result[-1], "K": lhs[-2 if "transpose_lhs" in line else -1]}


def main():
    multiple = int(sys.argv[2])
    counts = {"contraction": 0, "pad": 0, "slice": 0}
    for line in pathlib.Path(sys.argv[1]).read_text().splitlines():
        match = re.search(r"= mpc\.(matmul|conv|attention|pad|slice) ", line)
        if not match:
            continue
        op = match[1]
        if op in counts:
            counts[op] += 1
            continue
        counts["contraction"] += 1
        odd = {name: extent for name, extent in wanted(op, line).items() if extent % multiple}
        if odd:
            print(f"unaligned {op}: {', '.join(f'{name} = {extent}' for name, extent in odd.items())}")
    print(", ".join(f"{count} {name}s" for name, count in counts.items()))


if __name__ == "__main__":
    main()
