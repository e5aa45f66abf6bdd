# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Resize, and an error bound for a peer's implementation."""

import numpy as np

from graph import Skip
from movement import computed_shape


def resize_error(kind, largest, extents):
    """Error bound of an element when coordinates and weights are computed in f32, u = 2^-24.

    A coordinate of an axis of extent e is rounded up to three times (scale, quotient, shift), so it is off by at most
    3 u e. For cubic weights (a = -3/4) the absolute slopes sum to at most 3 and the absolute values to 11/8; for
    linear ones to 2 and 1. A linear weight is one difference (2 u for both taps). Cubic weights are polynomials in
    Horner's form of numbers up to 7.5, doubled by what follows: 40 u for each outer tap, 6 u for each inner one. The
    sums of four products per axis add 4 u of each.
    """
    slopes, size, weights = (3, 11 / 8, 92) if kind == "cubic" else (2, 1, 2)
    u = 2.0**-24
    return u * largest * size * sum(slopes * 3 * e + weights + 4 * size for e in extents)


def resize(g):
    if g.opset < 11:
        raise Skip
    x = g.pick(rank=4, where=lambda v: v.size < 1000)
    mode = g.random.choice(["nearest", "linear", "cubic"])
    scale = [g.random.choice([1.0, 2.0, 1.5, 0.5, 3.0]) for _ in range(2)]
    shape = x.shape[:2] + tuple(int(e * s) for e, s in zip(x.shape[2:], scale))
    # If the scale does not give the extent exactly, ONNX Runtime aligns corners differently from ONNX.
    if any(e * s != extent for e, s, extent in zip(x.shape[2:], scale, shape[2:])):
        raise Skip
    attributes = {"mode": mode}
    attributes["coordinate_transformation_mode"] = g.random.choice(["half_pixel", "asymmetric", "align_corners",
                                                                    "pytorch_half_pixel"])
    if mode == "nearest":
        attributes["nearest_mode"] = g.random.choice(["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
    none = g.constant(np.zeros((0,), np.float32)) if g.opset < 13 or g.chance(0.3) else None
    if g.chance(0.5):
        operands = [x, none, g.constant(np.array([1.0, 1.0] + scale, np.float32))]
    else:
        empty = g.constant(np.zeros((0,), np.float32)) if g.opset < 13 else None
        operands = [x, none, empty, computed_shape(g, x, list(shape))]
    slack = 0.3 * (x.high - x.low) if mode == "cubic" else 0
    g.emit("Resize", operands, shape, x.low - slack, x.high + slack, **attributes)
    if mode != "nearest":
        name = next(node for node in reversed(g.nodes) if node.op_type == "Resize").output[0]
        g.coarse[name] = resize_error(mode, max(-x.low, x.high), x.shape[2:]), shape
