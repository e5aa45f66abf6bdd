# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Convolution, pooling and resampling."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from .builder import Builder, Type, Unsupported, Value, is_float, is_narrow, lowers
from .contractions import accumulate

# ===----------------------------------------------------------------------=== #
# Convolution
# ===----------------------------------------------------------------------=== #


def spread(values: int | Sequence[int], rank: int) -> list[int]:
    """One number per spatial dimension; a single one applies to all."""
    values = [values] if isinstance(values, int) else list(values)
    return values * rank if len(values) == 1 else values


def _window(strides: Sequence[int], padding: Sequence[int], dilations: Sequence[int], groups: int,
            output_padding: Sequence[int] | None = None) -> str:
    text = f"strides({list(strides)}) pad({list(padding)}, {list(padding)}) dilations({list(dilations)})"
    if output_padding is not None:
        text += f" output_padding({list(output_padding)})"
    return text + (f" groups({groups})" if groups != 1 else "")


def _convolve(b: Builder, x: Value, weight: Value, shape: Sequence[int], window: str, transposed: bool) -> Value:
    text = "conv_transpose" if transposed else "conv"
    return b.emit(text, [x, weight], [Type(tuple(shape), x.element)],
                  after=f"{window} {accumulate(x.element)}".rstrip())[0]


@lowers("convolution")
def convolution(b: Builder, x: Value, weight: Value, bias: Value | None, stride: Sequence[int], padding: Sequence[int],
                dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int) -> Value:
    if not x.is_float:
        raise Unsupported("a convolution of integers")
    rank = weight.rank - 2
    batched = x if x.rank == weight.rank else b.reshape(x, (1,) + x.shape)
    shape = b.results[0].shape if batched is x else (1,) + b.results[0].shape
    window = _window(spread(stride, rank), spread(padding, rank), spread(dilation, rank), groups,
                     spread(output_padding, rank) if transposed else None)
    result = _convolve(b, batched, weight, shape, window, transposed)
    if bias is not None:
        result = b.add(result, b.reshape(bias, bias.shape + (1,) * rank))
    return b.reshape(result, b.results[0].shape)


@lowers("convolution_backward")
def convolution_backward(b: Builder, gradient: Value, x: Value, weight: Value, bias_sizes: Any, stride: Sequence[int],
                         padding: Sequence[int], dilation: Sequence[int], transposed: bool,
                         output_padding: Sequence[int], groups: int, mask: Sequence[bool]) -> tuple[Any, ...]:
    rank = weight.rank - 2
    if x.rank != weight.rank:
        raise Unsupported("the gradient of a convolution without batch")
    strides, pads, steps = spread(stride, rank), spread(padding, rank), spread(dilation, rank)
    plain = _window(strides, pads, steps, groups)
    of_x = of_weight = of_bias = None
    if mask[0] and transposed:
        of_x = _convolve(b, gradient, weight, x.shape, plain, False)
    elif mask[0]:
        # Rows that the last windows did not reach.
        rest = [x.shape[2 + i] - ((gradient.shape[2 + i] - 1) * strides[i] - 2 * pads[i]
                                  + steps[i] * (weight.shape[2 + i] - 1) + 1) for i in range(rank)]
        of_x = _convolve(b, gradient, weight, x.shape, _window(strides, pads, steps, groups, rest), True)
    if mask[1]:
        operands = [gradient, x] if transposed else [x, gradient]
        of_weight = b.emit("conv_filter_gradient", operands, [weight.type],
                           after=f"{plain} {accumulate(x.element)}".rstrip())[0]
    if mask[2]:
        of_bias = b.reduce("reduce_sum", gradient, [i for i in range(gradient.rank) if i != 1])
    return of_x, of_weight, of_bias


# ===----------------------------------------------------------------------=== #
# Pooling
# ===----------------------------------------------------------------------=== #


def _batched(b: Builder, x: Value, rank: int) -> Value:
    return x if x.rank == rank + 2 else b.reshape(x, (1,) + x.shape)


def _pool(kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
          ceil_mode: bool) -> str:
    return (f"window({list(kernel)}) strides({list(stride)}) pad({list(padding)}, {list(padding)}) "
            f"dilations({list(dilation)})" + (" ceil_mode" if ceil_mode else ""))


def _max_pool(b: Builder, rank: int, x: Value, kernel: Any, stride: Any, padding: Any, dilation: Any,
              ceil_mode: bool) -> tuple[Value, Value | None]:
    shape, x = b.results[0].shape, _batched(b, x, rank)
    kernel = spread(kernel, rank)
    stride = spread(stride, rank) if stride or stride == 0 else kernel
    padding, dilation = spread(padding, rank), spread(dilation, rank)
    kind = Type((x.shape[0],) + shape[-rank - 1:], x.element)
    best = b.emit("max_pool", [x], [kind], "arrow", _pool(kernel, stride, padding, dilation, ceil_mode))[0]
    positions = None
    if b.used[1]:
        positions = b.reshape(_positions(b, x, kind.shape[2:], kernel, stride, padding, dilation), shape)
    return b.reshape(best, shape), positions


def _positions(b: Builder, x: Value, out: Sequence[int], kernel: Sequence[int], stride: Sequence[int],
               padding: Sequence[int], dilation: Sequence[int]) -> Value:
    """Flat index of each maximum in its image: compares window elements one by one, the first wins."""
    if not x.is_float:
        raise Unsupported("positions of a pool of integers")
    rank, spatial = len(kernel), x.shape[2:]
    reach = [(out[i] - 1) * stride[i] + (kernel[i] - 1) * dilation[i] + 1 for i in range(rank)]
    low = [0, 0] + list(padding)
    high = [0, 0] + [max(reach[i] - spatial[i] - padding[i], 0) for i in range(rank)]
    padded = b.pad(x, low, high, value=-math.inf)
    numbers = b.reshape(b.iota((math.prod(spatial),), 0), (1, 1) + tuple(spatial))
    numbers = b.pad(numbers, low, high, value=-1)
    most = place = None
    for offset in itertools.product(*[range(k) for k in kernel]):
        begin = [0, 0] + [o * d for o, d in zip(offset, dilation)]
        steps = [1, 1] + list(stride)
        value = b.slice(padded, begin, list(x.shape[:2]) + list(out), steps)
        number = b.slice(numbers, begin, [1, 1] + list(out), steps)
        if most is None:
            most, place = value, b.broadcast(number, value.shape)
            continue
        larger = b.compare("gt", value, most)
        # In a window with only lowest values, the first element that is not padding.
        unset = b.binary("and", b.compare("lt", place, b.scalar(0, "i64")), b.compare("ge", number, b.scalar(0, "i64")))
        larger = b.binary("or", larger, unset)
        most, place = b.select(larger, value, most), b.select(larger, number, place)
    return place


@lowers("max_pool2d_with_indices")
def max_pool2d(b: Builder, x: Value, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1,
               ceil_mode: bool = False) -> Any:
    return _max_pool(b, 2, x, kernel, stride, padding, dilation, ceil_mode)


@lowers("max_pool3d_with_indices")
def max_pool3d(b: Builder, x: Value, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1,
               ceil_mode: bool = False) -> Any:
    return _max_pool(b, 3, x, kernel, stride, padding, dilation, ceil_mode)


@lowers("max_pool2d_with_indices_backward")
def max_pool2d_backward(b: Builder, gradient: Value, x: Value, kernel: Any, stride: Any, padding: Any, dilation: Any,
                        ceil_mode: bool, indices: Any) -> Value:
    shape, kernel = x.shape, spread(kernel, 2)
    stride = spread(stride, 2) if stride else kernel
    gradient, x = _batched(b, gradient, 2), _batched(b, x, 2)
    result = b.emit("max_pool_gradient", [x, gradient], [x.type],
                    after=_pool(kernel, stride, spread(padding, 2), spread(dilation, 2), ceil_mode))[0]
    return b.reshape(result, shape)


def _average(rank: int, kernel: Any, stride: Any, padding: Any, ceil_mode: bool, count: bool) -> str:
    kernel = spread(kernel, rank)
    stride = spread(stride, rank) if stride else kernel
    return _pool(kernel, stride, spread(padding, rank), [1] * rank, ceil_mode) + (" count_include_pad" if count else "")


def _avg_pool(b: Builder, rank: int, x: Value, kernel: Any, stride: Any, padding: Any, ceil_mode: bool, count: bool,
              divisor: int | None) -> Value:
    if divisor is not None and (ceil_mode or not count):
        raise Unsupported("divisor_override with ceil_mode")
    if not x.is_float:
        raise Unsupported("a mean of integers")
    shape, x = b.results[0].shape, _batched(b, x, rank)
    kind = Type((x.shape[0],) + shape[-rank - 1:], x.element)
    result = b.emit("avg_pool", [x], [kind], "arrow", _average(rank, kernel, stride, padding, ceil_mode, count))[0]
    if divisor is not None:
        result = b.mul(result, b.scalar(math.prod(spread(kernel, rank)) / divisor, x.element))
    return b.reshape(result, shape)


@lowers("avg_pool2d")
def avg_pool2d(b: Builder, x: Value, kernel: Any, stride: Any = (), padding: Any = 0, ceil_mode: bool = False,
               count_include_pad: bool = True, divisor_override: int | None = None) -> Value:
    return _avg_pool(b, 2, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override)


@lowers("avg_pool3d")
def avg_pool3d(b: Builder, x: Value, kernel: Any, stride: Any = (), padding: Any = 0, ceil_mode: bool = False,
               count_include_pad: bool = True, divisor_override: int | None = None) -> Value:
    return _avg_pool(b, 3, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override)


@lowers("avg_pool2d_backward")
def avg_pool2d_backward(b: Builder, gradient: Value, x: Value, kernel: Any, stride: Any, padding: Any, ceil_mode: bool,
                        count_include_pad: bool, divisor_override: int | None = None) -> Value:
    if divisor_override is not None:
        raise Unsupported("the gradient of a pool with divisor_override")
    shape, gradient = x.shape, _batched(b, gradient, 2)
    kind = Type((gradient.shape[0],) + shape[-3:], gradient.element)
    text = _average(2, kernel, stride, padding, ceil_mode, count_include_pad)
    return b.reshape(b.emit("avg_pool_gradient", [gradient], [kind], "arrow", text)[0], shape)


# ===----------------------------------------------------------------------=== #
# Adaptive pooling: along one axis after the other, by means of equal or unequal parts
# ===----------------------------------------------------------------------=== #


def _parts(extent: int, count: int) -> list[tuple[int, int]]:
    return [(i * extent // count, -(-(i + 1) * extent // count)) for i in range(count)]


def _adaptive(b: Builder, x: Value, rank: int) -> Value:
    shape, element = b.results[0].shape, x.element
    if not is_float(element):
        raise Unsupported("a mean of integers")
    x = b.cast(x, "f32") if is_narrow(element) else x
    for axis in range(x.rank - rank, x.rank):
        extent, count = x.shape[axis], shape[axis]
        if count == extent:
            continue
        if extent % count == 0:
            rows = b.reshape(x, x.shape[:axis] + (count, extent // count) + x.shape[axis + 1:])
            x = b.reduce("reduce_mean", rows, [axis + 1])
        else:
            x = b.concat([b.reduce("reduce_mean", b.slice_axis(x, axis, begin, end - begin), [axis], True)
                          for begin, end in _parts(extent, count)], axis)
    return b.cast(x, element)


@lowers("_adaptive_avg_pool2d")
def adaptive_avg_pool2d(b: Builder, x: Value, size: Sequence[int]) -> Value:
    return _adaptive(b, x, 2)


@lowers("_adaptive_avg_pool3d")
def adaptive_avg_pool3d(b: Builder, x: Value, size: Sequence[int]) -> Value:
    return _adaptive(b, x, 3)


@lowers("_adaptive_avg_pool2d_backward")
def adaptive_avg_pool2d_backward(b: Builder, gradient: Value, x: Value) -> Value:
    element = gradient.element
    gradient = b.cast(gradient, "f32") if is_narrow(element) else gradient
    for axis in (x.rank - 2, x.rank - 1):
        extent, count = x.shape[axis], gradient.shape[axis]
        rest = None
        for i, (begin, end) in enumerate(_parts(extent, count)):
            part = b.mul(b.slice_axis(gradient, axis, i, 1), b.scalar(1 / (end - begin), gradient.element))
            shape = list(gradient.shape)
            shape[axis] = end - begin
            low, high = [0] * x.rank, [0] * x.rank
            low[axis], high[axis] = begin, extent - end
            part = b.pad(b.broadcast(part, shape), low, high)
            rest = part if rest is None else b.add(rest, part)
        gradient = rest
    return b.cast(gradient, element)


# ===----------------------------------------------------------------------=== #
# Resampling
# ===----------------------------------------------------------------------=== #


def _scales(x: Value, factors: Sequence[float | None] | None, rank: int) -> list[float | None]:
    return list(factors) if factors else [None] * rank


@lowers("upsample_nearest2d.vec", "upsample_nearest2d")
def upsample_nearest2d(b: Builder, x: Value, size: Any = None, *factors: Any) -> Value:
    scales = factors[0] if factors and isinstance(factors[0], (list, tuple)) else list(factors)
    scales = _scales(x, scales, 2)
    for i, axis in enumerate((2, 3)):
        extent, count = x.shape[axis], b.results[0].shape[axis]
        ratio = 1 / scales[i] if scales[i] else extent / count
        x = b.gather(x, b.vector([min(int(j * ratio), extent - 1) for j in range(count)], "i64"), axis)
    return x


@lowers("upsample_bilinear2d.vec", "upsample_bilinear2d")
def upsample_bilinear2d(b: Builder, x: Value, size: Any, align_corners: bool, *factors: Any) -> Value:
    scales = factors[0] if factors and isinstance(factors[0], (list, tuple)) else list(factors)
    scales, element = _scales(x, scales, 2), x.element
    x = b.cast(x, "f32") if is_narrow(element) else x
    for i, axis in enumerate((2, 3)):
        extent, count = x.shape[axis], b.results[0].shape[axis]
        if align_corners:
            ratio = (extent - 1) / (count - 1) if count > 1 else 0.0
            points = [j * ratio for j in range(count)]
        else:
            ratio = 1 / scales[i] if scales[i] else extent / count
            points = [max((j + 0.5) * ratio - 0.5, 0.0) for j in range(count)]
        below = [min(int(p), extent - 1) for p in points]
        above = [min(p + 1, extent - 1) for p in below]
        weight = b.vector([p - q for p, q in zip(points, below)], x.element)
        weight = b.reshape(weight, (count,) + (1,) * (3 - axis))
        first, second = (b.gather(x, b.vector(line, "i64"), axis) for line in (below, above))
        x = b.add(b.mul(first, b.sub(b.scalar(1, x.element), weight)), b.mul(second, weight))
    return b.cast(x, element)
