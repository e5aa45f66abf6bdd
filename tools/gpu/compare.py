#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the outputs of a run with stored float64 answers.

usage: compare.py ACTUAL.npz EXPECTED.npz [LIMITS.json [INPUTS.npz]]

LIMITS.json is the output of `mpc check --json` for the same model and policy: its
tolerances are the limits. Without it, the error is only shown. INPUTS.npz holds the
inputs of a training step: its loss is compared with that of the outputs in ACTUAL.npz,
as in `mpc check --training`. Prints one JSON line; exit code 4 if an output exceeds its
limit. Needs only Python.
"""
import array
import ast
import json
import math
import struct
import sys
import zipfile

# Type codes of the module `array` by NumPy type.
LETTERS = {"f4": "f", "f8": "d", "i1": "b", "i2": "h", "i4": "i", "i8": "q", "u1": "B", "u2": "H", "u4": "I",
           "u8": "Q", "b1": "B"}


def parse_npy(data):
    """(shape, values) of a .npy; bfloat16 is stored as two raw bytes."""
    wide = data[6] > 1
    start = 12 if wide else 10
    length = struct.unpack("<I" if wide else "<H", data[8:start])[0]
    header = ast.literal_eval(data[start:start + length].decode("latin1"))
    kind, data = header["descr"][1:], data[start + length:]
    if header["fortran_order"]:
        raise ValueError("column-major arrays are not read")
    if kind == "V2":
        halves = array.array("H", data)
        values = array.array("f", array.array("I", [bits << 16 for bits in halves]).tobytes())
    elif kind == "f2":
        values = struct.unpack(f"<{len(data) // 2}e", data)
    else:
        values = array.array(LETTERS[kind], data)
    return header["shape"], values


def read_npz(path):
    with zipfile.ZipFile(path) as file:
        return {name.removesuffix(".npy"): parse_npy(file.read(name)) for name in file.namelist()}


def relative_error(actual, expected):
    """rms of the difference over rms of `expected`; the difference alone where that is 0."""
    error = math.sqrt(sum((a - e) ** 2 for a, e in zip(actual, expected)) / max(len(expected), 1))
    size = math.sqrt(sum(e * e for e in expected) / max(len(expected), 1))
    return error / size if size else error


def loss_of(outputs, label):
    """Softmax cross entropy for class labels, otherwise the mean squared error."""
    shape, label = label
    if isinstance(label, array.array) and label.typecode in "iq":
        width, total = len(outputs) // len(label), 0.0
        for row, wanted in enumerate(label):
            logits = outputs[row * width:(row + 1) * width]
            top = max(logits)
            total += top + math.log(sum(math.exp(x - top) for x in logits)) - logits[wanted]
        return total / len(label)
    return sum((y - t) ** 2 for y, t in zip(outputs, label)) / len(label)


def judge(actual, expected, limits_file=None, given=None):
    """Whether the arrays in the file `actual` are within the limits, and each one's error."""
    actual, expected = read_npz(actual), read_npz(expected)
    limits = {}
    if limits_file:
        with open(limits_file, encoding="utf-8") as file:
            listed = json.load(file)["outputs"]
        limits = {output["name"]: output.get("saved_tolerance", output["tolerance"]) for output in listed}
    if given:
        named = {output.get("role"): output["name"] for output in listed}
        if named["output"] in actual:
            loss = loss_of(actual[named["output"]][1], read_npz(given)["label"])
            expected[named["loss"]] = (), [loss]
            limits[named["loss"]] = next(o["tolerance"] for o in listed if o.get("role") == "loss")
    outputs, ok = [], True
    for name, (shape, wanted) in expected.items():
        entry = {"name": name}
        if name not in actual or actual[name][0] != shape:
            entry |= {"error": "is missing or has another shape", "ok": False}
        else:
            entry["rms_relative_error"] = relative_error(actual[name][1], wanted)
            if name in limits:
                entry["tolerance"] = limits[name]
            # NaN exceeds every limit.
            entry["ok"] = name not in limits or entry["rms_relative_error"] <= limits[name]
        ok &= entry["ok"]
        outputs.append(entry)
    return {"ok": ok, "outputs": outputs}


def main():
    if len(sys.argv) not in (3, 4, 5):
        sys.exit(__doc__)
    verdict = judge(*sys.argv[1:])
    print(json.dumps(verdict))
    return 0 if verdict["ok"] else 4


if __name__ == "__main__":
    sys.exit(main())
