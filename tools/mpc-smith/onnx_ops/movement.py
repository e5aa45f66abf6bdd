# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Data movement ops, and shapes computed in the graph."""

import numpy as np
from onnx import helper

from graph import BOOL, FLOAT, INT32, INT64, Skip


def any_type(g):
    return g.random.choice([FLOAT] * 5 + [INT64, INT32, BOOL])


def moved(g, kind, operands, shape, source, **attributes):
    return g.emit(kind, operands, shape, source.low, source.high, source.type, source.exact, **attributes)


def transpose(g):
    x = g.pick(any_type(g))
    order = list(range(x.rank))
    g.random.shuffle(order)
    if g.chance(0.1):
        moved(g, "Transpose", [x], x.shape[::-1], x)
        return
    if not order:
        raise Skip
    moved(g, "Transpose", [x], [x.shape[i] for i in order], x, perm=order)


def factors(g, size):
    """A shape of `size` elements."""
    shape = []
    while size > 1 and len(shape) < 4:
        divisors = [d for d in range(2, min(size, 64) + 1) if size % d == 0] or [size]
        shape.append(g.random.choice(divisors))
        size //= shape[-1]
    if size > 1:
        shape.append(size)
    for _ in range(g.random.choice([0, 0, 1])):
        shape.insert(g.random.randint(0, len(shape)), 1)
    g.random.shuffle(shape)
    return shape


def extent_of(g, x, axis):
    """x.shape[axis] as a one-element tensor, computed in the graph."""
    shape = g.emit("Shape", [x], (x.rank,), 0, 20000, INT64, True)
    if g.chance(0.3) and g.opset >= 10:
        return g.emit("Slice", [shape, g.integers(axis), g.integers(axis + 1), g.integers(0)], (1,), 0, 20000, INT64,
                      True)
    if g.chance(0.5):
        return g.emit("Gather", [shape, g.integers(axis)], (1,), 0, 20000, INT64, True, axis=0)
    scalar = g.emit("Gather", [shape, g.constant(np.int64(axis))], (), 0, 20000, INT64, True, axis=0)
    if g.opset < 13:
        return g.emit("Unsqueeze", [scalar], (1,), 0, 20000, INT64, True, axes=[0])
    return g.emit("Unsqueeze", [scalar, g.integers(0)], (1,), 0, 20000, INT64, True)


def computed_shape(g, x, shape):
    """`shape` as a tensor: constant, or assembled from extents of `x`."""
    if not shape or not g.chance(0.5):
        return g.integers(*shape)
    parts, i = [], 0
    for extent in shape:
        axes = [axis for axis in range(x.rank) if x.shape[axis] == extent]
        whole = [axis for axis in range(x.rank) if extent > 1 and x.shape[axis] % extent == 0 and
                 x.shape[axis] != extent]
        if axes and g.chance(0.8):
            parts.append(extent_of(g, x, g.random.choice(axes)))
        elif whole and g.chance(0.5):
            axis = g.random.choice(whole)
            parts.append(g.emit("Div", [extent_of(g, x, axis), g.integers(x.shape[axis] // extent)], (1,), 0, 20000,
                                INT64, True))
        else:
            parts.append(g.integers(extent))
        i += 1
    return g.emit("Concat", parts, (len(shape),), 0, 20000, INT64, True, axis=0)


def reshape(g):
    x = g.pick(any_type(g))
    shape = factors(g, x.size)
    target = list(shape)
    if target and g.chance(0.3):
        target[g.random.randrange(len(target))] = -1
        moved(g, "Reshape", [x, g.integers(*target)], shape, x)
        return
    if len(shape) and x.rank and g.chance(0.2) and shape[0] == x.shape[0]:
        moved(g, "Reshape", [x, g.integers(0, *shape[1:])], shape, x)
        return
    moved(g, "Reshape", [x, computed_shape(g, x, shape)], shape, x)


def flatten(g):
    x = g.pick(least_rank=1)
    axis = g.random.randint(0, x.rank)
    shape = (int(np.prod(x.shape[:axis])), int(np.prod(x.shape[axis:])))
    moved(g, "Flatten", [x], shape, x, axis=axis)


def squeeze(g):
    x = g.pick(any_type(g), where=lambda v: 1 in v.shape)
    axes = [i for i, e in enumerate(x.shape) if e == 1]
    chosen = sorted(g.random.sample(axes, g.random.randint(1, len(axes))))
    shape = [e for i, e in enumerate(x.shape) if i not in chosen]
    if g.chance(0.15):
        moved(g, "Squeeze", [x], [e for e in x.shape if e != 1], x)
    elif g.opset < 13:
        moved(g, "Squeeze", [x], shape, x, axes=chosen)
    else:
        moved(g, "Squeeze", [x, g.integers(*chosen)], shape, x)


def unsqueeze(g):
    x = g.pick(any_type(g), where=lambda v: v.rank < 5)
    axis = g.random.randint(0, x.rank)
    shape = list(x.shape)
    shape.insert(axis, 1)
    if g.opset < 13:
        moved(g, "Unsqueeze", [x], shape, x, axes=[axis])
    else:
        moved(g, "Unsqueeze", [x, g.integers(axis - x.rank - 1 if g.chance(0.3) else axis)], shape, x)


def concat(g):
    x = g.pick(any_type(g), least_rank=1, where=lambda v: v.size < 4000)
    axis, written = g.axis(x.rank)
    parts = [x]
    for _ in range(g.random.randint(1, 3)):
        shape = list(x.shape)
        shape[axis] = g.random.choice([1, 2, 3, 8, x.shape[axis]])
        same = [v for v in g.values if v.type == x.type and v.rank == x.rank and v.size > 0 and
                all(i == axis or a == b for i, (a, b) in enumerate(zip(v.shape, x.shape)))]
        parts.append(g.random.choice(same) if same and g.chance(0.6) else
                     g.parameter(tuple(shape), *((0, 1) if x.type == BOOL else (-2, 2)), dtype=x.type))
    g.random.shuffle(parts)
    shape = list(x.shape)
    shape[axis] = sum(part.shape[axis] for part in parts)
    g.emit("Concat", parts, shape, min(p.low for p in parts), max(p.high for p in parts), x.type,
           all(p.exact for p in parts), axis=written)


def split(g):
    x = g.pick(any_type(g), least_rank=1, where=lambda v: max(v.shape) >= 2)
    axis = g.random.choice([i for i, e in enumerate(x.shape) if e >= 2])
    extent = x.shape[axis]
    first = g.random.randint(1, extent - 1)
    sizes = [first, extent - first]
    attributes, operands = {"axis": axis}, [x]
    equal = extent % 2 == 0 and g.chance(0.3)
    if equal:
        sizes = [extent // 2] * 2
        if g.opset >= 18:
            attributes["num_outputs"] = 2
    elif g.opset >= 18 and g.chance(0.3):
        sizes = [(extent + 1) // 2, extent // 2]
        attributes["num_outputs"] = 2
    elif g.opset < 13:
        attributes["split"] = sizes
    else:
        operands.append(g.integers(*sizes))
    results = []
    for size in sizes:
        shape = list(x.shape)
        shape[axis] = size
        results.append((shape, x.low, x.high, x.type, x.exact))
    g.emit_many("Split", operands, results, **attributes)


def slice_(g):
    x = g.pick(any_type(g), least_rank=1)
    axes = sorted(g.random.sample(range(x.rank), g.random.randint(1, x.rank)))
    starts, ends, steps, shape = [], [], [], list(x.shape)
    for axis in axes:
        extent = x.shape[axis]
        start = g.random.randrange(extent)
        end = g.random.randint(start + 1, extent)
        step = g.random.choice([1, 1, 1, 2, 3]) if g.opset >= 10 else 1
        if g.opset >= 10 and g.chance(0.2):  # backwards, from the last element
            start, end, step = extent - 1, -extent - 1, -step
            shape[axis] = len(range(extent - 1, -1, step))
        else:
            shape[axis] = len(range(start, end, step))
            if end == extent and g.chance(0.4):
                end = g.random.choice([1 << 31, (1 << 63) - 1, extent + 3]) if g.opset >= 10 else extent + 3
            if start and g.chance(0.3):
                start -= extent
        starts.append(start)
        ends.append(end)
        steps.append(step)
    if g.opset < 10:
        moved(g, "Slice", [x], shape, x, starts=starts, ends=ends, axes=axes)
        return
    written = [axis - x.rank if g.chance(0.3) else axis for axis in axes]
    operands = [x, g.integers(*starts), g.integers(*ends), g.integers(*written)]
    if any(step != 1 for step in steps) or g.chance(0.3):
        operands.append(g.integers(*steps))
    moved(g, "Slice", operands, shape, x)


def gather(g):
    x = g.pick(any_type(g), least_rank=1, where=lambda v: v.size < 3000)
    axis, written = g.axis(x.rank, 7)
    extent = x.shape[axis]
    low = -extent if g.opset >= 11 and g.chance(0.3) else 0
    dtype = g.random.choice([INT64, INT32])
    kind = g.random.choice(["Gather", "Gather", "GatherElements"])
    if kind == "GatherElements":
        if g.opset < 11:
            raise Skip
        shape = [g.random.randint(1, e) for e in x.shape]
        shape[axis] = g.random.choice([1, 2, 5])
        index = g.parameter(tuple(shape), low, extent - 1, dtype)
        moved(g, kind, [x, index], shape, x, axis=written)
        return
    index = g.parameter(g.extents(g.random.choice([0, 1, 1, 2]), 40), low, extent - 1, dtype)
    moved(g, kind, [x, index], x.shape[:axis] + index.shape + x.shape[axis + 1:], x, axis=written)


def gather_nd(g):
    x = g.pick(least_rank=1, where=lambda v: v.size < 3000)
    if g.opset < 11:
        raise Skip
    batch = g.random.randint(0, x.rank - 1) if g.opset >= 12 and g.chance(0.4) else 0
    depth = g.random.randint(1, x.rank - batch)
    lead = x.shape[:batch] + g.extents(g.random.choice([1, 2]), 20)
    columns = [g.numbers.integers(0, x.shape[batch + i], lead) for i in range(depth)]
    index = g.constant(np.stack(columns, -1).astype(np.int64))
    moved(g, "GatherND", [x, index], lead + x.shape[batch + depth:], x, **({"batch_dims": batch} if batch else {}))


def scatter(g):
    x = g.pick(least_rank=1, where=lambda v: v.size < 3000)
    if g.opset < 11:
        raise Skip
    reductions = ["none"] + (["add", "mul"] if g.opset >= 16 else []) + (["max", "min"] if g.opset >= 18 else [])
    reduction = g.random.choice(reductions)
    attributes = {} if reduction == "none" else {"reduction": reduction}
    if g.chance(0.5):
        axis = g.random.randrange(x.rank)
        shape = [g.random.randint(1, e) for e in x.shape]
        if reduction == "none":  # no duplicate indices
            index = np.stack([g.numbers.permutation(x.shape[axis])[:shape[axis]]
                              for _ in range(int(np.prod(shape)) // shape[axis])], -1)
            rest = shape[:axis] + shape[axis + 1:]
            index = np.moveaxis(index.reshape([shape[axis]] + rest), 0, axis)
        else:
            index = g.numbers.integers(0, x.shape[axis], shape)
        updates = g.parameter(tuple(shape), 0, 1)
        kind, attributes["axis"] = "ScatterElements", axis
        repeats = shape[axis]
    else:
        depth = g.random.randint(1, x.rank)
        places = int(np.prod(x.shape[:depth]))
        count = g.random.randint(1, min(places, 6))
        flat = g.numbers.permutation(places)[:count] if reduction == "none" else g.numbers.integers(0, places, count)
        index = np.stack(np.unravel_index(flat, x.shape[:depth]), -1)
        updates = g.parameter((count,) + x.shape[depth:], 0, 1)
        kind, repeats = "ScatterND", count
    low = min(x.low, 0) - 0.0
    high = max(x.high, 1) + (repeats if reduction == "add" else 0)
    g.emit(kind, [x, g.constant(index.astype(np.int64)), updates], x.shape, low, high,
           exact=x.exact and updates.exact and reduction in ("none", "max", "min"), **attributes)


def expand(g):
    if g.opset < 8:
        raise Skip
    x = g.pick(any_type(g), where=lambda v: v.size < 500)
    shape = [g.random.choice([2, 3, 5]) if e == 1 else e for e in x.shape]
    if g.chance(0.3) and x.rank < 5:
        shape.insert(0, g.random.choice([1, 2, 3]))
    target = [1 if e == t and g.chance(0.2) else t for e, t in zip((1,) * (len(shape) - x.rank) + x.shape, shape)]
    shape = np.broadcast_shapes(x.shape, tuple(target))
    moved(g, "Expand", [x, computed_shape(g, x, target)], shape, x)


def tile(g):
    x = g.pick(any_type(g), least_rank=1, where=lambda v: v.size < 500)
    repeats = [g.random.choice([1, 1, 2, 3]) for _ in x.shape]
    moved(g, "Tile", [x, g.integers(*repeats)], [e * r for e, r in zip(x.shape, repeats)], x)


def pad(g):
    x = g.pick(least_rank=1, where=lambda v: v.size < 3000)
    mode = g.random.choice(["constant", "constant", "reflect", "edge"] + (["wrap"] if g.opset >= 19 else []))
    pads = [[g.random.choice([0, 0, 1, 2]) for _ in x.shape] for _ in range(2)]
    if mode in ("reflect", "wrap"):
        pads = [[min(p, e - 1) for p, e in zip(side, x.shape)] for side in pads]
    if mode == "constant" and g.chance(0.2):  # crops
        pads[0] = [-1 if e >= 4 else p for p, e in zip(pads[0], x.shape)]
    shape = [e + a + b for e, a, b in zip(x.shape, *pads)]
    value = g.random.choice([0.0, 1.5])
    low, high = min(x.low, value), max(x.high, value)
    if g.opset < 11:
        g.emit("Pad", [x], shape, low, high, exact=x.exact, mode=mode, pads=pads[0] + pads[1],
               **({"value": value} if mode == "constant" else {}))
        return
    operands = [x, g.integers(*pads[0], *pads[1])]
    if mode == "constant" and (value or g.chance(0.5)):
        operands.append(g.constant(np.float32(value)))
    g.emit("Pad", operands, shape, low, high, exact=x.exact, mode=mode)


def blocks(g):
    kind = g.random.choice(["DepthToSpace", "SpaceToDepth"])
    b = g.random.choice([2, 2, 3])
    n, c, h, w = g.random.choice([1, 2]), g.random.choice([1, 2, 3]), g.random.choice([1, 2, 3]), \
        g.random.choice([1, 2, 4])
    if kind == "DepthToSpace":
        x = shaped(g, (n, c * b * b, h, w))
        attributes = {"mode": g.random.choice(["DCR", "CRD"])} if g.opset >= 11 else {}
        moved(g, kind, [x], (n, c, h * b, w * b), x, blocksize=b, **attributes)
    else:
        x = shaped(g, (n, c, h * b, w * b))
        moved(g, kind, [x], (n, c * b * b, h, w), x, blocksize=b)


def shaped(g, shape):
    """A value of `shape`: one of the graph, reshaped, or a new input."""
    size = int(np.prod(shape))
    found = [v for v in g.values if v.type == FLOAT and v.size >= size and v.size <= 8 * size and v.rank]
    if found and g.chance(0.8):
        x = g.random.choice(found)
        if x.shape == tuple(shape):
            return x
        if x.size != size:
            flat = moved(g, "Reshape", [x, g.integers(-1)], (x.size,), x)
            if g.opset < 10:
                x = moved(g, "Slice", [flat], (size,), x, starts=[0], ends=[size], axes=[0])
            else:
                x = moved(g, "Slice", [flat, g.integers(0), g.integers(size)], (size,), x)
        return moved(g, "Reshape", [x, g.integers(*shape)], shape, x)
    return g.input(FLOAT, tuple(shape))


def filled(g):
    if g.opset < 9:
        raise Skip
    x = g.pick(where=lambda v: v.size < 2000)
    if g.chance(0.3) and x.rank == 2:
        g.emit("EyeLike", [x], x.shape, 0, 1, exact=True, k=g.random.choice([-1, 0, 1]))
        return
    made = g.emit("ConstantOfShape", [computed_shape(g, x, list(x.shape))], x.shape, 0.5, 0.5, exact=True,
                  value=helper.make_tensor("value", 1, [1], [0.5]))
    g.emit("Add", [x, made], x.shape, x.low + 0.5, x.high + 0.5)


def range_(g):
    if g.opset < 11:
        raise Skip
    start, count, step = g.random.randint(-3, 3), g.random.randint(1, 20), g.random.choice([1, 2, -1])
    numbers = [start, start + count * step, step]
    dtype = g.random.choice([INT64, INT32, FLOAT])
    g.emit("Range", [g.constant(np.array(n, dtype)) for n in numbers], (count,), -50, 50, dtype, dtype != FLOAT)


def trilu(g):
    if g.opset < 14:
        raise Skip
    x = g.pick(least_rank=2)
    operands = [x] + ([g.constant(np.int64(g.random.randint(-3, 3)))] if g.chance(0.6) else [])
    g.emit("Trilu", operands, x.shape, min(x.low, 0), max(x.high, 0), exact=x.exact, upper=g.random.choice([0, 1]))


def one_hot(g):
    if g.opset < 9:
        raise Skip
    depth = g.random.randint(2, 9)
    index = g.parameter(g.extents(g.random.choice([1, 2]), 100), -depth if g.opset >= 11 else 0, depth - 1, INT64)
    axis = g.random.randint(0, index.rank)
    shape = list(index.shape)
    shape.insert(axis, depth)
    g.emit("OneHot", [index, g.constant(np.int64(depth)), g.constant(np.array([0.0, 1.5], np.float32))], shape, 0, 1.5,
           exact=True, axis=-1 if axis == index.rank and g.chance(0.5) else axis)


def reverse(g):
    if g.opset < 10:
        raise Skip
    x = g.pick(least_rank=2)
    time = g.random.choice([0, 1])
    lengths = g.numbers.integers(1, x.shape[time] + 1, x.shape[1 - time])
    moved(g, "ReverseSequence", [x, g.constant(lengths.astype(np.int64))], x.shape, x, time_axis=time,
          batch_axis=1 - time)


OPS = [transpose, reshape, transpose, reshape, flatten, squeeze, unsqueeze, concat, concat, split, slice_, slice_,
       gather, gather_nd, scatter, expand, tile, pad, blocks, filled, range_, trilu, one_hot, reverse]
