# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Softmax and normalization, and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .builder import Builder, Operand, Unsupported, Value, axis_of, f64, lowers, wide
from .reductions import variance

# ===----------------------------------------------------------------------=== #
# Softmax
# ===----------------------------------------------------------------------=== #


def _enter_softmax(text: str, *names: str) -> None:
    @lowers(*names)
    def lower(b: Builder, x: Value, dim: int, half_to_float: Any = False) -> Value:
        element = b.results[0].element
        if x.rank == 0:
            return b.full(1.0 if text == "softmax" else 0.0, (), element)
        # PyTorch rounds once, at the end.
        x = b.cast(x, wide(element))
        return b.cast(b.unary(text, x, f"axis({axis_of(dim, x.rank)})"), element)


_enter_softmax("softmax", "_softmax")
_enter_softmax("log_softmax", "_log_softmax")

# ===----------------------------------------------------------------------=== #
# Layers
# ===----------------------------------------------------------------------=== #


def _affine(b: Builder, scale: Value | None, bias: Value | None, shape: Sequence[int], element: str) -> list[Value]:
    one = b.full(1, shape, element) if scale is None else b.cast(scale, element)
    return [one] if bias is None else [one, b.cast(bias, element)]


@lowers("native_layer_norm")
def layer_norm(b: Builder, x: Value, shape: Sequence[int], scale: Value | None, bias: Value | None,
               eps: float) -> tuple[Value | None, ...]:
    element, axis = x.element, x.rank - len(shape)
    x = b.cast(x, wide(element))
    result = b.emit("layer_norm", [x, *_affine(b, scale, bias, shape, x.element)], [x.type],
                    after=f"axis({axis}) epsilon({f64(eps)})")[0]
    return (b.cast(result, element), *_statistics(b, x, range(axis, x.rank), eps))


def _statistics(b: Builder, x: Value, axes: Sequence[int], eps: float) -> tuple[Value | None, Value | None]:
    """Mean and inverse standard deviation, if they are used."""
    if not any(b.used[1:3]):
        return None, None
    spread, middle = variance(b, x, list(axes), 0, True)
    inverse = b.unary("rsqrt", b.add(spread, b.scalar(eps, spread.element)))
    return tuple(b.cast(b.reshape(v, kind.shape), kind.element) for v, kind in zip((middle, inverse), b.results[1:3]))


@lowers("native_layer_norm_backward")
def layer_norm_backward(b: Builder, gradient: Value, x: Value, shape: Sequence[int], mean: Operand, inverse: Operand,
                        scale: Value | None, bias: Value | None, mask: Sequence[bool],
                        eps: float | None = None) -> tuple[Value | None, ...]:
    if eps is None:
        return _from_statistics(b, gradient, x, shape, mean, inverse, scale, mask)
    element, axis = x.element, x.rank - len(shape)
    x, gradient = b.cast(x, wide(element)), b.cast(gradient, wide(element))
    factor = _affine(b, scale, None, shape, x.element)[0]
    of_x, of_scale = b.emit("norm_gradient", [x, factor, gradient], [x.type, factor.type],
                            after=f"axis({axis}) epsilon({f64(eps)})")
    of_bias = b.reduce("reduce_sum", gradient, range(axis)) if mask[2] else None
    found = (of_x if mask[0] else None, of_scale if mask[1] else None, of_bias)
    return tuple(None if v is None else b.cast(v, kind.element) for v, kind in zip(found, b.results))


def _from_statistics(b: Builder, gradient: Value, x: Value, shape: Sequence[int], mean: Value, inverse: Value,
                     scale: Value | None, mask: Sequence[bool]) -> tuple[Value | None, ...]:
    element, axis = x.element, x.rank - len(shape)
    inner, outer = range(axis, x.rank), range(axis)
    work = wide(element)
    x, gradient, mean, inverse = (b.cast(v, work) for v in (x, gradient, mean, inverse))
    normal = b.mul(b.sub(x, mean), inverse)
    found: list[Value | None] = [None, None, None]
    if mask[0]:
        g = gradient if scale is None else b.mul(gradient, b.cast(scale, work))
        apart = b.mul(normal, b.reduce("reduce_mean", b.mul(g, normal), inner, True))
        found[0] = b.mul(b.sub(b.sub(g, b.reduce("reduce_mean", g, inner, True)), apart), inverse)
    if mask[1]:
        found[1] = b.reduce("reduce_sum", b.mul(gradient, normal), outer)
    if mask[2]:
        found[2] = b.reduce("reduce_sum", gradient, outer)
    return tuple(None if v is None else b.cast(v, kind.element) for v, kind in zip(found, b.results))


@lowers("_fused_rms_norm")
def rms_norm(b: Builder, x: Value, shape: Sequence[int], scale: Value | None, eps: float | None) -> Any:
    element, axis = x.element, x.rank - len(shape)
    if eps is None:
        eps = {"f64": 2.0 ** -52, "f32": 2.0 ** -23, "f16": 2.0 ** -10, "bf16": 2.0 ** -7}[element]
    x = b.cast(x, wide(element))
    result = b.emit("rms_norm", [x, *_affine(b, scale, None, shape, x.element)], [x.type],
                    after=f"axis({axis}) epsilon({f64(eps)})")[0]
    inverse = None
    if b.used[1]:
        square = b.reduce("reduce_mean", b.mul(x, x), range(axis, x.rank), True)
        inverse = b.unary("rsqrt", b.add(square, b.scalar(eps, x.element)))
        inverse = b.cast(b.reshape(inverse, b.results[1].shape), b.results[1].element)
    return b.cast(result, element), inverse


@lowers("native_group_norm")
def group_norm(b: Builder, x: Value, scale: Value | None, bias: Value | None, batch: int, channels: int, inner: int,
               groups: int, eps: float) -> tuple[Value | None, ...]:
    element = x.element
    x = b.cast(x, wide(element))
    one = b.full(1, (channels,), x.element) if scale is None else b.cast(scale, x.element)
    zero = b.full(0, (channels,), x.element) if bias is None else b.cast(bias, x.element)
    image = x if x.rank > 2 else b.reshape(x, x.shape + (1,))
    result = b.emit("group_norm", [image, one, zero], [image.type], after=f"groups({groups}) epsilon({f64(eps)})")[0]
    rows = b.reshape(x, (batch, groups, channels // groups * inner)) if any(b.used[1:3]) else x
    return (b.cast(b.reshape(result, x.shape), element), *_statistics(b, rows, [2], eps))


@lowers("_weight_norm_interface_backward")
def weight_norm_backward(b: Builder, gradient: Value, direction: Value, length: Value, norms: Value,
                         dim: int) -> tuple[Value, ...]:
    axes = [i for i in range(direction.rank) if i != axis_of(dim, direction.rank)]
    along = b.div(b.reduce("reduce_sum", b.mul(gradient, direction), axes, True), norms)
    across = b.sub(gradient, b.mul(direction, b.div(along, norms)))
    return b.mul(b.div(length, norms), across), along


# ===----------------------------------------------------------------------=== #
# Batch norm
# ===----------------------------------------------------------------------=== #


def _channels(v: Value, b: Builder, rank: int) -> Value:
    return b.reshape(v, v.shape + (1,) * (rank - 2))


def _batch_norm(b: Builder, x: Value, scale: Value | None, bias: Value | None, mean: Value | None, var: Value | None,
                training: bool, momentum: float, eps: float) -> tuple[Value | None, ...]:
    """Result, saved mean and inverse standard deviation, new statistics."""
    element, channels = x.element, (x.shape[1],)
    x = b.cast(x, wide(element))
    work = x.element
    one = b.full(1, channels, work) if scale is None else b.cast(scale, work)
    zero = b.full(0, channels, work) if bias is None else b.cast(bias, work)
    if not training:
        result = b.emit("batch_norm", [x, one, zero, b.cast(mean, work), b.cast(var, work)], [x.type],
                        after=f"epsilon({f64(eps)})")[0]
        return b.cast(result, element), None, None, mean, var
    old = [b.full(0, channels, work) if v is None else b.cast(v, work) for v in (mean, var)]
    result, new_mean, new_var = b.emit("batch_norm_training", [x, one, zero, *old], [x.type, old[0].type, old[1].type],
                                       after=f"epsilon({f64(eps)}) momentum({f64(momentum)})")
    saved = _statistics(b, x, [i for i in range(x.rank) if i != 1], eps)
    return b.cast(result, element), *saved, new_mean, new_var


def _finish(b: Builder, found: Sequence[Value | None]) -> tuple[Value | None, ...]:
    return tuple(None if v is None else b.cast(v, kind.element) for v, kind in zip(found, b.results))


@lowers("_native_batch_norm_legit_functional")
def batch_norm_functional(b: Builder, x: Value, scale: Value | None, bias: Value | None, mean: Value, var: Value,
                          training: bool, momentum: float, eps: float) -> tuple[Value | None, ...]:
    if not training and any(b.used[1:3]) and 0 not in b.results[1].shape:
        raise Unsupported("saved statistics of a norm that does not train")
    return _finish(b, _batch_norm(b, x, scale, bias, mean, var, training, momentum, eps))


@lowers("_native_batch_norm_legit_no_training")
def batch_norm_no_training(b: Builder, x: Value, scale: Value | None, bias: Value | None, mean: Value, var: Value,
                           momentum: float, eps: float) -> tuple[Value | None, ...]:
    return _finish(b, _batch_norm(b, x, scale, bias, mean, var, False, momentum, eps)[:3])


@lowers("_native_batch_norm_legit.no_stats")
def batch_norm_no_stats(b: Builder, x: Value, scale: Value | None, bias: Value | None, training: bool,
                        momentum: float, eps: float) -> tuple[Value | None, ...]:
    return _finish(b, _batch_norm(b, x, scale, bias, None, None, True, momentum, eps)[:3])


@lowers("native_batch_norm_backward")
def batch_norm_backward(b: Builder, gradient: Value, x: Value, scale: Value | None, mean: Operand, var: Operand,
                        saved_mean: Operand, saved_inverse: Operand, training: bool, eps: float,
                        mask: Sequence[bool]) -> tuple[Value | None, ...]:
    element, channels = x.element, (x.shape[1],)
    x, gradient = b.cast(x, wide(element)), b.cast(gradient, wide(element))
    one = b.full(1, channels, x.element) if scale is None else b.cast(scale, x.element)
    if training:
        found = b.emit("batch_norm_gradient", [x, one, gradient], [x.type, one.type, one.type],
                       after=f"epsilon({f64(eps)})")
        return _finish(b, [v if wanted else None for v, wanted in zip(found, mask)])
    inverse = b.unary("rsqrt", b.add(b.cast(var, x.element), b.scalar(eps, x.element)))
    axes = [i for i in range(x.rank) if i != 1]
    of_x = b.mul(gradient, _channels(b.mul(one, inverse), b, x.rank)) if mask[0] else None
    of_scale = of_bias = None
    if mask[1]:
        apart = b.sub(x, _channels(b.cast(mean, x.element), b, x.rank))
        of_scale = b.mul(b.reduce("reduce_sum", b.mul(gradient, apart), axes), inverse)
    if mask[2]:
        of_bias = b.reduce("reduce_sum", gradient, axes)
    return _finish(b, [of_x, of_scale, of_bias])
