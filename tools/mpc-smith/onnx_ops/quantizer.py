# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Quantizers without ambiguous rounding.

The exact values are known, with an error bound for f32 in any summation order.
Scales are redrawn until no element is so close to a rounding boundary that this
error could decide it: the bytes are then the same in every implementation. True
ties occur too, where everything before them is exact.
"""

import dataclasses

import numpy as np
from onnx import helper

from graph import FLOAT, INT8, UINT8, Skip, Value

# Half an ulp of a number in [1, 2) in f32.
U = 2.0**-24

@dataclasses.dataclass
class Known:
    """A float of the graph, its exact values, and an error bound for f32."""
    value: Value
    numbers: np.ndarray
    error: np.ndarray


@dataclasses.dataclass
class Bytes:
    """Integers of the graph; scale and zero point have rank 0, or rank 1 along `axis`."""
    value: Value
    numbers: np.ndarray
    scale: np.ndarray
    zero: np.ndarray
    axis: int = 0

    @property
    def shape(self):
        return self.numbers.shape

    def along(self, array):
        return along(array, self.numbers.ndim, self.axis)

    def centred(self):
        return self.numbers - self.along(self.zero)

    def real(self):
        return self.centred() * self.along(self.scale.astype(np.float64))


def along(array, rank, axis):
    return array.reshape([-1 if i == axis else 1 for i in range(rank)]) if array.ndim else array


def is_power(numbers):
    return np.frexp(np.asarray(numbers, np.float64))[0] == 0.5


def known(g, kind, operands, numbers, error, **attributes):
    # The graph would scale it.
    if np.abs(numbers).max() > 90:
        raise Skip
    value = g.emit(kind, operands, numbers.shape, numbers.min() - 1e-3, numbers.max() + 1e-3, **attributes)
    return Known(value, numbers, np.broadcast_to(error, numbers.shape))


def hidden(g, kind, operands, shape, **attributes):
    """A float without other uses: it may exceed the usual magnitude."""
    value = Value(g.fresh("v"), FLOAT, shape, 0, 0)
    for operand in operands:
        operand.used = True
    g.nodes.append(helper.make_node(kind, [o.name for o in operands], [value.name], name=g.fresh("/n/"), **attributes))
    return value


def draw_scale(g, numbers, error, dtype, axis=None):
    """(scale, zero point, bytes) with which f32 rounds every element as exact arithmetic does."""
    info, rank = np.iinfo(dtype), numbers.ndim
    rest = None if axis is None else tuple(i for i in range(rank) if i != axis)
    low, high = np.minimum(numbers.min(rest), 0), np.maximum(numbers.max(rest), 0)
    for _ in range(16):
        scale = np.maximum(high - low, 2.0**-6) / 255 * g.numbers.uniform(0.7, 1.3, low.shape)
        if g.chance(0.3):
            scale = 2.0 ** np.round(np.log2(scale))
        scale = np.asarray(scale, np.float32)
        kind = g.random.choice(["fitting", "middle", "none"])
        zero = np.zeros(scale.shape, np.int64)
        if kind == "fitting":
            zero = np.clip(np.rint(info.min - low / scale), info.min, info.max).astype(np.int64)
        elif kind == "middle" and dtype == UINT8:
            zero += 128
        wide, shift = along(scale.astype(np.float64), rank, axis), along(zero, rank, axis)
        steps = numbers / wide
        # The quotient or reciprocal, the product, and the reciprocal's own two roundings.
        margin = np.where((error == 0) & is_power(wide), 0, error / wide + 4 * U * np.abs(steps))
        found = np.rint(steps) + shift
        is_decided = (np.abs(steps - np.floor(steps) - 0.5) > margin) | (margin == 0)
        if np.all(is_decided | (found < info.min) | (found > info.max)):
            return scale, zero, np.clip(found, info.min, info.max).astype(np.int64)
    raise Skip


def byte_type(g):
    return g.random.choice([INT8, UINT8])


def emit_bytes(g, kind, operands, numbers, dtype, **attributes):
    info = np.iinfo(dtype)
    return g.emit(kind, operands, numbers.shape, info.min, info.max, dtype, True, **attributes)


def constants(g, scale, zero, dtype):
    """Quantizer inputs; a zero point of 0 in ui8 may be omitted."""
    operands = [g.constant(scale)]
    if dtype != UINT8 or np.any(zero) or g.chance(0.7):
        operands.append(g.constant(zero.astype(dtype)))
    return operands


def axis_attribute(g, array, axis, rank):
    return {"axis": axis - rank if g.chance(0.3) else axis} if array.ndim else {}


def quantize(g, x, dtype=None):
    dtype, rank = dtype or byte_type(g), x.numbers.ndim
    axis = g.random.randrange(rank) if g.opset >= 13 and rank and g.chance(0.1) else None
    scale, zero, numbers = draw_scale(g, x.numbers, x.error, dtype, axis)
    value = emit_bytes(g, "QuantizeLinear", [x.value, *constants(g, scale, zero, dtype)], numbers, dtype,
                       **axis_attribute(g, scale, axis, rank))
    return Bytes(value, numbers, scale, zero, axis or 0)


def dequantize(g, x):
    numbers = x.real()
    is_exact = np.all(is_power(x.scale))
    return known(g, "DequantizeLinear", [x.value, *constants(g, x.scale, x.zero, x.value.type)], numbers,
                 0 if is_exact else U * np.abs(numbers), **axis_attribute(g, x.scale, x.axis, x.numbers.ndim))


def as_before(g, x, like):
    """Quantizes `x`, rearranged bytes of `like`, with the same scale again."""
    info = np.iinfo(like.value.type)
    numbers = np.rint(x.numbers / like.scale.astype(np.float64)).astype(np.int64) + like.zero
    value = emit_bytes(g, "QuantizeLinear", [x.value, *constants(g, like.scale, like.zero, like.value.type)],
                       np.clip(numbers, info.min, info.max), like.value.type)
    return Bytes(value, numbers, like.scale, like.zero)
