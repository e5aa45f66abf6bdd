# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gather and scatter."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .builder import Builder, Operand, Type, Unsupported, Value, axis_of, broadcast_shapes, lowers

# ===----------------------------------------------------------------------=== #
# Gathers
# ===----------------------------------------------------------------------=== #


@lowers("embedding")
def embedding(b: Builder, weight: Value, indices: Value, *_: object) -> Value:
    return b.gather(weight, indices, 0, checked=True)


@lowers("index_select")
def index_select(b: Builder, x: Value, dim: int, index: Value) -> Value:
    if x.rank == 0:
        return x
    return b.gather(x, b.reshape(index, (math.prod(index.shape),)), axis_of(dim, x.rank), checked=True)


@lowers("gather")
def gather(b: Builder, x: Value, dim: int, index: Value, *, sparse_grad: bool = False) -> Value:
    if x.rank == 0:
        return x
    if index.rank != x.rank:
        raise Unsupported("an index of another rank")
    return b.emit("gather_elements", [x, index], [Type(index.shape, x.element)],
                  after=f"axis({axis_of(dim, x.rank)})", checked=True)[0]


def _tuples(b: Builder, indices: Sequence[Value]) -> Value:
    """Concatenates index tensors to one of tuples, in its last dimension."""
    shape = broadcast_shapes(*[index.shape for index in indices])
    columns = [b.reshape(b.broadcast(b.cast(index, "i64"), shape), shape + (1,)) for index in indices]
    return b.concat(columns, len(shape))


def _places(indices: Sequence[Value | None]) -> list[int]:
    places = [axis for axis, index in enumerate(indices) if index is not None]
    if any(indices[axis].element not in ("i32", "i64") for axis in places):
        raise Unsupported("a mask as index, whose size depends on data")
    return places


def _front(x: Value, places: Sequence[int]) -> list[int]:
    """Permutation that moves indexed dimensions to the front."""
    return list(places) + [axis for axis in range(x.rank) if axis not in places]


@lowers("index.Tensor", "_unsafe_index.Tensor")
def index(b: Builder, x: Value, indices: Sequence[Value | None]) -> Value:
    places = _places(indices)
    if len(places) == 1:
        return b.gather(x, indices[places[0]], places[0], checked=True)
    tuples = _tuples(b, [indices[axis] for axis in places])
    moved, outer = b.transpose(x, _front(x, places)), tuples.shape[:-1]
    rest = moved.shape[len(places):]
    result = b.emit("gather_nd", [moved, tuples], [Type(outer + rest, x.element)], checked=True)[0]
    if places != list(range(places[0], places[-1] + 1)):
        return result
    # Adjacent indexed dimensions are replaced in place.
    order = list(range(len(outer), len(outer) + places[0])) + list(range(len(outer)))
    return b.transpose(result, order + list(range(len(order), result.rank)))


# ===----------------------------------------------------------------------=== #
# Scatters
# ===----------------------------------------------------------------------=== #


@lowers("index_put", "_unsafe_index_put")
def index_put(b: Builder, x: Value, indices: Sequence[Value | None], values: Value, accumulate: bool = False) -> Value:
    values = b.cast(values, x.element)
    if len(indices) == 1 and indices[0] is not None and indices[0].element == "i1":
        if math.prod(values.shape) != 1:
            raise Unsupported("a mask as index, whose size depends on data")
        mask = b.reshape(indices[0], indices[0].shape + (1,) * (x.rank - indices[0].rank))
        value = b.reshape(values, ())
        return b.select(mask, b.add(x, value) if accumulate else value, x)
    places = _places(indices)
    tuples = _tuples(b, [indices[axis] for axis in places])
    order, outer = _front(x, places), tuples.shape[:-1]
    moved = b.transpose(x, order)
    rest = moved.shape[len(places):]
    if places == list(range(places[0], places[-1] + 1)) and places[0]:
        # In `values` the index dimensions are at the first indexed one.
        before = places[0]
        values = b.broadcast(values, rest[:before] + outer + rest[before:])
        turn = list(range(before, before + len(outer))) + list(range(before))
        values = b.transpose(values, turn + list(range(len(turn), values.rank)))
    values = b.broadcast(values, outer + rest)
    done = scatter_tuples(b, moved, tuples, values, accumulate)
    return b.transpose(done, [order.index(axis) for axis in range(x.rank)])


def scatter_tuples(b: Builder, x: Value, tuples: Value, values: Value, accumulate: bool) -> Value:
    return b.emit("scatter_nd", [x, tuples, values], [x.type], after="reduction(add)" if accumulate else "")[0]


def _scatter(b: Builder, x: Value, dim: int, index: Value, source: Value, reduction: str = "") -> Value:
    source = b.cast(source, x.element)
    if x.rank == 0:
        x, index, source = b.reshape(x, (1,)), b.reshape(index, (1,)), b.reshape(source, (1,))
        return b.reshape(_scatter(b, x, 0, index, source, reduction), ())
    if index.rank != x.rank:
        raise Unsupported("an index of another rank")
    source = b.slice(source, [0] * x.rank, index.shape)
    after = f"axis({axis_of(dim, x.rank)})" + (f" reduction({reduction})" if reduction else "")
    return b.emit("scatter_elements", [x, index, source], [x.type], after=after)[0]


@lowers("scatter.src")
def scatter(b: Builder, x: Value, dim: int, index: Value, source: Value) -> Value:
    return _scatter(b, x, dim, index, source)


@lowers("scatter.value")
def scatter_value(b: Builder, x: Value, dim: int, index: Value, value: float) -> Value:
    return _scatter(b, x, dim, index, b.full(value, index.shape, x.element))


@lowers("scatter_add")
def scatter_add(b: Builder, x: Value, dim: int, index: Value, source: Value) -> Value:
    return _scatter(b, x, dim, index, source, "add")


@lowers("scatter_reduce.two")
def scatter_reduce(b: Builder, x: Value, dim: int, index: Value, source: Value, reduce: str, *,
                   include_self: bool = True) -> Value:
    form = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}.get(reduce)
    if form is None or not include_self:
        raise Unsupported("this reduction of a scatter")
    return _scatter(b, x, dim, index, source, form)


@lowers("embedding_dense_backward")
def embedding_backward(b: Builder, gradient: Value, indices: Value, count: int, padding: int,
                       by_frequency: bool) -> Value:
    if by_frequency:
        raise Unsupported("gradients scaled by frequency")
    element = gradient.element
    if padding >= 0:
        kept = b.compare("ne", indices, b.scalar(padding, indices.element))
        gradient = b.select(b.reshape(kept, indices.shape + (1,)), gradient, b.scalar(0, element))
    # Frequent rows sum many terms: accumulate in f32.
    sums = b.cast(gradient, "f32" if element in ("f16", "bf16") else element)
    zeros = b.full(0, (count, gradient.shape[-1]), sums.element)
    tuples = b.reshape(indices, indices.shape + (1,))
    return b.cast(scatter_tuples(b, zeros, tuples, sums, True), element)


@lowers("masked_scatter")
def masked_scatter(b: Builder, x: Value, mask: Value, source: Value) -> Value:
    shape = broadcast_shapes(x.shape, mask.shape)
    x, mask = b.broadcast(x, shape), b.broadcast(mask, shape)
    flat = b.cast(b.reshape(mask, (math.prod(shape),)), "i64")
    # The n-th true element takes the n-th source element.
    spot = b.sub(b.unary("cumsum", flat, "axis(0)"), b.scalar(1, "i64"))
    spot = b.binary("max", spot, b.scalar(0, "i64"))
    taken = b.gather(b.reshape(source, (math.prod(source.shape),)), spot, 0)
    return b.select(mask, b.reshape(taken, shape), x)


@lowers("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(b: Builder, x: Value, mask: Value, value: Operand) -> Value:
    return b.select(mask, b.operand(value, x.element), x)
