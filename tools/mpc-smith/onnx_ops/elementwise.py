# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Elementwise ops."""

import math

import numpy as np

from graph import BOOL, FLOAT, INT32, INT64, INT8, UINT8, Skip

erf = np.vectorize(math.erf)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def elu(x):
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


ANY = (-60.0, 60.0)
# Op: its first opset, the argument interval, the NumPy function, its attributes.
SMOOTH = {
    "Abs": (7, ANY, np.abs, {}),
    "Neg": (7, ANY, np.negative, {}),
    "Relu": (7, ANY, lambda x: np.maximum(x, 0), {}),
    "Sigmoid": (7, ANY, sigmoid, {}),
    "Tanh": (7, ANY, np.tanh, {}),
    "Erf": (9, ANY, erf, {}),
    "Sin": (7, (-20.0, 20.0), np.sin, {}),
    "Cos": (7, (-20.0, 20.0), np.cos, {}),
    "Tan": (7, (-1.2, 1.2), np.tan, {}),
    "Asin": (7, (-0.875, 0.875), np.arcsin, {}),
    "Acos": (7, (-0.875, 0.875), np.arccos, {}),
    "Atan": (7, ANY, np.arctan, {}),
    "Sinh": (9, (-3.0, 3.0), np.sinh, {}),
    "Cosh": (9, (-3.0, 3.0), np.cosh, {}),
    "Asinh": (9, ANY, np.arcsinh, {}),
    "Acosh": (9, (1.25, 60.0), np.arccosh, {}),
    "Atanh": (9, (-0.75, 0.75), np.arctanh, {}),
    "Exp": (7, (-6.0, 4.0), np.exp, {}),
    "Log": (7, (0.25, 60.0), np.log, {}),
    "Sqrt": (7, (0.125, 60.0), np.sqrt, {}),
    "Reciprocal": (7, (0.25, 60.0), np.reciprocal, {}),
    "Softplus": (7, ANY, lambda x: np.logaddexp(x, 0), {}),
    "Softsign": (7, ANY, lambda x: x / (1 + np.abs(x)), {}),
    "Elu": (7, ANY, elu, {"alpha": 1.0}),
    "Selu": (7, ANY, lambda x: 1.76 * elu(x), {}),
    "LeakyRelu": (7, ANY, lambda x: np.where(x > 0, x, 0.125 * x), {"alpha": 0.125}),
    "HardSigmoid": (7, ANY, lambda x: np.clip(0.2 * x + 0.5, 0, 1), {}),
    "HardSwish": (14, ANY, lambda x: x * np.clip(x / 6 + 0.5, 0, 1), {}),
    "Celu": (12, ANY, elu, {"alpha": 1.0}),
    "Mish": (18, ANY, lambda x: x * np.tanh(np.logaddexp(x, 0)), {}),
    "Gelu": (20, ANY, lambda x: x * sigmoid(1.702 * x), {}),
    "Identity": (7, ANY, lambda x: x, {}),
}
KEEPS_EXACT = {"Abs", "Neg", "Relu", "Identity"}


def smooth(g):
    kind = g.random.choice(sorted(SMOOTH))
    since, (low, high), function, attributes = SMOOTH[kind]
    if g.opset < since:
        raise Skip
    if kind == "Gelu" and g.chance(0.5):
        attributes = {"approximate": "tanh"}
    if kind == "Gelu":
        # ONNX Runtime computes 1 + erf(x), which cancels completely below.
        low = -1.5
    x = g.fit(g.pick(), low, high)
    samples = function(np.linspace(x.low, x.high, 65))
    slack = 0.1 + 0.05 * (samples.max() - samples.min())
    g.emit(kind, [x], x.shape, samples.min() - slack, samples.max() + slack, exact=x.exact and kind in KEEPS_EXACT,
           **attributes)


def stepped(g):
    kind = g.random.choice(["Floor", "Ceil", "Round", "Sign", "ThresholdedRelu", "Shrink"])
    if g.opset < {"Round": 11, "Sign": 9, "ThresholdedRelu": 10, "Shrink": 9}.get(kind, 7):
        raise Skip
    x = g.pick(exact=True)
    attributes = {"ThresholdedRelu": {"alpha": 0.5}, "Shrink": {"lambd": 0.75, "bias": 0.25}}.get(kind, {})
    g.emit(kind, [x], x.shape, math.floor(min(x.low, -1)), math.ceil(max(x.high, 1)), exact=True, **attributes)


def binary(g):
    kind = g.random.choice(["Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Sum", "Mean", "PRelu"])
    x = g.pick(where=lambda v: v.size <= 4000)
    y = g.partner(x)
    if g.chance(0.3) and kind not in ("PRelu", "Pow", "Div"):
        x, y = y, x
    if kind in ("Div", "Pow"):
        if kind == "Div":
            y = g.fit(y, 0.5, 8.0)
        else:
            x = g.fit(x, 0.5, 4.0)
            y = g.constant(np.float32(g.random.choice([0.5, 1, 2, 3, -1, -0.5]))) if g.chance(0.6) else \
                g.fit(y, -2.0, 2.0)
    if kind == "PRelu":
        shape = tuple(e if g.chance(0.6) else 1 for e in x.shape)
        if not shape:
            raise Skip
        y = g.parameter(shape[g.random.randrange(len(shape)):], 0, 1)
    shape = np.broadcast_shapes(x.shape, y.shape)
    ends = np.array([x.low, x.high])[:, None]
    others = np.array([y.low, y.high])[None]
    corners = {"Add": ends + others, "Sub": ends - others, "Mul": ends * others, "Sum": ends + others,
               "Mean": (ends + others) / 2, "PRelu": np.array([x.low, x.high, 0.0]),
               "Max": np.maximum(ends, others), "Min": np.minimum(ends, others)}
    if kind == "Div":
        found = ends / others
    elif kind == "Pow":
        found = np.power(ends.astype(float), others)
    else:
        found = corners[kind]
    exact = kind in ("Max", "Min") and x.exact and y.exact
    operands = [x, y]
    if kind in ("Max", "Min", "Sum") and g.chance(0.3) and x.low <= 0 <= x.high:
        operands.append(x)
        found = np.append(found, found + x.low) if kind == "Sum" else found
        found = np.append(found, found + x.high) if kind == "Sum" else found
    g.emit(kind, operands, shape, found.min(), found.max(), exact=exact)


def integer(g):
    kind = g.random.choice(["Add", "Sub", "Mul", "Div", "Mod", "Max", "Min", "Neg", "Abs", "Sign"])
    if g.opset < {"Mod": 10, "Max": 12, "Min": 12, "Sign": 9}.get(kind, 7):
        raise Skip
    dtype = g.random.choice([INT64, INT32])
    x = g.pick(dtype, where=lambda v: v.size <= 4000 and max(-v.low, v.high) < 1000)
    if kind in ("Neg", "Abs", "Sign"):
        bound = max(-x.low, x.high)
        g.emit(kind, [x], x.shape, -bound, bound, dtype, True)
        return
    y = g.partner(x)
    if kind in ("Div", "Mod"):
        y = g.constant(g.numbers.integers(1, 5, y.shape).astype(dtype) *
                       (g.random.choice([1, -1]) if kind == "Mod" else 1))
        # The rounding direction of a negative quotient is unspecified.
        if kind == "Div":
            x = g.emit("Abs", [x], x.shape, 0, max(-x.low, x.high), dtype, True)
    bound = max(-x.low, x.high) * max(-y.low, y.high) + max(-x.low, x.high) + max(-y.low, y.high)
    if bound > 1 << 20:
        raise Skip
    g.emit(kind, [x, y], np.broadcast_shapes(x.shape, y.shape), -bound, bound, dtype, True)


def modulo(g):
    if g.opset < 10:
        raise Skip
    x = g.pick(exact=True, where=lambda v: v.size <= 4000)
    g.emit("Mod", [x, g.constant(np.float32(g.random.choice([1.5, -2.0, 3.0])))], x.shape, -3, 3, exact=True, fmod=1)


def compare(g):
    kind = g.random.choice(["Less", "Greater", "Equal", "LessOrEqual", "GreaterOrEqual"])
    if g.opset < (12 if "Or" in kind else 9 if kind != "Equal" else 11):
        raise Skip
    x = g.pick(g.random.choice([FLOAT, FLOAT, INT64, INT32]), exact=True, where=lambda v: v.size <= 4000)
    shape = tuple(1 if g.chance(0.4) else e for e in x.shape)
    array = g.numbers.integers(-2, 3, shape).astype(x.type)
    y = g.constant(array)
    if g.chance(0.3):
        x, y = y, x
    g.emit(kind, [x, y], np.broadcast_shapes(x.shape, y.shape), 0, 1, BOOL, True)


def logic(g):
    kind = g.random.choice(["And", "Or", "Xor", "Not"])
    x = g.pick(BOOL, where=lambda v: v.size <= 4000)
    operands = [x] if kind == "Not" else [x, g.partner(x)]
    g.emit(kind, operands, np.broadcast_shapes(*(o.shape for o in operands)), 0, 1, BOOL, True)


def where(g):
    if g.opset < 9:
        raise Skip
    condition = g.pick(BOOL, where=lambda v: v.size <= 1000)
    x = g.pick(where=lambda v: v.size <= 1000)
    try:
        shape = np.broadcast_shapes(condition.shape, x.shape)
    except ValueError:
        x = g.parameter(tuple(1 if g.chance(0.4) else e for e in condition.shape))
        shape = condition.shape
    y = g.parameter(tuple(1 if g.chance(0.4) else e for e in shape), -2, 2)
    if g.chance(0.5):
        x, y = y, x
    g.emit("Where", [condition, x, y], np.broadcast_shapes(shape, y.shape), min(x.low, y.low), max(x.high, y.high),
           exact=x.exact and y.exact)


def cast(g):
    source = g.random.choice([FLOAT, INT64, INT32, BOOL])
    target = g.random.choice([FLOAT, FLOAT, INT64, INT32, BOOL])
    x = g.pick(source, exact=True, where=lambda v: max(-v.low, v.high) <= 100)
    low, high = (0, 1) if target == BOOL or source == BOOL else (x.low, x.high)
    if target != FLOAT and source == FLOAT:
        low, high = math.floor(low), math.ceil(high)
    if g.opset >= 15 and g.chance(0.2):
        like = g.constant(np.zeros((2,), target))
        g.emit("CastLike", [x, like], x.shape, low, high, target, True)
        return
    from graph import element_type
    g.emit("Cast", [x], x.shape, low, high, target, max(-low, high) <= 16 or target != FLOAT, to=element_type(target))


def clip(g):
    x = g.pick()
    low, high = -g.random.choice([0.5, 1.0, 2.0]), g.random.choice([0.25, 1.0, 6.0])
    if g.opset < 11:
        g.emit("Clip", [x], x.shape, low, high, exact=x.exact, min=low, max=high)
        return
    least = g.constant(np.float32(low)) if g.chance(0.8) else None
    most = g.constant(np.float32(high)) if g.chance(0.8) else None
    operands = [x, least, most]
    while operands[-1] is None:
        operands.pop()
    g.emit("Clip", operands, x.shape, low if least else min(x.low, high), high if most else max(x.high, low),
           exact=x.exact)


def quantize(g):
    """QuantizeLinear then DequantizeLinear, with scales that are exact in every policy."""
    if g.opset < 10:
        raise Skip
    x = g.pick(exact=True, least_rank=1)
    dtype = g.random.choice([INT8, UINT8])
    axis = g.random.randrange(x.rank)
    per_axis = g.opset >= 13 and g.chance(0.4)
    shape = (x.shape[axis],) if per_axis else ()
    scale = g.constant(np.broadcast_to(np.float32(g.random.choice([0.125, 0.25, 0.5])), shape).copy())
    zero = g.constant(g.numbers.integers(0, 20, shape).astype(dtype))
    attributes = {"axis": axis} if per_axis else {}
    q = g.emit("QuantizeLinear", [x, scale, zero], x.shape, np.iinfo(dtype).min, np.iinfo(dtype).max, dtype, True,
               **attributes)
    bound = max(-x.low, x.high) + 1
    g.emit("DequantizeLinear", [q, scale, zero], x.shape, -bound, bound, exact=bound <= 16, **attributes)


OPS = [smooth] * 6 + [stepped, integer, modulo, compare, logic, where, cast, clip, quantize] + [binary] * 4
