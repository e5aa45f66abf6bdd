# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reshapes, slices and concatenation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .builder import Builder, Unsupported, Value, axis_of, dense_order, lowers
from .indexing import scatter_tuples

# ===----------------------------------------------------------------------=== #
# Shapes
# ===----------------------------------------------------------------------=== #


@lowers("view", "reshape", "_unsafe_view", "squeeze", "squeeze.dim", "squeeze.dims", "unsqueeze", "flatten.using_ints",
        "_reshape_alias")
def reshape(b: Builder, x: Value, *_: Any) -> Value:
    return b.reshape(x, b.results[0].shape)


@lowers("permute")
def permute(b: Builder, x: Value, dims: Sequence[int]) -> Value:
    return b.transpose(x, [axis_of(d, x.rank) for d in dims])


@lowers("t")
def matrix_transpose(b: Builder, x: Value) -> Value:
    return b.transpose(x, [1, 0]) if x.rank == 2 else x


@lowers("transpose.int")
def transpose(b: Builder, x: Value, first: int, second: int) -> Value:
    order = list(range(x.rank))
    if order:
        i, j = axis_of(first, x.rank), axis_of(second, x.rank)
        order[i], order[j] = order[j], order[i]
    return b.transpose(x, order)


@lowers("expand")
def expand(b: Builder, x: Value, size: Sequence[int], *, implicit: bool = False) -> Value:
    return b.broadcast(x, b.results[0].shape)


@lowers("repeat")
def repeat(b: Builder, x: Value, repeats: Sequence[int]) -> Value:
    if 0 in repeats:
        raise Unsupported("an empty tensor")
    x = b.reshape(x, (1,) * (len(repeats) - x.rank) + x.shape)
    rows = [extent for pair in zip(repeats, x.shape) for extent in pair]
    x = b.reshape(x, [e for extent in x.shape for e in (1, extent)])
    return b.reshape(b.broadcast(x, rows), b.results[0].shape)


@lowers("flip")
def flip(b: Builder, x: Value, dims: Sequence[int]) -> Value:
    axes = sorted(axis_of(d, x.rank) for d in dims)
    return b.unary("reverse", x, f"axes({axes})") if axes and x.rank else x


@lowers("as_strided")
def as_strided(b: Builder, x: Value, size: Sequence[int], stride: Sequence[int], offset: int | None = None) -> Value:
    memory = b.memory()
    return b.strided(memory.value, size, stride, memory.first(size, stride, offset))


@lowers("as_strided_scatter")
def as_strided_scatter(b: Builder, x: Value, source: Value, size: Sequence[int], stride: Sequence[int],
                       offset: int | None = None) -> Value:
    # The result's storage is a copy of the operand's, which must be the whole operand, possibly permuted.
    memory = b.memory()
    if memory.value.shape != (math.prod(x.shape),) or dense_order(x.shape, memory.strides) is None:
        raise Unsupported("a view of a part of a storage")
    places = b.places(size, stride, memory.first(size, stride, offset))
    source = b.reshape(b.cast(source, x.element), (math.prod(size),))
    changed = scatter_tuples(b, memory.value, b.reshape(places, (math.prod(size), 1)), source, False)
    return b.strided(changed, x.shape, memory.strides, memory.offset - memory.start)


@lowers("diagonal")
def diagonal(b: Builder, x: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    first, second = axis_of(dim1, x.rank), axis_of(dim2, x.rank)
    rest = [i for i in range(x.rank) if i not in (first, second)]
    x = b.transpose(x, rest + [first, second])
    rows, columns = x.shape[-2:]
    outer = x.shape[:-2]
    size = b.results[0].shape[-1]
    strides = [math.prod(x.shape[i + 1:]) for i in range(len(outer))] + [columns + 1]
    return b.strided(x, outer + (size,), strides, offset if offset >= 0 else -offset * columns)


@lowers("unfold")
def unfold(b: Builder, x: Value, dim: int, size: int, step: int) -> Value:
    strides = [math.prod(x.shape[i + 1:]) for i in range(x.rank)]
    if x.rank == 0:
        return b.reshape(x, b.results[0].shape)
    axis = axis_of(dim, x.rank)
    walk = strides[:axis] + [strides[axis] * step] + strides[axis + 1:] + [strides[axis]]
    return b.strided(x, b.results[0].shape, walk)


# ===----------------------------------------------------------------------=== #
# Parts and joins
# ===----------------------------------------------------------------------=== #


def _bounds(extent: int, start: int | None, end: int | None) -> tuple[int, int]:
    start = 0 if start is None else start + extent if start < 0 else start
    end = extent if end is None else end + extent if end < 0 else end
    start = min(max(start, 0), extent)
    return start, min(max(end, start), extent)


@lowers("slice.Tensor")
def slice_of(b: Builder, x: Value, dim: int = 0, start: int | None = None, end: int | None = None,
             step: int = 1) -> Value:
    axis = axis_of(dim, x.rank)
    begin, stop = _bounds(x.shape[axis], start, end)
    return b.slice_axis(x, axis, begin, -(-(stop - begin) // step), step)


@lowers("select.int")
def select(b: Builder, x: Value, dim: int, index: int) -> Value:
    axis = axis_of(dim, x.rank)
    return b.reshape(b.slice_axis(x, axis, index % x.shape[axis], 1), b.results[0].shape)


@lowers("split_with_sizes", "unsafe_split_with_sizes")
def split_with_sizes(b: Builder, x: Value, sizes: Sequence[int], dim: int = 0) -> tuple[Value | None, ...]:
    axis, begin, parts = axis_of(dim, x.rank), 0, []
    for used, size in zip(b.used, sizes):
        parts.append(b.slice_axis(x, axis, begin, size) if used else None)
        begin += size
    return tuple(parts)


@lowers("cat")
def cat(b: Builder, tensors: Sequence[Value], dim: int = 0) -> Value:
    kind = b.results[0]
    # An empty tensor may be concatenated regardless of its rank.
    joined = [b.cast(x, kind.element) for x in tensors if 0 not in x.shape]
    if not joined:
        raise Unsupported("an empty tensor")
    return b.concat(joined, axis_of(dim, len(kind.shape)))


@lowers("stack")
def stack(b: Builder, tensors: Sequence[Value], dim: int = 0) -> Value:
    kind = b.results[0]
    axis = axis_of(dim, len(kind.shape))
    rows = [b.reshape(b.cast(x, kind.element), x.shape[:axis] + (1,) + x.shape[axis:]) for x in tensors]
    return b.concat(rows, axis)


@lowers("slice_scatter")
def slice_scatter(b: Builder, x: Value, source: Value, dim: int = 0, start: int | None = None, end: int | None = None,
                  step: int = 1) -> Value:
    axis = axis_of(dim, x.rank)
    begin, stop = _bounds(x.shape[axis], start, end)
    if stop == begin:
        return x
    source = b.cast(source, x.element)
    if step != 1:
        count = -(-(stop - begin) // step)
        line = b.iota((x.shape[axis],), 0)
        shifted = b.sub(line, b.scalar(begin, "i64"))
        spot = b.div(shifted, b.scalar(step, "i64"))
        inside = b.binary("and", b.compare("ge", shifted, b.scalar(0, "i64")),
                          b.compare("lt", line, b.scalar(stop, "i64")))
        taken = b.binary("and", inside, b.compare("eq", b.mul(spot, b.scalar(step, "i64")), shifted))
        spread = b.gather(source, b.binary("min", b.binary("max", spot, b.scalar(0, "i64")),
                                           b.scalar(count - 1, "i64")), axis)
        shape = [x.shape[axis] if i == axis else 1 for i in range(x.rank)]
        return b.select(b.reshape(taken, shape), spread, x)
    parts = [source]
    if begin:
        parts.insert(0, b.slice_axis(x, axis, 0, begin))
    if stop < x.shape[axis]:
        parts.append(b.slice_axis(x, axis, stop, x.shape[axis] - stop))
    return b.concat(parts, axis)


@lowers("select_scatter")
def select_scatter(b: Builder, x: Value, source: Value, dim: int, index: int) -> Value:
    axis = axis_of(dim, x.rank)
    index %= x.shape[axis]
    source = b.reshape(source, x.shape[:axis] + (1,) + x.shape[axis + 1:])
    return slice_scatter(b, x, source, axis, index, index + 1)


# ===----------------------------------------------------------------------=== #
# Borders
# ===----------------------------------------------------------------------=== #


def borders(x: Value, pad: Sequence[int]) -> tuple[list[int], list[int]]:
    """Converts PyTorch's padding list, last dimension first, to low and high per dimension."""
    low, high = [0] * x.rank, [0] * x.rank
    for i in range(len(pad) // 2):
        low[x.rank - 1 - i], high[x.rank - 1 - i] = pad[2 * i], pad[2 * i + 1]
    return low, high


@lowers("constant_pad_nd")
def constant_pad(b: Builder, x: Value, pad: Sequence[int], value: float = 0) -> Value:
    return b.pad(x, *borders(x, pad), value=value)


@lowers("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def reflection_pad(b: Builder, x: Value, pad: Sequence[int]) -> Value:
    return b.pad(x, *borders(x, pad), mode="reflect")


@lowers("replication_pad1d", "replication_pad2d", "replication_pad3d")
def replication_pad(b: Builder, x: Value, pad: Sequence[int]) -> Value:
    return b.pad(x, *borders(x, pad), mode="edge")
