# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Chains of quantized layers, as quantizers write them."""

import dataclasses
from collections.abc import Callable

import numpy as np

from campaign import PEER_ERROR
from graph import FLOAT, INT32, INT8, UINT8, Skip
from layers import window
from quantizer import (U, Bytes, Known, along, as_before, byte_type, dequantize, draw_scale, emit_bytes,
                       hidden, is_power, known, quantize)
from windows import maxima, patches


def source(g):
    """The input bytes of a chain: a graph input, or a quantized float."""
    channels = g.random.choice([1, 2, 3, 4, 8, 16, 24])
    shape = g.random.choice([
        (g.random.choice([1, 3, 8, 17]), g.random.choice([1, 4, 7, 16, 33, 64])),
        (g.random.choice([1, 2]), g.random.choice([1, 5, 8]), g.random.choice([3, 8, 32])),
        (g.random.choice([1, 2]), channels, *(g.random.choice([1, 3, 5, 8, 11]) for _ in range(2)))])
    if np.prod(shape) > 3000:
        raise Skip
    if g.chance(0.4):
        dtype = byte_type(g)
        info = np.iinfo(dtype)
        value = g.input(dtype, shape, info.min, info.max)
        scale = np.float32(2.0 ** g.random.randint(-7, -5) * g.random.choice([1, 1, g.random.uniform(0.6, 1)]))
        zero = np.array(g.random.choice([0, g.random.randint(info.min, info.max)]))
        return Bytes(value, g.feeds[value.name].astype(np.int64), np.asarray(scale), zero)
    found = [v for v in g.values if v.name in g.feeds and v.type == FLOAT and 2 <= v.rank <= 4 and v.size <= 3000]
    value = g.random.choice(found) if found and g.chance(0.5) else g.input(FLOAT, shape)
    return quantize(g, Known(value, g.feeds[value.name].astype(np.float64), np.zeros(value.shape)))


def draw_weights(g, shape, axis, depth, can_vary=True):
    """Constant bytes, sometimes an input's; one scale, or one per index of `axis`."""
    dtype = g.random.choice([INT8, INT8, INT8, UINT8])
    info, middle = np.iinfo(dtype), 128 if dtype == UINT8 else 0
    numbers_shape = (shape[axis],) if can_vary and g.opset >= 13 and g.chance(0.5) else ()
    zero = np.full(numbers_shape, middle)
    if g.chance(0.3):
        zero = g.numbers.integers(middle - 30, middle + 31, numbers_shape)
    # Sums of small numbers are exact in f32.
    reach = g.random.choice([7, 127])
    scale = g.numbers.uniform(0.5, 2, numbers_shape) / (reach * np.sqrt(depth))
    scale = 2.0 ** np.round(np.log2(scale)) if g.chance(0.4) else scale
    low, high = max(middle - reach, info.min), min(middle + reach, info.max)
    if g.chance(0.15):
        value = g.input(dtype, shape, low, high)
        numbers = g.feeds[value.name].astype(np.int64)
    else:
        numbers = g.numbers.integers(low, high + 1, shape)
        value = g.constant(numbers.astype(dtype))
    return Bytes(value, numbers, np.asarray(scale, np.float32), np.asarray(zero), axis)


@dataclasses.dataclass
class Product:
    """The sums of a layer, however expressed: `sum_of(x, weights)` of values minus their zero points."""
    sum_of: Callable
    weights: Bytes
    depth: int
    column_axis: int
    name: str
    attributes: dict


def matrices(g, x):
    depth, columns = x.shape[-1], g.random.choice([1, 3, 8, 16, 33])
    weights = draw_weights(g, (depth, columns), 1, depth)
    return Product(np.matmul, weights, depth, len(x.shape) - 1, "MatMul", {})


def convolution(g, x):
    channels, rank = x.shape[1], len(x.shape) - 2
    groups = g.random.choice([d for d in (1, 1, 1, 2, channels) if channels % d == 0])
    features = groups * g.random.choice([1, 2, 8] if groups == 1 else [1, 2])
    extents, attributes = window(g, x.shape[2:], "Conv")
    kernel, ones = attributes["kernel_shape"], [1] * rank
    strides, dilations = attributes.get("strides", ones), attributes.get("dilations", ones)
    pads = attributes.get("pads", [0] * 2 * rank)
    mode = attributes.get("auto_pad", "VALID")
    if mode.startswith("SAME"):
        total = [max((o - 1) * s + k - e, 0) for o, s, k, e in zip(extents, strides, kernel, x.shape[2:])]
        low = [(t + (mode == "SAME_LOWER")) // 2 for t in total]
        pads = low + [t - a for t, a in zip(total, low)]
    depth = channels // groups * int(np.prod(kernel))
    weights = draw_weights(g, (features, channels // groups, *kernel), 0, depth)

    def sums(image, filters):
        seen = patches(image, kernel, strides, dilations, pads, 0)
        seen = seen.reshape(seen.shape[0], groups, channels // groups, *seen.shape[2:])
        filters = filters.reshape(groups, features // groups, channels // groups, -1)
        seen = seen.reshape(*seen.shape[:3 + rank], -1)
        spatial = "yzw"[:rank]
        found = np.einsum(f"ngc{spatial}k,gmck->ngm{spatial}", seen, filters)
        return found.reshape(x.shape[0], features, *extents)

    return Product(sums, weights, depth, 1, "Conv", {"group": groups, **attributes})


def by_floats(g, x, product, numbers, error):
    """Products of dequantized floats."""
    y, w = dequantize(g, x), dequantize(g, product.weights)
    made, columns, w_scale = [y.value, w.value], numbers.shape[product.column_axis], product.weights.scale
    bias = None
    if g.chance(0.6):
        if x.scale.ndim == 0 and g.chance(0.6):
            integers = g.numbers.integers(-200, 201, (columns,))
            bias = dequantize_bias(g, integers, (x.scale * w_scale).astype(np.float32))
        else:
            array = g.numbers.integers(-16, 17, (columns,)) / 16
            bias = Known(g.constant(array.astype(np.float32)), array, 0)
    if product.name == "Conv":
        if bias:
            shift, off = (along(np.broadcast_to(a, (columns,)), numbers.ndim, 1) for a in (bias.numbers, bias.error))
            numbers, error = numbers + shift, added(error, off, numbers, shift)
            made.append(bias.value)
        return known(g, "Conv", made, numbers, error, **product.attributes)
    result = known(g, "MatMul", made, numbers, error)
    if bias:
        result = plus(g, result, bias)
    return result


def dequantize_bias(g, integers, scale):
    numbers = integers * scale.astype(np.float64)
    return known(g, "DequantizeLinear", [g.constant(integers.astype(np.int32)), g.constant(scale)], numbers,
                 0 if np.all(is_power(scale)) else U * np.abs(numbers), **({"axis": 0} if scale.ndim else {}))


def added(error, other, numbers, more):
    """Error bound of a sum: exact if both operands are, on a grid that f32 holds."""
    total = np.abs(numbers) + np.abs(more)
    is_exact = (error == 0) & (other == 0) & (numbers * 4096 == np.rint(numbers * 4096)) & (
        more * 4096 == np.rint(more * 4096)) & (total < 2048)
    return np.where(is_exact, 0, error + other + 2 * U * total)


def plus(g, x, y):
    return known(g, "Add", [x.value, y.value], x.numbers + y.numbers, added(x.error, y.error, x.numbers, y.numbers))


def by_integers(g, x, product, sums, x_scale, x_zero, zero_is_known=True):
    """i32 sums, scaled as floats. Scale and zero point of `x` are values of the graph."""
    weights, columns = product.weights, product.column_axis
    operands = [x.value, weights.value]
    has_zero = np.any(weights.zero) or g.chance(0.5)
    if not zero_is_known or np.any(x.zero) or has_zero:
        operands.append(x_zero)
    if has_zero:
        operands.append(g.constant(weights.zero.astype(weights.value.type)))
    total = g.emit(product.name + "Integer", operands, sums.shape, sums.min(), sums.max(), INT32, True,
                   **product.attributes)
    cast = hidden(g, "Cast", [total], sums.shape, to=1)
    shape = np.ones(sums.ndim - columns, np.int64)
    shape[0] = sums.shape[columns]
    scale = weights.scale.reshape(shape if weights.scale.ndim else ())
    factor = scale.astype(np.float64) * x.scale.astype(np.float64)
    if x_scale is None:
        both = g.constant(factor.astype(np.float32))
    else:
        constant = g.constant(scale)
        both = hidden(g, "Mul", [x_scale, constant], factor.shape)
    numbers = sums * factor
    is_exact = x_scale is None and np.all(is_power(factor)) and np.abs(sums).max() < 1 << 24
    return known(g, "Mul", [cast, both], numbers, 0 if is_exact else 5 * U * np.abs(numbers))


def linear(g, x, product, sums):
    """QLinearMatMul, QLinearConv."""
    w, rank = product.weights, sums.ndim
    scale = along(w.scale.astype(np.float64), rank, product.column_axis) * x.scale.astype(np.float64)
    operands = [x.value, g.constant(x.scale), g.constant(x.zero.astype(x.value.type)), w.value, g.constant(w.scale),
                g.constant(w.zero.astype(w.value.type))]
    bias = None
    if product.name == "Conv" and g.chance(0.6):
        bias = g.numbers.integers(-2000, 2001, (sums.shape[1],))
        sums = sums + along(bias, rank, 1)
    numbers = sums * scale
    is_exact = np.all(is_power(scale)) and np.abs(sums).max() < 1 << 24
    dtype = x.value.type if g.chance(0.8) else byte_type(g)
    new_scale, zero, found = draw_scale(g, numbers, np.where(is_exact, 0, U * np.abs(numbers)), dtype)
    operands += [g.constant(new_scale), g.constant(zero.astype(dtype))]
    if bias is not None:
        operands.append(g.constant(bias.astype(np.int32)))
    value = emit_bytes(g, "QLinear" + product.name, operands, found, dtype, **product.attributes)
    return Bytes(value, found, new_scale, zero)


def activation(g, x):
    kind = g.random.choice(["Relu", "Relu", "LeakyRelu", "Sigmoid", "Tanh"])
    if kind == "Relu":
        return known(g, kind, [x.value], np.maximum(x.numbers, 0), x.error)
    if kind == "LeakyRelu":
        return known(g, kind, [x.value], np.where(x.numbers > 0, x.numbers, x.numbers / 8), x.error, alpha=0.125)
    numbers = np.tanh(x.numbers) if kind == "Tanh" else 1 / (1 + np.exp(-x.numbers))
    return known(g, kind, [x.value], numbers, x.error + PEER_ERROR)


def layer(g, x):
    """A product of bytes and its epilogue."""
    is_image = 3 <= len(x.shape) <= 4
    product = convolution(g, x) if is_image and g.chance(0.8) else matrices(g, x)
    form = g.random.choice(["floats", "floats", "linear", "integers"]) if x.scale.ndim == 0 else "floats"
    w = product.weights
    if form == "floats":
        numbers, size = product.sum_of(x.real(), w.real()), product.sum_of(np.abs(x.real()), np.abs(w.real()))
        most = product.sum_of(np.abs(x.centred()), np.abs(w.centred())).max()
        is_exact = x.scale.ndim == 0 and np.all(is_power(x.scale)) and np.all(is_power(w.scale)) and most < 1 << 24
        result = by_floats(g, x, product, numbers, np.where(is_exact, 0, (product.depth + 4) * U * size))
    else:
        sums = product.sum_of(x.centred(), w.centred())
        if form == "linear":
            return linear(g, x, product, sums)
        result = by_integers(g, x, product, sums, None, g.constant(x.zero.astype(x.value.type)))
    return quantize(g, activation(g, result) if g.chance(0.5) else result)


def dynamic(g):
    """DynamicQuantizeLinear and a product that uses its three results."""
    if g.opset < 11:
        raise Skip
    for _ in range(8):
        shape = g.random.choice([(g.random.choice([1, 3, 8]), g.random.choice([4, 16, 33])),
                                 (1, g.random.choice([1, 3, 8]), 5, g.random.choice([3, 8]))])
        array = g.numbers.uniform(-3, g.random.choice([1, 3]), shape).astype(np.float32)
        low, high = min(array.min(), 0), max(array.max(), 0)
        scale = (np.float32(high) - np.float32(low)) / np.float32(255)
        steps, start = array / np.float64(scale), -low / np.float64(scale)
        near = np.abs(np.append(steps, start) % 1 - 0.5)
        if near.min() > 6 * U * 255:
            break
    else:
        raise Skip
    value = g.input(FLOAT, shape, -3, 3)
    g.feeds[value.name] = array
    zero = np.rint(start).astype(np.int64)
    numbers = np.clip(np.rint(steps) + zero, 0, 255).astype(np.int64)
    made = g.emit_many("DynamicQuantizeLinear", [value], [(shape, 0, 255, UINT8, True), ((), 0, scale, FLOAT, False),
                                                          ((), 0, 255, UINT8, True)])
    x = Bytes(made[0], numbers, np.asarray(scale), zero)
    product = convolution(g, x) if len(shape) == 4 else matrices(g, x)
    sums = product.sum_of(x.centred(), product.weights.centred())
    result = by_integers(g, x, product, sums, made[1], made[2], zero_is_known=False)
    return quantize(g, activation(g, result) if g.chance(0.5) else result)


def move(g, x):
    """Rearranges bytes, directly or as floats between two quantizers of the same scale."""
    if x.scale.ndim:
        raise Skip
    before = dequantize(g, x) if g.chance(0.5) or g.opset < 13 else None
    rank = len(x.shape)
    kind = g.random.choice(["Transpose", "Reshape"] + (["MaxPool"] * 2 if rank == 4 and g.opset >= 12 else []))
    operands, attributes = [before.value if before else x.value], {}
    if kind == "Transpose":
        order = [int(i) for i in g.numbers.permutation(rank)]
        numbers, attributes = x.numbers.transpose(order), {"perm": order}
    elif kind == "Reshape":
        shape = (x.shape[0], -1) if rank > 2 or g.chance(0.5) else (1, *x.shape)
        numbers = x.numbers.reshape(shape)
        operands.append(g.integers(*shape))
    else:
        numbers, attributes = maxima(g, x.numbers)
    if before:
        moved = (numbers - x.zero) * x.scale.astype(np.float64)
        return as_before(g, known(g, kind, operands, moved, U * np.abs(moved), **attributes), x)
    return Bytes(emit_bytes(g, kind, operands, numbers, x.value.type, **attributes), numbers, x.scale, x.zero)


def combine(g, x):
    """Floats between two quantizers: a sum with other bytes, a mean, a function, nothing."""
    kind = g.random.choice(["sum", "sum", "mean", "function", "steps"])
    before = dequantize(g, x)
    if kind == "sum":
        shape = x.shape if g.chance(0.6) else x.shape[-1:]
        other = dequantize(g, draw_weights(g, shape, 0, 1, can_vary=False))
        return quantize(g, plus(g, before, other))
    if kind == "mean" and len(x.shape) == 4:
        count = int(np.prod(x.shape[2:]))
        size = np.abs(before.numbers).mean((2, 3), keepdims=True)
        return quantize(g, known(g, "GlobalAveragePool", [before.value], before.numbers.mean((2, 3), keepdims=True),
                                 (count + 3) * U * size))
    if kind == "function":
        return quantize(g, activation(g, before))
    return quantize(g, before)


def chain(g):
    if g.opset < 10:
        raise Skip
    current = dynamic(g) if g.chance(0.25) else source(g)
    try:
        for _ in range(g.random.randint(1, 5)):
            current = g.random.choice([layer, layer, layer, move, combine])(g, current)
    except Skip:
        pass  # keep what there is
    if g.chance(0.6):
        dequantize(g, current)


OPS = [chain]
