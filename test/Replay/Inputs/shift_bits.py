# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints a recording in which the largest element of the first tensor of a field is some ulp larger, in the first step.

usage: shift_bits.py FIELD ULPS FILE
"""
import json
import sys


def main():
    field, ulps, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    with open(path, encoding="utf-8") as file:
        recording = json.load(file)
    rows = recording.get("steps") or [row for row in recording["recorded"] if row["implementation"] == "single"]
    tensors = rows[0][field]
    name = next(iter(tensors))
    words = tensors[name].split()
    largest = max(range(len(words)), key=lambda i: int(words[i], 16) & (2 ** (4 * len(words[i]) - 1) - 1))
    words[largest] = f"{int(words[largest], 16) + ulps:0{len(words[largest])}x}"
    tensors[name] = " ".join(words)
    json.dump(recording, sys.stdout)


main()
