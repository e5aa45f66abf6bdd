# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensor creation."""

from __future__ import annotations

import math
from typing import Any

from .builder import Builder, Value, is_float, lowers


@lowers("full")
def full(b: Builder, size: Any, value: float, **_: Any) -> Value:
    return b.full(value, b.results[0].shape, b.results[0].element)


@lowers("full_like", "new_full")
def full_like(b: Builder, x: Value, *arguments: Any, **_: Any) -> Value:
    return b.full(arguments[-1], b.results[0].shape, b.results[0].element)


@lowers("fill.Scalar")
def fill(b: Builder, x: Value, value: float) -> Value:
    return b.full(value, x.shape, x.element)


@lowers("fill.Tensor")
def fill_tensor(b: Builder, x: Value, value: Value) -> Value:
    return b.broadcast(b.cast(value, x.element), x.shape)


@lowers("scalar_tensor", "prims::scalar_tensor")
def scalar_tensor(b: Builder, value: float, **_: Any) -> Value:
    return b.scalar(value, b.results[0].element)


@lowers("empty.memory_format", "empty_strided", "empty_permuted", "empty_like", "new_empty", "new_empty_strided",
        "zeros", "zeros_like", "new_zeros")
def zeros(b: Builder, *_: Any, **__: Any) -> Value:
    return b.full(0, b.results[0].shape, b.results[0].element)


@lowers("ones", "ones_like", "new_ones")
def ones(b: Builder, *_: Any, **__: Any) -> Value:
    return b.full(1, b.results[0].shape, b.results[0].element)


@lowers("arange.start_step")
def arange(b: Builder, start: float, end: float, step: float = 1, **_: Any) -> Value:
    kind = b.results[0]
    # As in PyTorch: computed in the widest type, rounded once.
    line = b.iota(kind.shape, 0)
    if is_float(kind.element):
        line = b.cast(line, "f64")
    line = line if step == 1 else b.mul(line, b.scalar(step, line.element))
    line = line if start == 0 else b.add(line, b.scalar(start, line.element))
    return b.cast(line, kind.element)


@lowers("prims::iota")
def iota(b: Builder, length: int, *, start: int, step: int, **_: Any) -> Value:
    return arange(b, start, math.inf, step)
