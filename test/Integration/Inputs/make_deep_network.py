# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes a network of blocks of twelve ops, with a residual connection around each half,
as text.

usage: make_deep_network.py FILE BLOCKS
"""
import sys

path, blocks = sys.argv[1], int(sys.argv[2])
rows, wide = "tensor<16x32xf32>", "tensor<16x64xf32>"
lines = []


def op(name, text):
    lines.append(f'  %{len(lines)} = mpc.{text} loc("{name}")')
    return f"%{len(lines) - 1}"


def constant(name, shape, value):
    return op(name, f"constant dense<{value}> : tensor<{shape}xf32>")


scale, shift = constant("scale", "32", 1.0), constant("shift", "32", 0.0)
square, bias = constant("square", "32x32", 0.02), constant("bias", "32", 0.1)
up, down = constant("up", "32x64", 0.02), constant("down", "64x32", 0.02)
x = "%x"
for block in range(blocks):
    def named(text, kind, block=block):
        return op(f"block.{block}/{kind}", text)

    y = named(f"layer_norm {x}, {scale}, {shift} axis(1) epsilon(1.0e-5) : ({rows}, tensor<32xf32>, tensor<32xf32>) -> {rows}", "norm1")
    a = named(f"matmul {y}, {square} : ({rows}, tensor<32x32xf32>) -> {rows}", "a")
    b = named(f"matmul {y}, {square} : ({rows}, tensor<32x32xf32>) -> {rows}", "b")
    b = named(f"sigmoid {b} : {rows}", "gate")
    y = named(f"mul {a}, {b} : ({rows}, {rows}) -> {rows}", "gated")
    x = named(f"add {x}, {y} : ({rows}, {rows}) -> {rows}", "residual1")
    y = named(f"layer_norm {x}, {scale}, {shift} axis(1) epsilon(1.0e-5) : ({rows}, tensor<32xf32>, tensor<32xf32>) -> {rows}", "norm2")
    y = named(f"matmul {y}, {up} : ({rows}, tensor<32x64xf32>) -> {wide}", "up")
    y = named(f"gelu {y} : {wide}", "gelu")
    y = named(f"matmul {y}, {down} : ({wide}, tensor<64x32xf32>) -> {rows}", "down")
    y = named(f"add {y}, {bias} : ({rows}, tensor<32xf32>) -> {rows}", "shifted")
    x = named(f"add {x}, {y} : ({rows}, {rows}) -> {rows}", "residual2")
with open(path, "w", encoding="utf-8") as out:
    out.write(f'func.func @main(%x: {rows} {{mpc.role = #mpc.role<input>, mpc.name = "x"}})\n'
              f'    -> ({rows} {{mpc.role = #mpc.role<output>, mpc.name = "y"}}) {{\n')
    out.write("\n".join(lines) + f"\n  return {x} : {rows}\n}}\n")
