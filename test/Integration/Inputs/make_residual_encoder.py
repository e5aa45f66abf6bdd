#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes a T5-style encoder: a residual stream without a final norm, RMS norm
before every block, one table of relative position biases that all layers share, scores
without a scale. Weights are sampled from T5's initial distributions, those of
matmuls times `gain`, those of the embedding times `size`.

usage: make_residual_encoder.py FILE [layers=4] [width=64] [heads=4] [positions=48] [words=100]
       [gain=1] [size=1] [seed=1]
"""

import math
import sys

from graph_text import Writer


def bucket(distance, buckets=32, farthest=128):
    """Both directions, exact near and logarithmic far off."""
    half = buckets // 2
    first = half if distance > 0 else 0
    distance = abs(distance)
    if distance < half // 2:
        return first + distance
    far = half // 2 + int(math.log(distance / (half // 2)) / math.log(farthest / (half // 2)) * (half - half // 2))
    return first + min(far, half - 1)


def main(path, *settings):
    sizes = {"layers": 4, "width": 64, "heads": 4, "positions": 48, "words": 100, "seed": 1}
    sizes |= {"gain": 1.0, "size": 1.0}
    for key, value in (setting.split("=") for setting in settings):
        sizes[key] = type(sizes[key])(value)
    gain = sizes["gain"]
    layers, d, heads, t, words = (sizes[key] for key in ("layers", "width", "heads", "positions", "words"))
    w = Writer(sizes["seed"])
    k, inner = d // heads, 4 * d
    stream, split, scores = f"tensor<1x{t}x{d}xf32>", f"tensor<1x{t}x{heads}x{k}xf32>", f"tensor<1x{heads}x{t}x{t}xf32>"

    def norm(x):
        scale = w.op(f"constant dense<1.0> : tensor<{d}xf32>")
        return w.op(f"rms_norm {x}, {scale} axis(2) epsilon(1.0e-6) : ({stream}, tensor<{d}xf32>) -> {stream}")

    def dense(x, rows, columns, deviation, source):
        weight = w.normal(gain * deviation, rows, columns)
        result = f"tensor<1x{t}x{columns}xf32>"
        return w.op(f"matmul {x}, {weight} : ({source}, tensor<{rows}x{columns}xf32>) -> {result}")

    def by_head(x, order, shape):
        parts = w.op(f"reshape {x} : {stream} to {split}")
        return w.op(f"transpose {parts} {order} : {split} to {shape}")

    table = w.normal(sizes["size"], words, d)
    x = w.op(f"gather {table}, %tokens axis(0) : (tensor<{words}x{d}xf32>, tensor<1x{t}xi64>) -> {stream}")
    biases = w.normal(d**-0.5, 32, heads)
    places = w.data([bucket(j - i) for i in range(t) for j in range(t)], (t, t), "q", "i64")
    bias = w.op(f"gather {biases}, {places} axis(0) : (tensor<32x{heads}xf32>, tensor<{t}x{t}xi64>) -> tensor<{t}x{t}x{heads}xf32>")
    bias = w.op(f"transpose {bias} [2, 0, 1] : tensor<{t}x{t}x{heads}xf32> to tensor<{heads}x{t}x{t}xf32>")

    by_position, by_width = f"tensor<1x{heads}x{t}x{k}xf32>", f"tensor<1x{heads}x{k}x{t}xf32>"
    for _ in range(layers):
        y = norm(x)
        q = by_head(dense(y, d, d, (d * k) ** -0.5, stream), [0, 2, 1, 3], by_position)
        key = by_head(dense(y, d, d, d**-0.5, stream), [0, 2, 3, 1], by_width)
        v = by_head(dense(y, d, d, d**-0.5, stream), [0, 2, 1, 3], by_position)
        s = w.op(f"matmul {q}, {key} : ({by_position}, {by_width}) -> {scores}")
        s = w.op(f"add {s}, {bias} : ({scores}, tensor<{heads}x{t}x{t}xf32>) -> {scores}")
        p = w.op(f"softmax {s} axis(3) : {scores}")
        o = w.op(f"matmul {p}, {v} : ({scores}, {by_position}) -> {by_position}")
        o = w.op(f"transpose {o} [0, 2, 1, 3] : {by_position} to {split}")
        o = w.op(f"reshape {o} : {split} to {stream}")
        o = dense(o, d, d, d**-0.5, stream)
        x = w.op(f"add {x}, {o} : ({stream}, {stream}) -> {stream}")
        wide = f"tensor<1x{t}x{inner}xf32>"
        h = dense(norm(x), d, inner, d**-0.5, stream)
        h = w.op(f"relu {h} : {wide}")
        o = dense(h, inner, d, inner**-0.5, wide)
        x = w.op(f"add {x}, {o} : ({stream}, {stream}) -> {stream}")
    y = norm(x)
    with open(path, "w") as out:
        out.write(
            f'func.func @main(%tokens: tensor<1x{t}xi64> {{mpc.role = #mpc.role<input>, mpc.name = "tokens"}})\n'
            f'    -> ({stream} {{mpc.role = #mpc.role<output>, mpc.name = "states"}}) {{\n'
        )
        out.write("\n".join(w.lines) + f"\n  return {y} : {stream}\n}}\n")


main(*sys.argv[1:])
