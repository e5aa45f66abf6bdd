# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes a model with a layer that fails in 16 bits.

usage: make_ruined.py KIND FILE

KIND is sum (a layer sums more than f16 holds), mask (-1e9 is added to scores) or epsilon (squares
that f16 flushes to zero are divided by). The input is x: tensor<64x128xf32>.
"""
import random
import struct
import sys

kind, path = sys.argv[1:3]
draw = random.Random(7)


def weight(name, rows, columns, scale, mean=0.0):
    values = [draw.gauss(mean, scale) for _ in range(rows * columns)]
    data = struct.pack(f"<{len(values)}f", *values).hex().upper()
    return (f'  %{name} = mpc.constant dense<"0x{data}"> : tensor<{rows}x{columns}xf32> '
            f'loc("{name}_weight")\n')


X, S = "tensor<64x128xf32>", "tensor<f32>"


def matmul(to, left, right, name, columns=128):
    return (f"  %{to} = mpc.matmul %{left}, %{right} : ({X}, tensor<128x{columns}xf32>) -> "
            f'tensor<64x{columns}xf32> loc("{name}")\n')


def unary(op, to, value, name):
    return f'  %{to} = mpc.{op} %{value} : {X} loc("{name}")\n'


def binary(op, to, left, right, name, type_=X):
    return f'  %{to} = mpc.{op} %{left}, %{right} : ({X}, {type_}) -> {X} loc("{name}")\n'


def scalar(name, value):
    return f'  %{name} = mpc.constant dense<{value:.1e}> : {S} loc("{name}")\n'


BODY = {
    "sum": scalar("scale", 1000.0) + weight("ones", 128, 128, 0.2, 1.5)
    + "  %gain = mpc.constant dense<1.0> : tensor<128xf32>\n"
    + "  %shift = mpc.constant dense<0.1> : tensor<128xf32>\n"
    + unary("sigmoid", 3, 2, "positive") + binary("mul", 4, 3, "scale", "large", S)
    + matmul(5, 4, "ones", "wide_sum")
    + f"  %6 = mpc.layer_norm %5, %gain, %shift axis(1) epsilon(1.0e-5) : ({X}, tensor<128xf32>, "
      f'tensor<128xf32>) -> {X} loc("norm")\n',
    "mask": scalar("large", -1.0e9) + scalar("zero", 0.0) + weight("values", 128, 128, 0.3)
    + f"  %keep = mpc.compare gt %1, %zero : ({X}, {S}) -> tensor<64x128xi1>\n"
    + f'  %mask = mpc.select %keep, %zero, %large : (tensor<64x128xi1>, {S}, {S}) -> {X} '
      'loc("mask")\n'
    + binary("add", 3, 2, "mask", "masked")
    + f'  %4 = mpc.softmax %3 axis(1) : {X} loc("shares")\n'
    + matmul(5, 4, "values", "mixed") + unary("tanh", 6, 5, "bounded_again"),
    "epsilon": scalar("tiny", 2.0e-5) + scalar("epsilon", 1.0e-12)
    + weight("part", 128, 128, 0.002, 1 / 128)
    + binary("mul", 3, 2, "tiny", "small", S) + binary("mul", 4, 3, 3, "square")
    + matmul(5, 4, "part", "variance") + binary("add", "sum", 5, "epsilon", "shifted", S)
    + unary("rsqrt", "root", "sum", "inverse") + binary("mul", 6, 3, "root", "normed"),
}[kind]
with open(path, "w", encoding="ascii") as file:
    file.write(f'func.func @main(%x: {X} {{mpc.role = #mpc.role<input>, mpc.name = "x"}})\n'
               '    -> (tensor<64x64xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {\n'
               + weight("w", 128, 128, 0.1) + weight("head", 128, 64, 0.1)
               + unary("tanh", 1, "x", "bounded") + matmul(2, 1, "w", "first")
               + BODY + matmul("y", 6, "head", "head", 64)
               + "  return %y : tensor<64x64xf32>\n}\n")
