# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Elementwise functions: floats, integers, booleans, casts and random bits."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from pool import Skip, interval

# name: (function, interval where it is smooth and finite)
SMOOTH = {
    "exp": (jnp.exp, -4, 2), "expm1": (jnp.expm1, -4, 2), "exp2": (jnp.exp2, -4, 3),
    "log": (jnp.log, 0.1, 50), "log1p": (jnp.log1p, -0.5, 50), "log2": (jnp.log2, 0.1, 50),
    "sqrt": (jnp.sqrt, 0.05, 50), "rsqrt": (lax.rsqrt, 0.1, 50), "cbrt": (jnp.cbrt, 0.1, 50),
    "sin": (jnp.sin, -6, 6), "cos": (jnp.cos, -6, 6), "tan": (jnp.tan, -1, 1), "tanh": (jnp.tanh, -8, 8),
    "sigmoid": (jax.nn.sigmoid, -8, 8), "erf": (lax.erf, -4, 4), "erfc": (lax.erfc, -3, 3),
    "erf_inv": (lax.erf_inv, -0.9, 0.9), "asin": (jnp.arcsin, -0.9, 0.9), "acos": (jnp.arccos, -0.9, 0.9),
    "atan": (jnp.arctan, -8, 8), "sinh": (jnp.sinh, -3, 3), "cosh": (jnp.cosh, -3, 3),
    "asinh": (jnp.arcsinh, -4, 4), "acosh": (jnp.arccosh, 1.2, 20), "atanh": (jnp.arctanh, -0.9, 0.9),
    "silu": (jax.nn.silu, -8, 8), "gelu": (jax.nn.gelu, -6, 6),
    "gelu_erf": (lambda x: jax.nn.gelu(x, approximate=False), -6, 6), "softplus": (jax.nn.softplus, -8, 8),
    "elu": (jax.nn.elu, -6, 6), "selu": (jax.nn.selu, -6, 6), "celu": (jax.nn.celu, -6, 6),
    "mish": (jax.nn.mish, -6, 6), "soft_sign": (jax.nn.soft_sign, -8, 8), "log_sigmoid": (jax.nn.log_sigmoid, -8, 8),
    "square": (jnp.square, -8, 8), "cube": (lambda x: x**3, -4, 4), "fourth": (lambda x: x**4, -3, 3),
    "reciprocal": (jnp.reciprocal, 0.2, 50), "power": (lambda x: x**1.5, 0.1, 10), "sinc": (jnp.sinc, 0.2, 3),
    "leaky_relu": (jax.nn.leaky_relu, -8, 8), "hard_tanh": (jax.nn.hard_tanh, -8, 8),
    "hard_swish": (jax.nn.hard_swish, -8, 8), "relu6": (jax.nn.relu6, -8, 16),
    "quick_gelu": (lambda x: x * jax.nn.sigmoid(1.702 * x), -6, 6),
}
STEPS = {"floor": jnp.floor, "ceil": jnp.ceil, "round": jnp.round, "sign": jnp.sign, "trunc": jnp.trunc,
         "round_away": lax.round}


def smooth(p):
    name = p.random.choice(list(SMOOTH))
    function, low, high = SMOOTH[name]
    x = p.fit(p.pick(), float(low), float(high))
    p.add(function(x.array), *interval(name, function, x.low, x.high), False, x)


def keeping(p):
    """Ops that are as exact as their operand."""
    x = p.pick()
    name = p.random.choice(["abs", "neg", "relu", "step"])
    if name == "step":
        x = p.pick(exact=True)
        p.add(p.random.choice(list(STEPS.values()))(x.array), x.low - 1, x.high + 1, x.magnitude <= 15, x)
    elif name == "abs":
        p.add(jnp.abs(x.array), 0, x.magnitude, x.exact, x)
    elif name == "neg":
        p.add(-x.array, -x.high, -x.low, x.exact, x)
    else:
        p.add(jax.nn.relu(x.array), 0, max(x.high, 0), x.exact, x)


def binary(p):
    x = p.pick()
    y = p.partner(x)
    if p.chance(0.3):
        x, y = y, x
    name = p.random.choice(["add", "sub", "mul", "mul", "div", "max", "min", "pow", "logaddexp", "hypot", "atan2",
                            "squared"])
    a, b = x.array, y.array
    corners = [c * d for c in (x.low, x.high) for d in (y.low, y.high)]
    if name == "add":
        p.add(a + b, x.low + y.low, x.high + y.high, False, x, y)
    elif name == "sub":
        p.add(a - b, x.low - y.high, x.high - y.low, False, x, y)
    elif name == "mul":
        p.add(a * b, min(corners), max(corners), False, x, y)
    elif name == "squared":
        most = max(x.high - y.low, y.high - x.low) ** 2
        p.add((a - b) ** 2, 0, most, False, x, y)
    elif name == "div":
        y = p.fit(y, 0.5, 4.0)
        p.add(a / y.array, -2 * x.magnitude, 2 * x.magnitude, False, x, y)
    elif name == "max":
        p.add(jnp.maximum(a, b), max(x.low, y.low), max(x.high, y.high), x.exact and y.exact, x, y)
    elif name == "min":
        p.add(jnp.minimum(a, b), min(x.low, y.low), min(x.high, y.high), x.exact and y.exact, x, y)
    elif name == "pow":
        x, y = p.fit(x, 0.5, 2.0), p.fit(y, -3.0, 3.0)
        p.add(x.array**y.array, 0, 8, False, x, y)
    elif name == "logaddexp":
        p.add(jnp.logaddexp(a, b), min(x.low, y.low), max(x.high, y.high) + 1, False, x, y)
    elif name == "hypot":
        x = p.fit(x, 0.5, 4.0)
        p.add(jnp.hypot(x.array, b), 0, 4 + y.magnitude, False, x, y)
    else:
        y = p.fit(y, 0.5, 4.0)
        p.add(jnp.arctan2(a, y.array), -1.6, 1.6, False, x, y)


def compare(p):
    x = p.pick(p.random.choice("ffi"), exact=True)
    y = p.partner(x)
    if not y.exact:
        raise Skip
    op = p.random.choice([jnp.less, jnp.less_equal, jnp.greater, jnp.greater_equal, jnp.equal, jnp.not_equal])
    p.add(op(x.array, y.array), 0, 1, True, x, y)


def logic(p):
    x = p.pick("b")
    y = p.partner(x)
    op = p.random.choice([jnp.logical_and, jnp.logical_or, jnp.logical_xor, lambda a, b: ~a])
    p.add(op(x.array, y.array), 0, 1, True, x, y)


def select(p):
    x = p.pick(p.random.choice("ffi"))
    y = p.partner(x)
    if p.chance(0.3):
        y = p.parameter((), -2.0, 2.0, x.kind)
    c = p.pick("b") if p.chance(0.6) else p.partner(x, "b")
    try:
        np.broadcast_shapes(c.shape, x.shape, y.shape)
    except ValueError:
        c = p.partner(x, "b")
        if np.prod(np.broadcast_shapes(x.shape, y.shape)) > 5000:
            raise Skip from None
        y = p.parameter((), -2.0, 2.0, x.kind)
    p.add(jnp.where(c.array, x.array, y.array), min(x.low, y.low), max(x.high, y.high), x.exact and y.exact, x, y, c)


def clamp(p):
    x = p.pick()
    low, high = sorted((p.random.randint(-12, 12) / 4, p.random.randint(-12, 12) / 4))
    p.add(jnp.clip(x.array, low, high), low, high, x.exact, x)


def integer(p):
    x = p.pick(p.random.choice("iu"))
    y = p.partner(x)
    name = p.random.choice(["add", "sub", "mul", "floordiv", "rem", "mod", "and", "or", "xor", "not", "shl", "shr", "sar",
                            "popcount", "clz", "neg", "abs", "sign", "max", "min", "clip", "sum"])
    a, b = x.array, y.array
    one = b.dtype.type(1)
    shift = (b & b.dtype.type(31)) if p.chance(0.8) else b & b.dtype.type(63)
    divisor = jnp.where(b == 0, one, b)
    table = {
        "add": lambda: a + b, "sub": lambda: a - b, "mul": lambda: a * b,
        "floordiv": lambda: a // divisor, "rem": lambda: lax.rem(*jnp.broadcast_arrays(a, divisor)),
        "mod": lambda: a % divisor, "and": lambda: a & b, "or": lambda: a | b, "xor": lambda: a ^ b, "not": lambda: ~a,
        "shl": lambda: lax.shift_left(*jnp.broadcast_arrays(a, shift)),
        "shr": lambda: lax.shift_right_logical(*jnp.broadcast_arrays(a, shift)),
        "sar": lambda: lax.shift_right_arithmetic(*jnp.broadcast_arrays(a, shift)),
        "popcount": lambda: lax.population_count(a),
        # XLA's constant folding gives -32 for a negative operand.
        "clz": lambda: lax.clz(a & a.dtype.type(0x7FFFFFFF)),
        "neg": lambda: -a,
        "abs": lambda: jnp.abs(a), "sign": lambda: jnp.sign(a), "max": lambda: jnp.maximum(a, b),
        "min": lambda: jnp.minimum(a, b), "clip": lambda: jnp.clip(a, 1, 9), "sum": lambda: a.sum(-1, dtype=a.dtype),
    }
    if name == "sum" and not x.rank:
        raise Skip
    p.add(table[name](), 0, 0, True, x, y)


def cast(p):
    name = p.random.choice(["bool", "int", "small", "uint", "round", "float_to_int", "wide_bool"])
    if name == "bool":
        x = p.pick("b")
        p.add(x.array.astype(float), 0, 1, True, x)
    elif name == "int":
        x = p.pick("iu")
        p.add((x.array % x.array.dtype.type(13)).astype(float), 0, 13, True, x)
    elif name == "small":
        x = p.pick("i")
        p.add(x.array.astype(p.random.choice([jnp.int8, jnp.uint8, jnp.int16])).astype(jnp.int32), 0, 0, True, x)
    elif name == "uint":
        x = p.pick("iu")
        p.add(x.array.astype(jnp.uint32 if x.kind == "i" else jnp.int32), 0, 0, True, x)
    elif name == "round":
        x = p.pick(exact=True)
        p.add(x.array.astype(p.random.choice([jnp.bfloat16, jnp.float16])).astype(float), x.low, x.high, True, x)
    elif name == "float_to_int":
        x = p.pick(exact=True)
        p.add(x.array.astype(jnp.int32), 0, 0, True, x)
    else:
        x = p.pick("i")
        p.add(x.array.astype(bool), 0, 1, True, x)


def draws(p):
    """Random numbers from a constant key, or from one computed from a value."""
    key = jax.random.PRNGKey(p.random.randint(0, 1000))
    if p.chance(0.5):
        x = p.pick("i")
        x.used = True
        key = jax.random.fold_in(key, x.array.ravel()[0])
    if p.chance(0.3):
        key = jax.random.split(key, p.random.randint(2, 4))[1]
    shape = p.extents(p.random.randint(0, 3), 500)
    name = p.random.choice(["bits", "uniform", "bernoulli", "randint", "dropout"])
    if name == "bits":
        p.add(jax.random.bits(key, shape, jnp.uint32), 0, 0, True)
    elif name == "uniform":
        p.add(jax.random.uniform(key, shape, jnp.float32).astype(float), 0, 1)
    elif name == "bernoulli":
        p.add(jax.random.bernoulli(key, jnp.float32(0.5), shape), 0, 1, True)
    elif name == "randint":
        p.add(jax.random.randint(key, shape, -5, 30, jnp.int32), 0, 0, True)
    else:
        x = p.pick()
        kept = jax.random.bernoulli(key, jnp.float32(0.75), x.shape)
        p.add(jnp.where(kept, x.array / 0.75, 0.0), min(x.low, 0) * 1.34, max(x.high, 0) * 1.34, False, x)


OPS = [smooth, smooth, smooth, keeping, binary, binary, binary, compare, logic, select, clamp, integer, cast, draws]
