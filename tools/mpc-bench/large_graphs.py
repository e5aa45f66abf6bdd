#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Graphs with a given number of ops, to measure how compilation scales.

  tools/mpc-bench/large_graphs.py KIND OPS > graph.mlir

KIND is the name of a function below that is decorated with @kind; its docstring
describes the graph. OPS is the approximate number of ops.
"""

import sys

KINDS = {}


def kind(make):
    KINDS[make.__name__] = make
    return make


class Function:
    """The text of one function, line by line."""

    def __init__(self, *arguments):
        self.arguments = arguments
        self.lines = []
        self.count = 0

    def op(self, text, type_):
        name = f"%v{self.count}"
        self.count += 1
        self.lines.append(f"  {name} = mpc.{text}")
        self.type = type_
        return name

    def constant(self, value, shape, element="f32"):
        return self.op(f"constant dense<{value:e}> : tensor<{shape}x{element}>", None)

    def unary(self, name, value, type_):
        return self.op(f"{name} {value} : {type_}", type_)

    def add(self, a, b, type_):
        return self.op(f"add {a}, {b} : ({type_}, {type_}) -> {type_}", type_)

    def text(self, results, types):
        def port(type_, role, name):
            return f'{type_} {{mpc.role = #mpc.role<{role}>, mpc.name = "{name}"}}'
        arguments = ", ".join(f"%a{i}: {port(t, 'input', f'in{i}')}"
                              for i, t in enumerate(self.arguments))
        outputs = ", ".join(port(t, "output", f"out{i}") for i, t in enumerate(types))
        head = f"func.func @main({arguments}) -> ({outputs}) {{"
        tail = f"  return {', '.join(results)} : {', '.join(types)}\n}}"
        return "\n".join([head, *self.lines, tail])


SQUARE = "tensor<64x64xf32>"
ODD = "tensor<64x30xf32>"


@kind
def chain(ops):
    """A chain of elementwise ops."""
    f = Function(SQUARE)
    value = "%a0"
    for i in range(ops):
        value = f.unary(["relu", "tanh", "neg", "abs"][i % 4], value, SQUARE)
    return f.text([value], [SQUARE])


@kind
def layers(ops):
    """Dense layers of an odd width with a shared weight."""
    f = Function(ODD)
    value, weight = "%a0", f.constant(0.5, "30x30")
    for _ in range(ops // 2):
        value = f.op(f"matmul {value}, {weight} : ({ODD}, tensor<30x30xf32>) -> {ODD}", ODD)
        value = f.unary("relu", value, ODD)
    return f.text([value], [ODD])


@kind
def dense(ops):
    """Dense layers with separate weights and biases."""
    f = Function(ODD)
    value = "%a0"
    for i in range(ops // 5):
        weight = f.constant(0.5 + i * 1e-6, "30x30")
        bias = f.constant(0.25 + i * 1e-6, "30")
        value = f.op(f"matmul {value}, {weight} : ({ODD}, tensor<30x30xf32>) -> {ODD}", ODD)
        value = f.op(f"add {value}, {bias} : ({ODD}, tensor<30xf32>) -> {ODD}", ODD)
        value = f.unary("relu", value, ODD)
    return f.text([value], [ODD])


@kind
def odd(ops):
    """bf16 dense layers of various widths, all of which need padding."""
    count = ops // 3
    widths = [17 + 2 * (i % 40) for i in range(count + 1)]
    f = Function(f"tensor<64x{widths[0]}xbf16>")
    value = "%a0"
    for a, b in zip(widths, widths[1:]):
        weight = f.constant(0.5, f"{a}x{b}", "bf16")
        result = f"tensor<64x{b}xbf16>"
        value = f.op(f"matmul {value}, {weight} : (tensor<64x{a}xbf16>, tensor<{a}x{b}xbf16>)"
                     f" -> {result}", result)
        value = f.unary("relu", value, result)
    return f.text([value], [f"tensor<64x{widths[-1]}xbf16>"])


@kind
def thin(ops):
    """Layers of width 3 in bf16, which padding would more than double."""
    t = "tensor<512x3xbf16>"
    f = Function(t)
    value = "%a0"
    for _ in range(ops // 3):
        weight = f.constant(0.5, "3x3", "bf16")
        value = f.op(f"matmul {value}, {weight} : ({t}, tensor<3x3xbf16>) -> {t}", t)
        value = f.unary("relu", value, t)
    return f.text([value], [t])


def tree(f, values, type_):
    """The pairwise sum of values."""
    while len(values) > 1:
        sums = [f.add(a, b, type_) for a, b in zip(values[::2], values[1::2])]
        values = sums + values[len(sums) * 2:]
    return values[0]


def binary(f, name, left, right):
    return f.op(f"{name} {left}, {right} : ({SQUARE}, {SQUARE}) -> {SQUARE}", SQUARE)


def sum_of_readers(f, value, ops, name):
    """The text of `f`, which sums `ops / 3` ops of this name on `value`."""
    made = [binary(f, name, value, f.constant(i + 0.5, "64x64")) for i in range(ops // 3)]
    return f.text([tree(f, made, SQUARE)], [SQUARE])


def line_of_sums(f, other, ops):
    """The text of `f`, a chain of sums that all add `other`."""
    value = "%a0"
    for _ in range(ops):
        value = f.add(value, other, SQUARE)
    return f.text([value], [SQUARE])


@kind
def branch(ops):
    """A chain of sums that all add one value."""
    f = Function(SQUARE)
    return line_of_sums(f, f.unary("relu", "%a0", SQUARE), ops)


@kind
def readers(ops):
    """One value with `ops / 3` users, and the sum of their results."""
    f = Function(SQUARE)
    return sum_of_readers(f, f.unary("exp", "%a0", SQUARE), ops, "mul")


@kind
def multiplied(ops):
    """One value used by every product, and the sum of their results."""
    f = Function(SQUARE)
    return sum_of_readers(f, f.unary("exp", "%a0", SQUARE), ops, "matmul")


@kind
def product(ops):
    """A chain of sums that all add one product."""
    f = Function(SQUARE)
    return line_of_sums(f, binary(f, "matmul", "%a0", f.constant(0.5, "64x64")), ops)


@kind
def fan(ops):
    """One product with `ops / 3` users, and the sum of their results."""
    f = Function(SQUARE)
    return sum_of_readers(f, binary(f, "matmul", "%a0", f.constant(0.5, "64x64")), ops, "mul")


@kind
def constants(ops):
    """A chain of sums with distinct constants."""
    f = Function(SQUARE)
    value = "%a0"
    for i in range(ops // 3):
        value = f.add(value, f.constant(i + 0.5, "64x64"), SQUARE)
        value = f.unary("tanh", value, SQUARE)
    return f.text([value], [SQUARE])


@kind
def residual(ops):
    """Residual blocks: norm, two products, gelu, sum."""
    f = Function("tensor<64x64xf32>")
    value, scale, bias = "%a0", f.constant(1, "64"), f.constant(0.1, "64")
    for i in range(ops // 6):
        up = f.constant(0.01 + i * 1e-6, "64x64")
        down = f.constant(0.02 + i * 1e-6, "64x64")
        block = f.op(f"layer_norm {value}, {scale}, {bias} axis(1) epsilon(1.0e-5) : "
                     f"({SQUARE}, tensor<64xf32>, tensor<64xf32>) -> {SQUARE}", SQUARE)
        block = f.op(f"matmul {block}, {up} : ({SQUARE}, {SQUARE}) -> {SQUARE}", SQUARE)
        block = f.unary("relu", block, SQUARE)
        block = f.op(f"matmul {block}, {down} : ({SQUARE}, {SQUARE}) -> {SQUARE}", SQUARE)
        value = f.add(value, block, SQUARE)
    return f.text([value], [SQUARE])


@kind
def attention(ops):
    """Layers of self-attention with projections, heads and a residual stream."""
    tokens, heads, flat = "tensor<32x64xf32>", "tensor<4x32x16xf32>", "tensor<32x4x16xf32>"
    f = Function(tokens)
    value = "%a0"
    for i in range(ops // 23):
        parts = []
        for j in range(3):
            weight = f.constant(0.01 * (j + 1) + i * 1e-6, "64x64")
            part = f.op(f"matmul {value}, {weight} : ({tokens}, {SQUARE}) -> {tokens}", tokens)
            part = f.op(f"reshape {part} : {tokens} to {flat}", flat)
            parts.append(f.op(f"transpose {part} [1, 0, 2] : {flat} to {heads}", heads))
        scores = "tensor<4x32x32xf32>"
        turned = "tensor<4x16x32xf32>"
        key = f.op(f"transpose {parts[1]} [0, 2, 1] : {heads} to {turned}", turned)
        score = f.op(f"matmul {parts[0]}, {key} : ({heads}, {turned}) -> {scores}", scores)
        scale = f.op("constant dense<0.25> : tensor<f32>", None)
        score = f.op(f"mul {score}, {scale} : ({scores}, tensor<f32>) -> {scores}", scores)
        score = f.op(f"softmax {score} axis(2) : {scores}", scores)
        mixed = f.op(f"matmul {score}, {parts[2]} : ({scores}, {heads}) -> {heads}", heads)
        mixed = f.op(f"transpose {mixed} [1, 0, 2] : {heads} to {flat}", flat)
        mixed = f.op(f"reshape {mixed} : {flat} to {tokens}", tokens)
        weight = f.constant(0.05 + i * 1e-6, "64x64")
        mixed = f.op(f"matmul {mixed}, {weight} : ({tokens}, {SQUARE}) -> {tokens}", tokens)
        value = f.add(value, mixed, tokens)
    return f.text([value], [tokens])


@kind
def towers(ops):
    """Independent chains of four layers, each an output."""
    f = Function(SQUARE)
    results = []
    for i in range(ops // 9):
        value, weight = "%a0", f.constant(1e-9 * 1.008 ** i, "64x64")
        for _ in range(4):
            value = f.op(f"matmul {value}, {weight} : ({SQUARE}, {SQUARE}) -> {SQUARE}", SQUARE)
            value = f.unary("tanh", value, SQUARE)
        results.append(value)
    return f.text(results, [SQUARE] * len(results))


@kind
def concat(ops):
    """Slices of one value, an op on each, and a concat of all."""
    count = ops // 2
    part, whole = "tensor<8x16xf32>", f"tensor<{8 * count}x16xf32>"
    f = Function(whole)
    parts = []
    for i in range(count):
        piece = f.op(f"slice %a0 [{8 * i}, 0] [8, 16] : {whole} to {part}", part)
        parts.append(f.unary(["tanh", "neg", "exp"][i % 3], piece, part))
    types = ", ".join([part] * count)
    value = f.op(f"concat {', '.join(parts)} axis(0) : ({types}) -> {whole}", whole)
    return f.text([value], [whole])


if __name__ == "__main__":
    print(KINDS[sys.argv[1]](int(sys.argv[2])))
