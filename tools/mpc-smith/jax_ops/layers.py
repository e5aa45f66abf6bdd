# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reductions, products, convolutions, norms, attention, and control flow."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from pool import Skip


def axes_of(p, x):
    return tuple(sorted(p.random.sample(range(x.rank), p.random.randint(1, x.rank))))


def reduce(p):
    name = p.random.choice(["sum", "mean", "max", "min", "prod", "var", "std", "logsumexp", "norm", "any", "all", "body"])
    keep = p.chance(0.3)
    if name in ("any", "all"):
        x = p.pick("b", least_rank=1)
        p.add(getattr(jnp, name)(x.array, axes_of(p, x), keepdims=keep), 0, 1, True, x)
        return
    x = p.pick(least_rank=1)
    axes = axes_of(p, x)
    count = int(np.prod([x.shape[a] for a in axes]))
    a = x.array
    if name == "sum":
        p.add(a.sum(axes, keepdims=keep), -count * x.magnitude, count * x.magnitude, False, x)
    elif name == "mean":
        p.add(a.mean(axes, keepdims=keep), x.low, x.high, False, x)
    elif name in ("max", "min"):
        p.add(getattr(a, name)(axes, keepdims=keep), x.low, x.high, x.exact, x)
    elif name == "prod":
        if count > 40:
            raise Skip
        x = p.fit(x, 0.8, 1.1)
        p.add(x.array.prod(axes, keepdims=keep), 0, 1.1**count, False, x)
    elif name == "var":
        x = p.fit(x, -4.0, 4.0)
        p.add(x.array.var(axes, keepdims=keep), 0, 16, False, x)
    elif name == "std":
        x = p.fit(x, -4.0, 4.0)
        p.add(jnp.sqrt(x.array.var(axes, keepdims=keep) + 0.1), 0.3, 4.1, False, x)
    elif name == "norm":
        x = p.fit(x, -4.0, 4.0)
        p.add(jnp.sqrt((x.array * x.array).sum(axes, keepdims=keep) + 0.1), 0.3, 4 * count**0.5 + 1, False, x)
    elif name == "logsumexp":
        x = p.fit(x, -4.0, 4.0)
        p.add(jax.nn.logsumexp(x.array, axes, keepdims=keep), -4, 4 + np.log(count), False, x)
    else:
        x = p.fit(x, -4.0, 4.0)
        # A start value other than the neutral element may be applied once, several times or not at all.
        body, start = p.random.choice([(lambda a, b: a + b, 0), (jnp.maximum, -np.inf), (jnp.minimum, np.inf),
                                       (jnp.logaddexp, -np.inf)])
        p.add(lax.reduce(x.array, np.asarray(start, x.array.dtype), body, axes), -4 * count, 4 * count, False, x)


def window(p):
    x = p.pick(least_rank=2, where=lambda v: v.rank <= 4)
    sizes = tuple(p.random.randint(1, min(3, e)) for e in x.shape)
    strides = tuple(p.random.choice([1, 1, 2]) for _ in x.shape)
    padding = p.random.choice(["VALID", "SAME", [(min(1, s - 1), min(1, s - 1)) for s in sizes]])
    count = int(np.prod(sizes))
    name = p.random.choice(["max", "min", "sum", "mean"])
    if name in ("max", "min"):
        body, initial = (lax.max, -np.inf) if name == "max" else (lax.min, np.inf)
        p.add(lax.reduce_window(x.array, initial, body, sizes, strides, padding), x.low, x.high, x.exact, x)
    elif name == "sum":
        array = lax.reduce_window(x.array, 0.0, lax.add, sizes, strides, padding)
        p.add(array, -count * x.magnitude, count * x.magnitude, False, x)
    else:
        ones = jnp.ones(x.shape, x.array.dtype)
        array = (lax.reduce_window(x.array, 0.0, lax.add, sizes, strides, padding) /
                 lax.reduce_window(ones, 0.0, lax.add, sizes, strides, padding))
        p.add(array, -x.magnitude, x.magnitude, False, x)


def row_function(p):
    x = p.fit(p.pick(least_rank=1), -4.0, 4.0)
    axis = p.random.randrange(x.rank)
    a = x.array
    name = p.random.choice(["softmax", "log_softmax", "layer_norm", "rms_norm", "one_pass", "standardize", "batch_norm",
                            "entropy"])
    if name == "softmax":
        p.add(jax.nn.softmax(a, axis), 0, 1, False, x)
    elif name == "log_softmax":
        p.add(jax.nn.log_softmax(a, axis), -8 - np.log(x.shape[axis]), 0, False, x)
    elif name == "entropy":
        labels = jax.nn.one_hot(p.random.randrange(x.shape[axis]), x.shape[axis], axis=-1)
        moved = jnp.moveaxis(jax.nn.log_softmax(a, axis), axis, -1)
        p.add(-(moved * labels).sum(-1), 0, 8 + np.log(x.shape[axis]), False, x)
    else:
        axes = (axis,) if name != "batch_norm" else tuple(i for i in range(x.rank) if i != axis)
        mean = a.mean(axes, keepdims=True)
        if name == "rms_norm":
            array = a * lax.rsqrt((a * a).mean(axes, keepdims=True) + 0.1)
        elif name == "one_pass":
            array = (a - mean) * lax.rsqrt(jnp.maximum((a * a).mean(axes, keepdims=True) - mean * mean, 0) + 0.25)
        elif name == "standardize":
            array = jax.nn.standardize(a, axes, epsilon=0.1)
        else:
            array = (a - mean) * lax.rsqrt(a.var(axes, keepdims=True) + 0.1)
        if p.chance(0.5):
            weight = p.parameter(tuple(e if i == axis else 1 for i, e in enumerate(x.shape)), 0.5, 1.5)
            array = array * weight.array + p.parameter(weight.shape, -1.0, 1.0).array
        p.add(array, -20, 20, False, x)


def product(p):
    name = p.random.choice(["matmul", "dense", "general", "einsum", "outer"])
    if name == "dense":
        x = p.fit(p.pick(least_rank=1), -4.0, 4.0)
        k, n = x.shape[-1], p.random.choice([1, 3, 8, 16, 17, 33])
        array = x.array @ p.parameter((k, n), -1.0, 1.0).array
        if p.chance(0.6):
            array = array + p.parameter((n,), -1.0, 1.0).array
        p.add(array, -4 * k - 1, 4 * k + 1, False, x)
        return
    if name == "outer":
        x, y = p.fit(p.pick(), -4.0, 4.0), p.fit(p.pick(), -4.0, 4.0)
        if x.size * y.size > 5000:
            raise Skip
        p.add(jnp.outer(x.array, y.array), -16, 16, False, x, y)
        return
    # Axes of both sides: batch, contracted and free ones, in any order.
    x = p.fit(p.pick(least_rank=1, where=lambda v: v.rank <= 4), -4.0, 4.0)
    order = list(range(x.rank))
    p.random.shuffle(order)
    batch = order[:p.random.randint(0, min(2, x.rank - 1))]
    contracted = order[len(batch):len(batch) + p.random.randint(1, max(1, x.rank - len(batch)))]
    free = [p.random.choice([1, 2, 5, 8]) for _ in range(p.random.randint(0, 2))]
    kinds = [("b", i) for i in batch] + [("c", i) for i in contracted] + [("f", e) for e in free]
    p.random.shuffle(kinds)
    shape = tuple(e if kind == "f" else x.shape[e] for kind, e in kinds)
    if np.prod(shape, dtype=np.int64) > 4000:
        raise Skip
    y = p.parameter(shape, -1.0, 1.0)
    of_y = {(kind, e): i for i, (kind, e) in enumerate(kinds) if kind != "f"}
    count = int(np.prod([x.shape[i] for i in contracted]))
    if name == "einsum":
        left = "abcd"[:x.rank]
        right, new = "", iter("xyz")
        for kind, e in kinds:
            right += next(new) if kind == "f" else left[e]
        result = [c for c in left if "abcd".index(c) not in contracted] + [c for c in right if c in "xyz"]
        p.random.shuffle(result)
        array = jnp.einsum(f"{left},{right}->{''.join(result)}", x.array, y.array)
    else:
        numbers = ((tuple(contracted), tuple(of_y["c", i] for i in contracted)),
                   (tuple(batch), tuple(of_y["b", i] for i in batch)))
        array = lax.dot_general(x.array, y.array.astype(x.array.dtype), numbers)
    p.add(array, -4 * count, 4 * count, False, x)


def convolution(p):
    x = p.pick(rank=p.random.choice([3, 4, 4, 5]))
    x = p.fit(x, -4.0, 4.0)
    spatial = x.rank - 2
    letters = "DHW"[-spatial:]
    image = list("NC" + letters)
    p.random.shuffle(image)
    batch, features = x.shape[image.index("N")], x.shape[image.index("C")]
    extents = [x.shape[image.index(c)] for c in letters]
    groups = p.random.choice([d for d in (1, 1, 2, features) if features % d == 0])
    batches = 1
    if p.chance(0.05) and groups == 1:
        batches = p.random.choice([d for d in (1, 2, 3) if batch % d == 0])
    out = groups * batches * p.random.choice([1, 2, 4])
    kernel = [p.random.randint(1, min(3, e)) for e in extents]
    filters = list("IO" + letters)
    p.random.shuffle(filters)
    sizes = {"I": features // groups, "O": out, **dict(zip(letters, kernel))}
    w = p.parameter(tuple(sizes[c] for c in filters), -1.0, 1.0)
    result = list("NC" + letters)
    p.random.shuffle(result)
    numbers = lax.conv_dimension_numbers(x.shape, w.shape, ("".join(image), "".join(filters), "".join(result)))
    padding = p.random.choice(["VALID", "SAME", [(p.random.randint(-1, 2), p.random.randint(0, 2)) for _ in letters]])
    dilation = [p.random.choice([1, 1, 1, 2]) for _ in letters]
    base = [p.random.choice([1, 1, 1, 2]) for _ in letters]
    try:
        array = lax.conv_general_dilated(x.array, w.array.astype(x.array.dtype),
                                         [p.random.choice([1, 1, 2]) for _ in letters], padding, base, dilation, numbers,
                                         groups, batches)
    except (ValueError, TypeError):
        raise Skip from None
    if 0 in array.shape:
        raise Skip
    if p.chance(0.4):
        array = jax.nn.relu(array)
    most = 4.0 * sizes["I"] * np.prod(kernel)
    p.add(array, -most, most, False, x)


def attention(p):
    x = p.fit(p.pick(rank=3), -3.0, 3.0)
    _, length, width = x.shape
    heads, size = p.split(width)
    q, k, v = (x.array @ p.parameter((width, width), -0.5, 0.5).array for _ in range(3))
    q, k, v = (a.reshape(*x.shape[:2], heads, size) for a in (q, k, v))
    if p.chance(0.3):
        array = jax.nn.dot_product_attention(q, k, v, is_causal=p.chance(0.5))
    else:
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(size)
        if p.chance(0.5):
            scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, p.random.choice([-1e9, -1e4, -np.inf]))
        array = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), v)
    p.add(array.reshape(x.shape), -1.5 * width, 1.5 * width, False, x)


def loops(p):
    x = p.fit(p.pick(least_rank=1, where=lambda v: v.size <= 400), -2.0, 2.0)
    # JAX does not differentiate while loops.
    name = p.random.choice(["scan", "fori", "map", "vmap", "reverse"] + ["while"] * (not p.differentiated))
    w = p.parameter((x.shape[-1], x.shape[-1]), -1.0, 1.0).array.astype(x.array.dtype)
    if name in ("scan", "reverse"):
        def step(carry, row):
            carry = jnp.tanh(carry * 0.5 + row)
            return carry, carry * row
        last, rows = lax.scan(step, jnp.zeros(x.shape[1:], x.array.dtype), x.array, reverse=name == "reverse")
        p.add(last, -1, 1, False, x)
        p.add(rows, -2, 2, False, x)
    elif name == "fori":
        p.add(lax.fori_loop(0, p.random.randint(1, 5), lambda i, a: jnp.tanh(a @ w + i), x.array), -2, 2, False, x)
    elif name == "while":
        bound = p.random.randint(1, 4)
        array = lax.while_loop(lambda s: s[0] < bound, lambda s: (s[0] + 1, jnp.sin(s[1]) + 0.25),
                               (jnp.int32(0), x.array))[1]
        p.add(array, -2, 2, False, x)
    elif name == "map":
        p.add(lax.map(lambda row: jax.nn.softmax(row, -1) if row.ndim else row, x.array), -2, 2, False, x)
    else:
        p.add(jax.vmap(lambda row: jnp.tanh(row).sum(keepdims=True) / row.size)(x.array), -1, 1, False, x)


def branches(p):
    x = p.fit(p.pick(), -2.0, 2.0)
    if p.chance(0.5):
        c = p.pick("b")
        c.used = True
        array = lax.cond(c.array.ravel()[0], jnp.sin, lambda a: a * 0.5, x.array)
    else:
        c = p.pick("i")
        c.used = True
        array = lax.switch(c.array.ravel()[0] % 3, [jnp.cos, lambda a: -a, jnp.tanh], x.array)
    p.add(array, -2, 2, False, x)


def calls(p):
    x = p.fit(p.pick(), -4.0, 4.0)
    inner = p.random.choice([jax.jit, jax.checkpoint])(lambda a: jnp.tanh(a) * jax.nn.sigmoid(a))
    p.add(inner(x.array), -1, 1, False, x)


def resize(p):
    x = p.pick(rank=4)
    shape = (x.shape[0], *(p.random.choice([e, 2 * e, e + 1]) for e in x.shape[1:3]), x.shape[3])
    method = p.random.choice(["linear", "nearest", "cubic"])
    p.add(jax.image.resize(x.array, shape, method), -2 * x.magnitude, 2 * x.magnitude, False, x)


OPS = [reduce, reduce, reduce, window, row_function, row_function, product, product, product, convolution, convolution,
       attention, loops, branches, calls, resize]
