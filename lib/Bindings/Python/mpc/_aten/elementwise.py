# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Elementwise ops."""

from __future__ import annotations

import math
from typing import Any

import torch

from .builder import ELEMENT, Builder, Operand, Type, Unsupported, Value, f64, holds, is_float, lowers, wide

# ===----------------------------------------------------------------------=== #
# Unary
# ===----------------------------------------------------------------------=== #

_UNARY = ("exp", "expm1", "log", "log1p", "sqrt", "rsqrt", "reciprocal", "sin", "cos", "tan", "asin", "acos", "atan",
          "sinh", "cosh", "asinh", "acosh", "atanh", "tanh", "sigmoid", "erf", "silu")


def _enter_unary(name: str) -> None:
    @lowers(name)
    def lower(b: Builder, x: Value) -> Value:
        return b.unary(name, b.cast(x, b.results[0].element))


for _name in _UNARY:
    _enter_unary(_name)


def _enter_kept(name: str) -> None:
    """Registers ops that are the identity on integers or also support them."""

    @lowers(name)
    def lower(b: Builder, x: Value) -> Value:
        if not x.is_float and name in ("floor", "ceil", "round"):
            return x
        if x.element == "i1":
            if name in ("abs", "sign", "relu"):
                return x
            raise Unsupported("arithmetic of booleans")
        return b.unary(name, x)


for _name in ("abs", "neg", "sign", "floor", "ceil", "round", "relu"):
    _enter_kept(_name)


@lowers("trunc")
def trunc(b: Builder, x: Value) -> Value:
    if not x.is_float:
        return x
    return b.select(b.compare("lt", x, b.scalar(0, x.element)), b.unary("ceil", x), b.unary("floor", x))


def _logarithm(name: str, base: float) -> None:
    @lowers(name)
    def lower(b: Builder, x: Value) -> Value:
        element = b.results[0].element
        result = b.unary("log", b.cast(x, wide(element)))
        return b.cast(b.mul(result, b.scalar(1 / math.log(base), result.element)), element)


_logarithm("log2", 2)
_logarithm("log10", 10)


@lowers("isnan")
def isnan(b: Builder, x: Value) -> Value:
    if not x.is_float:
        return b.full(False, x.shape, "i1")
    return b.emit("is_nan", [x], [Type(x.shape, "i1")], "arrow")[0]


@lowers("isinf")
def isinf(b: Builder, x: Value) -> Value:
    if not x.is_float:
        return b.full(False, x.shape, "i1")
    return b.emit("is_inf", [x], [Type(x.shape, "i1")], "arrow")[0]


@lowers("alias", "clone", "detach", "lift_fresh_copy", "lift_fresh", "contiguous", "prims::view_of")
def identity(b: Builder, x: Value, **_: Any) -> Value:
    return x


@lowers("_to_copy", "prims::convert_element_type")
def convert(b: Builder, x: Value, dtype: torch.dtype | None = None, **_: Any) -> Value:
    element = b.results[0].element
    if element == "i1":
        return b.to_bool(x)
    # Explicit cast of the model: pinned against policies.
    return b.cast(x, element, pinned=x.is_float and is_float(element))


# ===----------------------------------------------------------------------=== #
# Activations
# ===----------------------------------------------------------------------=== #


@lowers("gelu")
def gelu(b: Builder, x: Value, *, approximate: str = "none") -> Value:
    return b.unary("gelu", x, "form(tanh)" if approximate == "tanh" else "")


@lowers("leaky_relu")
def leaky_relu(b: Builder, x: Value, slope: float = 0.01) -> Value:
    return b.unary("leaky_relu", x, f"alpha({f64(slope)})")


@lowers("elu")
def elu(b: Builder, x: Value, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Value:
    if input_scale == 1.0 and scale == 1.0:
        return b.unary("elu", x, f"alpha({f64(alpha)})")
    x = b.cast(x, wide(x.element))
    if input_scale == 1.0:
        result = b.unary("elu", x, f"alpha({f64(alpha)})")
    else:
        low = b.mul(b.unary("expm1", b.mul(x, b.scalar(input_scale, x.element))), b.scalar(alpha, x.element))
        result = b.select(b.compare("gt", x, b.scalar(0, x.element)), x, low)
    return b.rounded(b.mul(result, b.scalar(scale, x.element)))


@lowers("softplus")
def softplus(b: Builder, x: Value, beta: float = 1.0, threshold: float = 20.0) -> Value:
    x = b.cast(x, wide(x.element))
    scaled = x if beta == 1 else b.mul(x, b.scalar(beta, x.element))
    soft = b.unary("softplus", scaled)
    soft = soft if beta == 1 else b.div(soft, b.scalar(beta, x.element))
    return b.rounded(b.select(b.compare("gt", scaled, b.scalar(threshold, x.element)), x, soft))


@lowers("clamp", "clamp.Tensor")
def clamp(b: Builder, x: Value, min: Operand = None, max: Operand = None) -> Value:
    element = b.results[0].element
    x = b.cast(x, element)
    if min is not None:
        x = b.binary("max", x, b.operand(min, element))
    return x if max is None else b.binary("min", x, b.operand(max, element))


@lowers("hardtanh")
def hardtanh(b: Builder, x: Value, low: float = -1.0, high: float = 1.0) -> Value:
    return clamp(b, x, low, high)


@lowers("clamp_min", "clamp_min.Tensor")
def clamp_min(b: Builder, x: Value, low: Operand) -> Value:
    return clamp(b, x, low)


@lowers("clamp_max", "clamp_max.Tensor")
def clamp_max(b: Builder, x: Value, high: Operand) -> Value:
    return clamp(b, x, None, high)


# ===----------------------------------------------------------------------=== #
# Arithmetic
# ===----------------------------------------------------------------------=== #


def _both(b: Builder, x: Operand, y: Operand, element: str | None = None) -> tuple[Value, Value]:
    element = element or b.results[0].element
    return b.operand(x, element), b.operand(y, element)


# For 16-bit tensors eager mode computes in float32 and rounds the result. It also rounds scalars, except
# second operands of `mul` and `div` and factors inside of an op.


def _scaled(b: Builder, text: str, x: Operand, y: Operand) -> Value:
    element = b.results[0].element
    exact = y.rank or y.element == element if isinstance(y, Value) else holds(element, y)
    return b.rounded(b.binary(text, *_both(b, x, y, element if exact else wide(element))))


@lowers("add.Tensor", "add.Scalar")
def add(b: Builder, x: Operand, y: Operand, alpha: float = 1) -> Value:
    return _sum(b, "add", x, y, alpha)


@lowers("sub.Tensor", "sub.Scalar")
def sub(b: Builder, x: Operand, y: Operand, alpha: float = 1) -> Value:
    return _sum(b, "sub", x, y, alpha)


@lowers("rsub.Tensor", "rsub.Scalar")
def rsub(b: Builder, x: Operand, y: Operand, alpha: float = 1) -> Value:
    return _sum(b, "sub", y, x, alpha)


def _sum(b: Builder, text: str, x: Operand, y: Operand, alpha: float) -> Value:
    """x plus or minus alpha times y."""
    element = b.results[0].element
    x, y = _both(b, x, y, element if alpha == 1 else wide(element))
    if alpha != 1:
        y = b.mul(y, b.scalar(alpha, y.element))
    return b.binary("or", x, y) if element == "i1" else b.rounded(b.binary(text, x, y))


@lowers("mul.Tensor", "mul.Scalar")
def mul(b: Builder, x: Operand, y: Operand) -> Value:
    return _scaled(b, "and" if b.results[0].element == "i1" else "mul", x, y)


@lowers("div.Tensor", "div.Scalar", "div.Tensor_mode", "div.Scalar_mode", "true_divide.Tensor")
def div(b: Builder, x: Operand, y: Operand, *, rounding_mode: str | None = None) -> Value:
    if rounding_mode is None:
        return _scaled(b, "div", x, y)
    # A quotient rounded to 16 bits first could reach the next integer.
    x, y = _both(b, x, y, wide(b.results[0].element))
    return b.rounded(trunc(b, b.div(x, y)) if rounding_mode == "trunc" else _floor_divide(b, x, y))


def _floor_divide(b: Builder, x: Value, y: Value) -> Value:
    """The quotient without the remainder is exact, so that rounding down cannot be off by one."""
    zero = b.scalar(0, x.element)
    rest = b.binary("rem", x, y)
    differs = b.binary("xor", b.compare("lt", rest, zero), b.compare("lt", y, zero))
    lower = b.binary("and", b.compare("ne", rest, zero), differs)
    whole = b.div(b.sub(x, rest), y)
    if x.is_float:
        whole = b.unary("round", whole)
    low = b.sub(whole, b.scalar(1, x.element))
    result = b.select(lower, low, whole)
    if x.is_float:
        # Division by zero gives the quotient itself, an infinity or NaN.
        result = b.select(b.compare("eq", y, zero), b.div(x, y), result)
    return result


@lowers("fmod.Tensor", "fmod.Scalar")
def fmod(b: Builder, x: Operand, y: Operand) -> Value:
    return b.binary("rem", *_both(b, x, y))


@lowers("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor")
def remainder(b: Builder, x: Operand, y: Operand) -> Value:
    x, y = _both(b, x, y)
    zero, rest = b.scalar(0, x.element), b.binary("rem", x, y)
    differs = b.binary("xor", b.compare("lt", rest, zero), b.compare("lt", y, zero))
    return b.select(b.binary("and", b.compare("ne", rest, zero), differs), b.add(rest, y), rest)


@lowers("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar")
def power(b: Builder, x: Operand, y: Operand) -> Value:
    element = b.results[0].element
    if isinstance(x, Value) and not isinstance(y, Value):
        # Eager mode multiplies bfloat16 step by step.
        x = b.cast(x, "f32" if element == "f16" and y == 3 else element)
        if y in (1, 2, 3):
            result = x
            for _ in range(int(y) - 1):
                result = b.mul(result, x)
            return b.rounded(result)
        if is_float(element) and y in (0.5, -0.5, -1):
            return b.unary({0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}[y], x)
    if element == "i1":
        raise Unsupported("a power of booleans")
    return b.binary("pow", *_both(b, x, y))


def _enter_binary(text: str, *names: str) -> None:
    @lowers(*names)
    def lower(b: Builder, x: Operand, y: Operand) -> Value:
        return b.binary(text, *_both(b, x, y))


_enter_binary("max", "maximum")
_enter_binary("min", "minimum")
_enter_binary("atan2", "atan2")
for _name in ("and", "or", "xor"):
    _enter_binary(_name, f"bitwise_{_name}.Tensor", f"bitwise_{_name}.Scalar", f"bitwise_{_name}.Scalar_Tensor")


@lowers("bitwise_not")
def bitwise_not(b: Builder, x: Value) -> Value:
    return b.unary("not", x)


# ===----------------------------------------------------------------------=== #
# Logic
# ===----------------------------------------------------------------------=== #


def _enter_logical(name: str) -> None:
    @lowers(f"logical_{name}")
    def lower(b: Builder, x: Value, y: Value) -> Value:
        return b.binary(name, b.to_bool(x), b.to_bool(y))


for _name in ("and", "or", "xor"):
    _enter_logical(_name)


@lowers("logical_not")
def logical_not(b: Builder, x: Value) -> Value:
    return b.unary("not", b.to_bool(x))


def _common(x: Operand, y: Operand) -> str:
    """The type in which PyTorch compares."""
    names = {text: dtype for dtype, text in ELEMENT.items()}
    tensors = [torch.empty((1,) * min(v.rank, 1), dtype=names[v.element], device="meta") if isinstance(v, Value) else v
               for v in (x, y)]
    return ELEMENT[torch.result_type(*tensors)]


def _enter_compare(predicate: str) -> None:
    @lowers(f"{predicate}.Tensor", f"{predicate}.Scalar")
    def lower(b: Builder, x: Operand, y: Operand) -> Value:
        element = _common(x, y)
        if element == "i1":
            element = "i32"
        return b.compare(predicate, *_both(b, x, y, element))


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _enter_compare(_name)


@lowers("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def where(b: Builder, condition: Value, x: Operand, y: Operand) -> Value:
    return b.select(b.to_bool(condition), *_both(b, x, y))


@lowers("copy")
def copy(b: Builder, x: Value, source: Value, non_blocking: bool = False) -> Value:
    return b.broadcast(b.cast(source, x.element), x.shape)
