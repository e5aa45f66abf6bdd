# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints graphs whose kernels would be large: `wide_graphs.py KIND N`.

join      N affine functions of N columns, one concat along columns
products  N matmuls of one input, one concat along columns
repeat    one concat of N times the same value
double    y = concat(y, y), N times
"""
import sys

kind, n = sys.argv[1], int(sys.argv[2])


def tensor(*shape):
    return "tensor<" + "".join(f"{extent}x" for extent in shape) + "f32>"


inputs, lines = [("%x", tensor(4))], []
if kind == "join":
    column, joined = tensor(8, 1), tensor(8, n)
    inputs = [(f"%x{i}", column) for i in range(n)]
    for i in range(n):
        lines += [f"%c{i} = mpc.constant dense<{1 + i / 8}> : tensor<f32>",
                  f"%s{i} = mpc.sub %x{i}, %c{i} : ({column}, tensor<f32>) -> {column}",
                  f"%d{i} = mpc.mul %s{i}, %c{i} : ({column}, tensor<f32>) -> {column}"]
    parts = [f"%d{i}" for i in range(n)]
    lines.append(f"%y = mpc.concat {', '.join(parts)} axis(1) : ({', '.join([column] * n)}) -> {joined}")
    result, output = "%y", joined
elif kind == "products":
    rows, weight, column, joined = tensor(8, 16), tensor(16, 1), tensor(8, 1), tensor(8, n)
    inputs = [("%x", rows)] + [(f"%w{i}", weight) for i in range(n)]
    for i in range(n):
        lines.append(f"%d{i} = mpc.matmul %x, %w{i} : ({rows}, {weight}) -> {column}")
    parts = [f"%d{i}" for i in range(n)]
    lines.append(f"%y = mpc.concat {', '.join(parts)} axis(1) : ({', '.join([column] * n)}) -> {joined}")
    result, output = "%y", joined
elif kind == "repeat":
    output, result = tensor(4 * n), "%y"
    lines.append(f"%y = mpc.concat {', '.join(['%x'] * n)} axis(0) : ({', '.join([tensor(4)] * n)}) -> {output}")
elif kind == "double":
    result, output = "%x", tensor(4)
    for i in range(n):
        before, output = output, tensor(4 << i + 1)
        lines.append(f"%v{i} = mpc.concat {result}, {result} axis(0) : ({before}, {before}) -> {output}")
        result = f"%v{i}"
arguments = ", ".join(f'{name}: {of} {{mpc.role = #mpc.role<input>, mpc.name = "{name[1:]}"}}' for name, of in inputs)
print(f'func.func @main({arguments}) -> ({output} {{mpc.role = #mpc.role<output>, mpc.name = "y"}}) {{')
print("  " + "\n  ".join(lines))
print(f"  return {result} : {output}\n}}")
