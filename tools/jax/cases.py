#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""JAX functions that together cover the importer, one op family each.

usage: cases.py FOLDER [NAME...]

Writes each with its inputs and answers (see export.py). test/Import/StableHLO/
jax.tar.xz holds the output of jax 0.10.2, grouped by kind of file, which
compresses best; after a change here, with that path in ARCHIVE:
  cases.py FOLDER && cd FOLDER &&
  tar -c */module.mlir */meta.json */inputs.npz */expected.npz |
  xz --lzma2=preset=9e,lc=0,lp=2 > ARCHIVE
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
# pylint: disable=wrong-import-position
from export import export
from random_cases import RANDOM_CASES
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

RANDOM = np.random.RandomState(0)
CASES = dict(RANDOM_CASES)


def f(*shape):
    """Floats, standard normal."""
    return RANDOM.randn(*shape).astype("f")


def u(*shape):
    """Floats in [0, 1)."""
    return RANDOM.rand(*shape).astype("f")


def i(high, *shape, lo=0):
    """Integers in [lo, high)."""
    return RANDOM.randint(lo, high, shape).astype("i4")


def case(name, function, *arguments):
    """Registers a function of leaves; it must not create random arrays itself."""
    CASES[name] = (function, arguments)


x = f(4, 6)
case(
    "unary1",
    lambda x: (
        jnp.abs(x),
        -x,
        jnp.sign(x),
        jnp.floor(x),
        jnp.ceil(x),
        jnp.round(x),
        lax.round(x),
        jnp.cbrt(x),
        jnp.cos(x),
        jnp.exp(x),
        jnp.expm1(x),
    ),
    x,
)
case(
    "unary2",
    lambda x: (
        jnp.log(x),
        jnp.log1p(x),
        jax.nn.sigmoid(x),
        lax.rsqrt(x),
        jnp.sqrt(x),
        jnp.sin(x),
        jnp.tan(x),
        jnp.tanh(x),
        lax.erf(x),
        lax.erfc(x),
        lax.erf_inv(x * 0.9),
    ),
    u(4, 6) + 0.1,
)
case(
    "unary3",
    lambda x: (
        jnp.arcsin(x),
        jnp.arccos(x),
        jnp.arctan(x),
        jnp.arcsinh(x),
        jnp.arctanh(x),
        jnp.sinh(x),
        jnp.cosh(x),
        jnp.arccosh(x + 1.5),
        jnp.isfinite(x / jnp.floor(x + 1)),
        jnp.isinf(x / 0),
        jnp.square(x),
    ),
    u(4, 6) * 0.9 + 0.05,
)
case(
    "binary",
    lambda x, y: (
        x + y,
        x - y,
        x * y,
        x / y,
        jnp.maximum(x, y),
        jnp.minimum(x, y),
        jnp.power(jnp.abs(x), y),
        jnp.fmod(x, y),
        jnp.mod(x, y),
        jnp.arctan2(x, y),
        x > y,
        x <= y,
        x == y,
        x != x,
    ),
    f(4, 6),
    f(4, 6),
)
case(
    "ints",
    lambda a, b: (
        a + b,
        a - b,
        a * b,
        a // b,
        a % b,
        lax.div(a, b),
        lax.rem(a, b),
        a & b,
        a | b,
        a ^ b,
        ~a,
        a << 2,
        a >> 1,
        lax.shift_right_logical(a, jnp.ones_like(a)),
        lax.population_count(a),
        lax.clz(a),
        jnp.abs(a),
        jnp.sign(a),
        jnp.maximum(a, b),
    ),
    i(100, 8, lo=-100),
    i(9, 8, lo=1),
)
case(
    "uints",
    lambda a, b: (a + b, a * b, a >> 3, a << 1, a ^ b, lax.population_count(a), lax.clz(a), a.astype(jnp.float32)),
    i(1 << 30, 8).astype("u4"),
    i(9, 8, lo=1).astype("u4"),
)
case(
    "select",
    lambda x, y, p: (jnp.where(x > 0, x, y), jnp.clip(x, -0.5, 0.5), jnp.where(p, x, y), lax.clamp(y - 1, x, y + 1)),
    f(4, 6),
    f(4, 6),
    np.bool_(True),
)
case(
    "casts",
    lambda x: (
        x.astype(jnp.int32),
        x.astype(jnp.bfloat16).astype(jnp.float32),
        x.astype(jnp.float16),
        (x > 0).astype(jnp.float32),
        x.astype(bool),
        lax.reduce_precision(x, 5, 10),
        lax.reduce_precision(x, 8, 7),
    ),
    x * 10,
)
case(
    "shapes",
    lambda x: (
        x.reshape(2, 12),
        x.T,
        x[::-1],
        jnp.flip(x, 1),
        jnp.concatenate([x, x * 2], 1),
        x[1:3, ::2],
        jnp.pad(x, ((1, 2), (0, 3)), constant_values=7.0),
        lax.pad(x, 0.0, ((1, -1, 2), (-2, 3, 0))),
        jnp.tile(x, (2, 3)),
        jnp.repeat(x, 2, 0),
        jnp.stack([x, x], 1),
        x[:, None, :] * jnp.ones((1, 3, 1)),
        jnp.roll(x, 2, 1),
    ),
    x,
)
case(
    "iotas",
    lambda x: (
        jnp.arange(6) + x[0].astype(jnp.int32),
        lax.iota(jnp.float32, 6) * x,
        jnp.eye(4) @ x,
        jnp.tril(jnp.ones((6, 6))) @ x.T,
        jnp.linspace(0, 1, 6) * x,
    ),
    x,
)
case(
    "dyn",
    lambda x, k: (
        lax.dynamic_slice(x, (k, jnp.int32(1)), (2, 3)),
        lax.dynamic_update_slice(x, jnp.ones((2, 3)), (k, jnp.int32(2))),
        lax.dynamic_update_slice(x, jnp.ones((1, 6)), (k, jnp.int32(0))),
        lax.dynamic_slice(x, (1, 0), (2, 6)),
        lax.dynamic_update_slice(x, jnp.ones((2, 6)), (1, 0)),
        lax.dynamic_update_slice(x, jnp.ones((2, 2)), (1, 3)),
        lax.dynamic_index_in_dim(x, k, 1),
        x.at[k].set(0.0),
    ),
    x,
    np.int32(3),
)
case(
    "dynclamp",
    lambda x, k: (lax.dynamic_slice(x, (k, k), (2, 3)), lax.dynamic_update_slice(x, jnp.ones((2, 3)), (k, -k))),
    x,
    np.int32(30),
)
case(
    "dots",
    lambda a, b, c, d: (
        a @ b,
        a.T @ a,
        a @ a.T,
        jnp.einsum("bij,bjk->bik", c, d),
        jnp.einsum("bij,bkj->bik", c, c),
        jnp.einsum("bij,bik->bjk", c, c),
        jnp.tensordot(c, c, ((0, 2), (0, 2))),
        jnp.einsum("bij,jk->bik", c, b[:, :3]),
        jnp.einsum("bij,jbk->bik", c, d.transpose(1, 0, 2)),
        jnp.outer(a[0], a[1]),
        jnp.dot(a[0], a[1]),
        jnp.vdot(a, a),
        a @ a[0],
    ),
    f(4, 6),
    f(6, 5),
    f(3, 4, 6),
    f(3, 6, 2),
)
case("dotint", lambda a, b: (a @ b,), i(100, 4, 6), i(100, 6, 5))
case(
    "bf16dot",
    lambda a, b: (lax.dot(a, b, preferred_element_type=jnp.float32), a @ b),
    f(4, 6).astype(jnp.bfloat16),
    f(6, 5).astype(jnp.bfloat16),
)
for nm, (dn, sx, sw) in {
    "nchw": (("NCHW", "OIHW", "NCHW"), (1, 2, 6, 5), (4, 2, 3, 3)),
    "nhwc": (("NHWC", "HWIO", "NHWC"), (1, 6, 5, 2), (3, 3, 2, 4)),
}.items():
    for k, kw in {
        "same": {"window_strides": (1, 1), "padding": "SAME"},
        "stride": {"window_strides": (2, 1), "padding": ((1, 2), (0, 1))},
        "dil": {"window_strides": (1, 1), "padding": "VALID", "rhs_dilation": (2, 1)},
        "lhs": {"window_strides": (1, 1), "padding": ((2, 1), (1, 1)), "lhs_dilation": (2, 2)},
    }.items():
        case(
            f"conv_{nm}_{k}",
            lambda x, w, kw=kw, dn=dn: lax.conv_general_dilated(x, w, dimension_numbers=dn, **kw),
            f(*sx),
            f(*sw),
        )
case(
    "conv_groups",
    lambda x, w: lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=4
    ),
    f(2, 7, 7, 4),
    f(3, 3, 1, 8),
)
case(
    "conv1d",
    lambda x, w: lax.conv_general_dilated(x, w, (2,), ((3, 2),), dimension_numbers=("NWC", "WIO", "NWC")),
    f(2, 17, 4),
    f(5, 4, 6),
)
case(
    "conv_transpose",
    lambda x, w: (
        lax.conv_transpose(x, w, (2, 2), "SAME"),
        lax.conv_transpose(x, w, (2, 2), "VALID", transpose_kernel=False),
    ),
    f(1, 4, 4, 2),
    f(3, 3, 2, 4),
)
case(
    "conv_grads",
    jax.grad(
        lambda x, w: jnp.sum(
            jnp.sin(
                lax.conv_general_dilated(
                    x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=2
                )
            )
        ),
        (0, 1),
    ),
    f(1, 6, 6, 4),
    f(3, 3, 2, 6),
)
case(
    "conv_negpad",
    lambda x, w: lax.conv_general_dilated(x, w, (1, 1), ((-1, 2), (1, -2))),
    f(1, 2, 6, 5),
    f(4, 2, 3, 3),
)
case(
    "reduces",
    lambda x: (
        x.sum(),
        x.sum(0),
        x.mean(1),
        x.max(1),
        x.min(0),
        x.prod(1),
        jnp.var(x, 1),
        jnp.std(x),
        (x > 0).all(1),
        (x > 0).any(0),
        jnp.argmax(x, 1),
        jnp.argmin(x, 0),
        jax.nn.logsumexp(x, 1),
        jnp.linalg.norm(x),
        jnp.count_nonzero(x > 0, 1),
    ),
    x,
)
case("reduceints", lambda a: (a.sum(0), a.max(1), a.min(1), a.prod(0), jnp.argmax(a, 1)), i(9, 4, 6, lo=-9))
case("reducebody", lambda x: lax.reduce(x, x.dtype.type(0.0), lambda a, b: jnp.logaddexp(a, b), (1,)), x)
case(
    "reduceinit",
    lambda x: (
        lax.reduce(x, x.dtype.type(3.0), lax.add, (1,)),
        lax.reduce(x, x.dtype.type(0.5), lax.max, (0,)),
        lax.reduce(x, x.dtype.type(2.0), lax.mul, (0, 1)),
    ),
    x,
)
case(
    "softmaxes",
    lambda x: (
        jax.nn.softmax(x),
        jax.nn.log_softmax(x, 0),
        jax.nn.gelu(x),
        jax.nn.gelu(x, approximate=False),
        jax.nn.silu(x),
        jax.nn.relu(x),
        jax.nn.elu(x),
        jax.nn.softplus(x),
        jax.nn.leaky_relu(x),
        jax.nn.relu6(x),
        jax.nn.hard_swish(x),
        jax.nn.selu(x),
        jax.nn.mish(x) if hasattr(jax.nn, "mish") else x,
        jax.nn.one_hot(jnp.argmax(x, 1), 6),
    ),
    x * 3,
)
case(
    "cums",
    lambda x: (
        jnp.cumsum(x, 1),
        jnp.cumprod(x, 0),
        lax.cummax(x, 1),
        lax.cummin(x, 0),
        lax.cumlogsumexp(x, 1),
        lax.cumsum(x, 0, reverse=True),
        lax.cummax(x, 1, reverse=True),
    ),
    x,
)
case(
    "pools",
    lambda x: (
        lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
        lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"),
        lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4,
        lax.reduce_window(x, jnp.inf, lax.min, (1, 3, 3, 1), (1, 1, 1, 1), "SAME"),
        lax.reduce_window(x, 1.0, lax.mul, (1, 2, 2, 1), (1, 1, 1, 1), "VALID"),
        lax.reduce_window(x, 0.0, lax.add, (1, 2, 1, 2), (1, 1, 1, 2), "VALID"),
        lax.reduce_window(x, -jnp.inf, lax.max, (2, 1, 1, 1), (1, 1, 1, 1), "VALID"),
    ),
    f(1, 6, 6, 2),
)
case(
    "poolgrad",
    jax.grad(
        lambda x: jnp.sum(jnp.sin(lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")))
        + jnp.sum(jnp.cos(lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")))
    ),
    f(1, 6, 6, 2),
)
case(
    "takes",
    lambda x, k: (
        x[k],
        jnp.take(x, k, 0),
        jnp.take(x, k, 1, mode="clip"),
        jnp.take(x, k, 0, mode="wrap"),
        x[:, k],
        x[k, k],
        jnp.take_along_axis(x, jnp.abs(k)[:, None] % 6, 1),
        x.at[k].get(mode="fill", fill_value=9.0),
    ),
    f(8, 6),
    np.array([0, 3, -1, 5, -9, 2, 40, 1], "i4"),
)
case(
    "gathers",
    lambda x, k: (
        jax.vmap(lambda a, j: lax.dynamic_slice(a, (j,), (3,)))(x, k),
        jax.vmap(lambda a, j: a[j])(x, k),
        lax.gather(
            x,
            k[:, None],
            lax.GatherDimensionNumbers(offset_dims=(1, 2), collapsed_slice_dims=(), start_index_map=(0,)),
            (2, 4),
        ),
        x[k[:, None], k[None, :] % 6],
        x[k][:, k % 6],
    ),
    f(8, 6),
    np.array([0, 3, 1, 5, 7, 2, 4, 1], "i4"),
)
case(
    "scatters",
    lambda x, k, v: (
        x.at[k].add(v),
        x.at[k].set(v),
        x.at[k].mul(v),
        x.at[k].max(v),
        x.at[k].min(v),
        x.at[:, k % 6].add(1.0),
        x.at[k, k % 6].add(2.0),
        x.at[k[:3], 1:4].set(v[:3, :3]),
        x.at[1:3, 2:5].add(1.0),
        x.at[2].set(0.0),
    ),
    f(8, 6),
    np.array([0, 3, 1, -5, 7, -20, 40, 1], "i4"),
    f(8, 6),
)
case(
    "scatterdup",
    lambda x, k, v: (x.at[k].add(v), jax.ops.segment_sum(v, k, 5)),
    f(8, 6),
    np.array([0, 3, 1, 3, 3, 2, 4, 1], "i4"),
    f(8, 6),
)
case(
    "batched_scatter",
    jax.grad(
        lambda x, k: jnp.sum(jnp.sin(jnp.take_along_axis(x, k, 1)) + jax.vmap(lambda a, j: a[j[0]])(x, k)[:, None])
    ),
    f(8, 6),
    i(6, 8, 2),
)
case(
    "sorts",
    lambda x: (
        jnp.sort(x, 1),
        jnp.argsort(x, 0),
        lax.top_k(x, 3),
        jnp.sort(x, 0, descending=True),
        lax.sort((x, -x), num_keys=1),
        jnp.median(x, 1),
    ),
    f(5, 6),
)
case("sortnan", lambda x: (jnp.sort(x), jnp.argsort(x)), np.array([3, np.nan, -1, np.inf, 0, -0.0, -np.inf, 2], "f"))
case(
    "loops",
    lambda x: (
        lax.fori_loop(0, 5, lambda k, a: a * 1.1 + k, x),
        lax.scan(lambda s, a: (s + a, s * a), x[0], x),
        lax.map(lambda a: a.sum(), x),
        lax.cond(True, lambda a: a + 1, lambda a: a * 2, x),
    ),
    x,
)
case(
    "branches",
    lambda x, k: (
        lax.switch(k, [lambda a: a + 1, lambda a: a * 2, lambda a: a - 3], x),
        lax.cond(k > 1, lambda a: a + 1, lambda a: a * 2, x),
    ),
    x,
    np.int32(2),
)
case("while", lambda x: lax.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, s[1] * 2), (0, x))[1], x)
case(
    "norms",
    lambda x, s, b: (
        (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * s + b,
        x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * s,
    ),
    f(8, 16),
    f(16),
    f(16),
)
case(
    "losses",
    lambda x, y: (
        -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(x), y[:, None], 1)),
        -jnp.mean(jnp.sum(jax.nn.one_hot(y, 6) * jax.nn.log_softmax(x), 1)),
    ),
    f(5, 6),
    i(6, 5),
)
case(
    "lossgrad",
    jax.grad(lambda x, y: -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(x), y[:, None], 1))),
    f(5, 6),
    i(6, 5),
)
case(
    "scangrad",
    jax.grad(lambda w, x: jnp.sum(lax.scan(lambda h, a: (jnp.tanh(h @ w + a), h), jnp.zeros(6), x)[0] ** 2)),
    f(6, 6) * 0.3,
    f(10, 6),
)
case("map", lambda x: jax.vmap(lambda a: jnp.interp(a, jnp.arange(4.0), jnp.arange(4.0) ** 2))(x), u(4, 6) * 3)
case("digitize", lambda x: jnp.searchsorted(jnp.arange(5.0), x), u(9) * 5)
case(
    "linalgless",
    lambda x: (jnp.trace(x), jnp.diag(x), jnp.kron(x, x), jnp.triu(x), jnp.cross(x[:, :3], x[:, 1:4])),
    f(4, 4),
)
case("bilinear", lambda x: jax.image.resize(x, (1, 8, 8, 3), "bilinear"), f(1, 4, 4, 3))
case("nearest", lambda x: jax.image.resize(x, (1, 8, 8, 3), "nearest"), f(1, 4, 4, 3))


MASK = RANDOM.rand(5, 40) < 0.5
case("mask", lambda x: jnp.where(MASK, x, 0), f(5, 40))
case("known_draw", lambda x: x + jax.random.uniform(jax.random.PRNGKey(5), (13, 31, 1), "f"), f(1))
case("whole_scatter", lambda x: (x.at[...].add(1), x.at[...].mul(x), x.at[:].set(2)), f(3, 4))
case("along_one", lambda x, i: jnp.take_along_axis(x, i, 0), f(1, 2, 3), i(3, 4, 2, 3, lo=-2))
case(
    "empty_window",
    lambda x, w: jnp.concatenate([lax.conv_general_dilated(x, w, (1,), [(-2, 0)]).reshape(0), x.reshape(-1)]),
    f(1, 2, 3),
    f(4, 2, 2),
)


def main():
    folder, *names = sys.argv[1:] or sys.exit(__doc__)
    for name, (function, arguments) in CASES.items():
        if not names or name in names:
            kept = pathlib.Path(folder) / name
            export(function, arguments, kept)
            # Reduced for tests: single precision, one set of answers.
            with np.load(kept / "expected.npz") as wide:
                answers = {k: v.astype("f") if v.dtype == np.float64 else v for k, v in wide.items()}
            np.savez(kept / "expected.npz", **answers)
            (kept / "expected_jax.npz").unlink()


if __name__ == "__main__":
    main()
