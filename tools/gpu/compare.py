#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the outputs of a run with stored float64 answers.

usage: compare.py ACTUAL.npz EXPECTED.npz [LIMITS.json]

LIMITS.json is what `mpc check --json` printed for the same model and policy: its
tolerances are the limits. Without it, the error is only shown. Prints one JSON line;
exits with 4 where an output is over its limit.
"""
import json
import sys

import numpy


def widened(array):
    """bfloat16 is stored as two raw bytes."""
    if array.dtype.kind == "V" and array.dtype.itemsize == 2:
        return (array.view(numpy.uint16).astype(numpy.uint32) << 16).view(numpy.float32).astype(numpy.float64)
    return array.astype(numpy.float64)


def relative_error(actual, expected):
    error, size = numpy.sqrt(numpy.mean((actual - expected) ** 2)), numpy.sqrt(numpy.mean(expected ** 2))
    return float(error / size) if size else float(error)


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    actual, expected = numpy.load(sys.argv[1]), numpy.load(sys.argv[2])
    limits = {}
    if len(sys.argv) == 4:
        with open(sys.argv[3], encoding="utf-8") as file:
            limits = {output["name"]: output["tolerance"] for output in json.load(file)["outputs"]}
    outputs, ok = [], True
    for name in expected.files:
        entry = {"name": name}
        if name not in actual.files or actual[name].shape != expected[name].shape:
            entry |= {"error": "is missing or has another shape", "ok": False}
        else:
            found, wanted = widened(actual[name]), widened(expected[name])
            entry["rms_relative_error"] = relative_error(found, wanted)
            if name in limits:
                entry["tolerance"] = limits[name]
            # A NaN is over every limit.
            entry["ok"] = name not in limits or entry["rms_relative_error"] <= limits[name]
        ok &= entry["ok"]
        outputs.append(entry)
    print(json.dumps({"ok": ok, "outputs": outputs}))
    return 0 if ok else 4


if __name__ == "__main__":
    sys.exit(main())
