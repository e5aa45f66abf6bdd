# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reductions, scans and sorting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .builder import Builder, Type, Unsupported, Value, axes_of, axis_of, is_narrow, lowers, wide

# ===----------------------------------------------------------------------=== #
# Sums
# ===----------------------------------------------------------------------=== #


@lowers("sum", "sum.dim_IntList")
def total(b: Builder, x: Value, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Value:
    return b.reduce("reduce_sum", b.cast(x, b.results[0].element), axes_of(dim, x.rank), keepdim)


@lowers("mean", "mean.dim")
def mean(b: Builder, x: Value, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Value:
    return b.reduce("reduce_mean", b.cast(x, b.results[0].element), axes_of(dim, x.rank), keepdim)


@lowers("prod", "prod.dim_int")
def product(b: Builder, x: Value, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Value:
    return b.reduce("reduce_prod", b.cast(x, b.results[0].element), axes_of(dim, x.rank), keepdim)


def variance(b: Builder, x: Value, axes: Sequence[int], correction: float, keep: bool) -> tuple[Value, Value]:
    """Variance and mean, from the differences to the mean."""
    count = math.prod(x.shape[a] for a in axes) if x.rank else 1
    element, x = x.element, b.cast(x, wide(x.element))
    middle = b.reduce("reduce_mean", x, axes, True)
    apart = b.sub(x, middle)
    squares = b.reduce("reduce_sum", b.mul(apart, apart), axes, keep)
    result = b.div(squares, b.scalar(max(count - correction, 0), x.element))
    middle = middle if keep or not x.rank else b.reshape(middle, result.shape)
    return b.cast(result, element), b.cast(middle, element)


@lowers("var.correction")
def var(b: Builder, x: Value, dim: Any = None, *, correction: float | None = None, keepdim: bool = False) -> Value:
    return variance(b, x, axes_of(dim, x.rank), 1 if correction is None else correction, keepdim)[0]


@lowers("var.dim")
def var_dim(b: Builder, x: Value, dim: Any, unbiased: bool = True, keepdim: bool = False) -> Value:
    return variance(b, x, axes_of(dim, x.rank), int(unbiased), keepdim)[0]


@lowers("var_mean.correction")
def var_mean(b: Builder, x: Value, dim: Any = None, *, correction: float | None = None,
             keepdim: bool = False) -> tuple[Value, Value]:
    return variance(b, x, axes_of(dim, x.rank), 1 if correction is None else correction, keepdim)


@lowers("cumsum")
def cumsum(b: Builder, x: Value, dim: int, *, dtype: Any = None) -> Value:
    element = b.results[0].element
    if x.rank == 0:
        return b.cast(x, element)
    result = b.unary("cumsum", b.cast(x, wide(element)), f"axis({axis_of(dim, x.rank)})")
    return b.cast(result, element)


# ===----------------------------------------------------------------------=== #
# Extremes
# ===----------------------------------------------------------------------=== #


def _extreme(b: Builder, text: str, x: Value, axes: Sequence[int], keep: bool) -> Value:
    if x.element != "i1":
        return b.reduce(text, x, axes, keep)
    return b.cast(b.reduce(text, b.cast(x, "i32"), axes, keep), "i1")


@lowers("amax", "max")
def amax(b: Builder, x: Value, dim: Any = None, keepdim: bool = False) -> Value:
    return _extreme(b, "reduce_max", x, axes_of(dim, x.rank), keepdim)


@lowers("amin", "min")
def amin(b: Builder, x: Value, dim: Any = None, keepdim: bool = False) -> Value:
    return _extreme(b, "reduce_min", x, axes_of(dim, x.rank), keepdim)


@lowers("any", "any.dim", "any.dims")
def any_of(b: Builder, x: Value, dim: Any = None, keepdim: bool = False) -> Value:
    return _extreme(b, "reduce_max", b.to_bool(x), axes_of(dim, x.rank), keepdim)


@lowers("all", "all.dim", "all.dims")
def all_of(b: Builder, x: Value, dim: Any = None, keepdim: bool = False) -> Value:
    return _extreme(b, "reduce_min", b.to_bool(x), axes_of(dim, x.rank), keepdim)


def _position(b: Builder, text: str, x: Value, dim: int | None, keep: bool) -> Value:
    if x.rank == 0:
        return b.scalar(0, "i64")
    if dim is None:
        flat = b.reshape(x, (math.prod(x.shape),))
        return b.reshape(_position(b, text, flat, 0, False), (1,) * x.rank if keep else ())
    x, axis = b.cast(x, "i32") if x.element == "i1" else x, axis_of(dim, x.rank)
    shape = tuple(1 if i == axis else e for i, e in enumerate(x.shape) if keep or i != axis)
    return b.emit(text, [x], [Type(shape, "i64")], "arrow", f"axis({axis})" + (" keep_dims" if keep else ""))[0]


@lowers("argmax")
def argmax(b: Builder, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    return _position(b, "argmax", x, dim, keepdim)


@lowers("argmin")
def argmin(b: Builder, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    return _position(b, "argmin", x, dim, keepdim)


@lowers("max.dim")
def max_dim(b: Builder, x: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
    return amax(b, x, dim, keepdim), _position(b, "argmax", x, dim, keepdim)


@lowers("min.dim")
def min_dim(b: Builder, x: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
    return amin(b, x, dim, keepdim), _position(b, "argmin", x, dim, keepdim)


# ===----------------------------------------------------------------------=== #
# Orders
# ===----------------------------------------------------------------------=== #


def _top(b: Builder, x: Value, k: int, dim: int, largest: bool) -> tuple[Value, Value]:
    if x.rank == 0:
        return x, b.scalar(0, "i64")
    if x.element == "i1" or k == 0:
        raise Unsupported("sorting booleans")
    axis = axis_of(dim, x.rank)
    shape = tuple(k if i == axis else e for i, e in enumerate(x.shape))
    values, places = b.emit("top_k", [x], [Type(shape, x.element), Type(shape, "i64")], "arrow",
                            f"k({k}) axis({axis})" + ("" if largest else " largest(false)"))
    return values, places


@lowers("topk")
def topk(b: Builder, x: Value, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    return _top(b, x, k, dim, largest)


@lowers("sort", "sort.stable")
def sort(b: Builder, x: Value, dim: int = -1, descending: bool = False, *, stable: bool | None = None) -> Any:
    return _top(b, x, x.shape[axis_of(dim, x.rank)] if x.rank else 1, dim, descending)


@lowers("logsumexp")
def logsumexp(b: Builder, x: Value, dim: Any, keepdim: bool = False) -> Value:
    element, axes = b.results[0].element, axes_of(dim, x.rank)
    x = b.cast(x, "f32" if is_narrow(element) else element)
    most = b.reduce("reduce_max", x, axes, True)
    finite = b.select(b.emit("is_inf", [most], [Type(most.shape, "i1")], "arrow")[0], b.scalar(0, x.element), most)
    sums = b.unary("log", b.reduce("reduce_sum", b.unary("exp", b.sub(x, finite)), axes, True))
    result = b.add(sums, finite)
    shape = result.shape if keepdim else tuple(e for i, e in enumerate(result.shape) if i not in axes)
    return b.cast(b.reshape(result, shape), element)
