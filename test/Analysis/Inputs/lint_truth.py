# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs small models under float16 on data that a lint warning speaks of, without
and with the flags that the lint proposes, until it is content. Prints, per model,
the codes in the order in which they came and the first number of the output
before and after.

usage: lint_truth.py MPC FOLDER
"""
import json
import pathlib
import shlex
import struct
import subprocess
import sys

S, V = "tensor<f32>", "tensor<4xf32>"


def constant(name, value):
    return f'  %{name} = mpc.constant dense<{value:e}> : {S} loc("{name}")\n'


def binary(result, kind, lhs, rhs, right=S):
    return f'  %{result} = mpc.{kind} %{lhs}, %{rhs} : ({V}, {right}) -> {V} loc("{result}")\n'


# Name, body that computes %y from %x, and the number in all four elements of x.
CASES = [
    ("overflow", constant("c", 7.0e4) + binary("y", "add", "x", "c"), 1.0),
    ("flush", constant("c", 1.0e-9) + binary("y", "mul", "x", "c"), 1000.0),
    ("divisor", constant("c", 2.0e-8) + binary("y", "div", "x", "c"), 1.0),
    ("epsilon", constant("c", 1.0e-12) + f'  %size = mpc.abs %x : {V} loc("size")\n'
     + binary("norm", "add", "size", "c") + binary("y", "div", "x", "norm", V), 0.0),
    ("squared", constant("c", 1.0e-4) + binary("least", "max", "x", "c")
     + binary("square", "mul", "least", "least", V) + binary("y", "div", "x", "square", V), 0.0),
    ("mask", constant("c", -1.0e9) + constant("zero", 0.0)
     + f'  %keep = mpc.compare gt %x, %zero : ({V}, {S}) -> tensor<4xi1> loc("keep")\n'
     f'  %mask = mpc.select %keep, %x, %c : (tensor<4xi1>, {V}, {S}) -> {V} loc("mask")\n'
     f'  %y = mpc.softmax %mask axis(0) : {V} loc("y")\n', -1.0),
    ("clip", constant("low", 0.0) + constant("high", 1.0e5)
     + f'  %y = mpc.clamp %x, %low, %high : ({V}, {S}, {S}) -> {V} loc("y")\n', 3.0e38),
    ("range", constant("low", -300.0) + constant("high", 300.0)
     + f'  %clip = mpc.clamp %x, %low, %high : ({V}, {S}, {S}) -> {V} loc("clip")\n'
     + binary("y", "mul", "clip", "clip", V), 1000.0),
    ("weights", '  %w = mpc.constant dense<[[1.0e-8], [2.0e-8], [1.0e-8], [2.0e-8]]> : tensor<4x1xf32> loc("w")\n'
     f'  %row = mpc.reshape %x : {V} to tensor<1x4xf32> loc("row")\n'
     '  %fc = mpc.matmul %row, %w : (tensor<1x4xf32>, tensor<4x1xf32>) -> tensor<1x1xf32> loc("fc")\n'
     f'  %y = mpc.broadcast %fc : tensor<1x1xf32> to tensor<1x4xf32> loc("y")\n', 1.0),
    ("fine", constant("c", 6.0e4) + binary("y", "add", "x", "c"), 1.0),
]


def npy(path, value):
    header = repr({"descr": "<f4", "fortran_order": False, "shape": (4,)})
    header += " " * (-(len(header) + 11) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
                     + struct.pack("<4f", *[value] * 4))


def main(mpc, folder):
    folder.mkdir(parents=True, exist_ok=True)

    def call(*arguments):
        return subprocess.run([mpc, *arguments], stdout=subprocess.PIPE, check=True, timeout=60).stdout

    for name, body, value in CASES:
        model, data, out = folder / f"{name}.mlir", folder / "x.npy", folder / "y.npy"
        shape = "tensor<1x4xf32>" if "tensor<1x4xf32> loc(\"y\")" in body else V
        model.write_text(
            f'func.func @main(%x: {V} {{mpc.role = #mpc.role<input>, mpc.name = "x"}})'
            f' -> ({shape} {{mpc.role = #mpc.role<output>, mpc.name = "y"}}) {{\n{body}'
            f"  return %y : {shape}\n}}\n")
        npy(data, value)

        def run(flags):
            call("run", str(model), "--input", f"x={data}", "--output", str(out), "--quiet",
                 "--policy", "float16", *flags)
            return "%.4g" % struct.unpack("<f", out.read_bytes()[-4:])

        flags, codes, before = [], [], run([])
        while True:
            warnings = json.loads(call("lint", str(model), "--policy", "float16", "--json", *flags))["warnings"]
            if not warnings or len(codes) > 8:
                break
            codes.append(warnings[0]["code"])
            flags += shlex.split(warnings[0]["fix"])
        print(f"{name}: {' '.join(codes) or 'no warning'}: {before} becomes {run(flags)}")


main(sys.argv[1], pathlib.Path(sys.argv[2]))
