# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Data movement: shapes, slices, gathers, scatters, sorts and running sums."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from pool import Skip


def any_value(p, least_rank=0):
    return p.pick(p.random.choice("ffffib"), least_rank=least_rank)


def same(p, array, x, *others):
    """A result with elements of `x`, zeros and elements of `others`."""
    p.add(array, min(x.low, 0), max(x.high, 0), x.exact, x, *others)


def transpose(p):
    x = any_value(p, 2)
    order = list(range(x.rank))
    p.random.shuffle(order)
    same(p, jnp.transpose(x.array, order), x)


def reshape(p):
    x = any_value(p)
    shape = list(x.shape)
    for _ in range(p.random.randint(1, 3)):
        kind = p.random.choice(["merge", "split", "unit", "squeeze"])
        if kind == "merge" and len(shape) > 1:
            i = p.random.randrange(len(shape) - 1)
            shape[i:i + 2] = [shape[i] * shape[i + 1]]
        elif kind == "split" and shape and len(shape) < 5:
            i = p.random.randrange(len(shape))
            shape[i:i + 1] = p.split(shape[i])
        elif kind == "unit" and len(shape) < 5:
            shape.insert(p.random.randint(0, len(shape)), 1)
        elif kind == "squeeze" and 1 in shape:
            shape.remove(1)
    same(p, jnp.reshape(x.array, shape), x)


def slices(p):
    x = any_value(p, 1)
    index = []
    for extent in x.shape:
        first, last = sorted((p.random.randint(0, extent - 1), p.random.randint(0, extent - 1)))
        kind = p.random.choice(["all", "part", "step", "back"])
        index.append({"all": slice(None), "part": slice(first, last + 1), "step": slice(first, None, 2),
                      "back": slice(None, None, -1)}[kind])
    same(p, x.array[tuple(index)], x)


def start(p, extent):
    """A start index, constant or computed. None is out of range: where one slice follows another, XLA drops
    the clamp of the inner start."""
    if p.chance(0.4):
        return np.int32(p.random.randint(0, extent))
    x = p.pick("i")
    x.used = True
    return x.array.ravel()[0] % (extent + 1)


def dynamic(p):
    x = any_value(p, 1)
    sizes = [p.random.randint(1, e) for e in x.shape]
    starts = [start(p, e - s) for e, s in zip(x.shape, sizes)]
    if p.chance(0.5):
        same(p, lax.dynamic_slice(x.array, starts, sizes), x)
        return
    y = p.parameter(tuple(sizes), -2.0, 2.0, x.kind)
    p.add(lax.dynamic_update_slice(x.array, y.array.astype(x.array.dtype), starts), min(x.low, -2), max(x.high, 2), x.exact and y.exact, x)


def pad(p):
    x = any_value(p, 1)
    config = [(p.random.randint(-1, 2), p.random.randint(-1, 2), p.random.choice([0, 0, 1, 2])) for _ in x.shape]
    filler = np.array(p.random.choice([0, 1]), x.array.dtype)
    if any(e + low + high + inner * (e - 1) < 1 for e, (low, high, inner) in zip(x.shape, config)):
        raise Skip
    array = lax.pad(x.array, filler, config)
    p.add(array, min(x.low, 0), max(x.high, 1), x.exact, x)


def pad_modes(p):
    x = any_value(p, 1)
    widths = [(p.random.randint(0, min(2, e - 1)), p.random.randint(0, min(2, e - 1))) for e in x.shape]
    same(p, jnp.pad(x.array, widths, mode=p.random.choice(["edge", "reflect", "symmetric", "wrap"])), x)


def concat(p):
    x = any_value(p, 1)
    axis = p.random.randrange(x.rank)
    parts = [x]
    for _ in range(p.random.randint(1, 3)):
        found = [v for v in p.values if v.kind == x.kind and v.rank == x.rank
                 and all(a == b for i, (a, b) in enumerate(zip(v.shape, x.shape)) if i != axis)]
        shape = list(x.shape)
        shape[axis] = p.random.randint(1, 4)
        parts.append(p.random.choice(found) if found and p.chance(0.7) else
                     p.parameter(tuple(shape), -2.0, 2.0, x.kind))
    p.random.shuffle(parts)
    if p.chance(0.2) and all(v.shape == x.shape for v in parts):
        array = jnp.stack([v.array for v in parts], axis)
    else:
        array = jnp.concatenate([v.array for v in parts], axis)
    p.add(array, min(v.low for v in parts), max(v.high for v in parts), all(v.exact for v in parts), *parts)


def split(p):
    x = any_value(p, 1)
    axis = p.random.randrange(x.rank)
    if x.shape[axis] < 2:
        raise Skip
    cuts = sorted(p.random.sample(range(1, x.shape[axis]), p.random.randint(1, min(2, x.shape[axis] - 1))))
    for part in jnp.split(x.array, cuts, axis):
        same(p, part, x)


def shuffle(p):
    x = any_value(p, 1)
    axis = p.random.randrange(x.rank)
    name = p.random.choice(["flip", "roll", "tile", "repeat", "broadcast", "triu", "tril", "diagonal", "rot", "one_hot"])
    if name == "flip":
        same(p, jnp.flip(x.array, axis), x)
    elif name == "roll":
        same(p, jnp.roll(x.array, p.random.randint(-3, 5), axis), x)
    elif name == "tile":
        same(p, jnp.tile(x.array, [p.random.choice([1, 1, 2, 3]) for _ in x.shape]), x)
    elif name == "repeat":
        same(p, jnp.repeat(x.array, p.random.randint(1, 3), axis), x)
    elif name == "broadcast":
        same(p, jnp.broadcast_to(x.array, (p.random.randint(1, 4), *x.shape)), x)
    elif name == "one_hot":
        y = p.pick("i")
        p.add(jax.nn.one_hot(y.array, p.random.randint(1, 9), dtype=float), 0, 1, True, y)
    elif x.rank < 2:
        raise Skip
    elif name == "rot":
        same(p, jnp.rot90(x.array), x)
    elif name == "diagonal":
        same(p, jnp.diagonal(x.array, p.random.randint(0, min(1, x.shape[1] - 1))), x)
    elif x.kind == "b":
        raise Skip
    else:
        same(p, (jnp.triu if name == "triu" else jnp.tril)(x.array, p.random.randint(-1, 2)), x)


def positions(p, extent, shape=None, unique=False):
    """Indices into an axis; constant ones may be out of range if a mode handles them."""
    shape = p.extents(p.random.randint(0, 2), 60) if shape is None else shape
    if unique:
        size = int(np.prod(shape, dtype=np.int64))
        if size > extent:
            raise Skip
        return jnp.asarray(p.numbers.permutation(extent)[:size].reshape(shape).astype("i4"))
    found = [v for v in p.values if v.kind == "i" and v.size <= 200]
    if found and p.chance(0.5):
        x = p.random.choice(found)
        x.used = True
        return x.array % (extent + p.random.choice([0, 0, 3]))
    return jnp.asarray(p.numbers.integers(-extent, extent + 2, shape).astype("i4"))


def gather(p):
    x = any_value(p, 1)
    axis = p.random.randrange(x.rank)
    name = p.random.choice(["take", "index", "pair", "along", "rows"])
    if name == "take":
        # "fill" gives NaN for out-of-range indices.
        index = positions(p, x.shape[axis])
        mode = p.random.choice(["clip", "wrap"])
        same(p, jnp.take(x.array, index, axis, mode=mode), x)
    elif name == "index":
        index = positions(p, x.shape[axis]) % x.shape[axis]
        same(p, x.array[(slice(None),) * axis + (index,)], x)
    elif name == "rows":
        index = positions(p, x.shape[0]) % x.shape[0]
        same(p, x.array[index], x)
    elif name == "pair" and x.rank >= 2:
        count = p.random.randint(1, 6)
        first, second = (jnp.asarray(p.numbers.integers(0, e, (count,)).astype("i4")) for e in x.shape[:2])
        same(p, x.array[first, second], x)
    elif name == "along":
        shape = list(x.shape)
        shape[axis] = p.random.randint(1, 6)
        index = jnp.asarray(p.numbers.integers(0, x.shape[axis], shape).astype("i4"))
        same(p, jnp.take_along_axis(x.array, index, axis), x)
    else:
        raise Skip


def scatter(p):
    x = p.pick(p.random.choice("ffi"), least_rank=1)
    name = p.random.choice(["set", "add", "max", "min", "slice", "segment"])
    extent = x.shape[0]
    if name == "slice":
        first, last = sorted((p.random.randint(0, extent - 1), p.random.randint(0, extent - 1)))
        p.add(x.array.at[first:last + 1].add(1), x.low, x.high + 1, False, x)
        return
    if name == "segment":
        if x.kind != "f":
            raise Skip
        ids = jnp.asarray(p.numbers.integers(0, 4, (extent,)).astype("i4"))
        p.add(jax.ops.segment_sum(x.array, ids, 4), -extent * x.magnitude, extent * x.magnitude, False, x)
        return
    count = p.random.randint(1, 6)
    index = positions(p, extent, (count,), unique=name == "set")
    if name != "set":
        index = index % extent
    y = p.parameter((index.size,) * bool(index.ndim) + tuple(x.shape[1:]), -2.0, 2.0, x.kind)
    at = x.array.at[index.reshape(-1)]
    array = {"set": at.set, "add": at.add, "max": at.max, "min": at.min}[name](y.array)
    wide = 2.0 * index.size if name == "add" else 2.0
    p.add(array, x.low - wide, x.high + wide, name != "add" and x.exact and y.exact, x)


def one_zero(array):
    """JAX orders -0 before 0 in some sorts but not in others."""
    return jnp.where(array == 0, 0.0, array)


def order(p):
    axis = -1
    name = p.random.choice(["sort", "argsort", "top_k", "argmax", "cumsum", "cummax", "cummin", "cumlogsumexp", "median"])
    x = p.pick(least_rank=1, exact=name in ("argsort", "argmax"))
    if x.shape[-1] < 1:
        raise Skip
    if name == "sort":
        axis = p.random.randrange(x.rank)
        same(p, jnp.sort(x.array, axis, descending=p.chance(0.3)), x)
    elif name == "argsort":
        p.add(jnp.argsort(one_zero(x.array), axis, stable=True).astype(jnp.int32), 0, 0, True, x)
    elif name == "top_k":
        values, indices = lax.top_k(one_zero(x.array), p.random.randint(1, x.shape[-1]))
        same(p, values, x)
        if x.exact:
            p.add(indices.astype(jnp.int32), 0, 0, True, x)
    elif name == "argmax":
        axis = p.random.randrange(x.rank)
        op = p.random.choice([lax.argmax, lax.argmin])
        p.add(op(x.array, axis, jnp.int32), 0, 0, True, x)
    elif name == "median":
        same(p, jnp.median(x.array, axis), x)
    else:
        axis = p.random.randrange(x.rank)
        if name == "cumlogsumexp":
            x = p.fit(x, -4.0, 4.0)
            p.add(lax.cumlogsumexp(x.array, axis), x.low, x.high + 6, False, x)
        elif name == "cumsum":
            most = x.magnitude * x.shape[axis]
            p.add(lax.cumsum(x.array, axis, p.chance(0.3)), -most, most, False, x)
        else:
            p.add((lax.cummax if name == "cummax" else lax.cummin)(x.array, axis), x.low, x.high, x.exact, x)


OPS = [transpose, reshape, reshape, slices, dynamic, pad, pad_modes, concat, split, shuffle, gather, gather, scatter, order]
