# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Matmul and attention."""

from __future__ import annotations

import math

from .builder import Builder, Operand, Type, Unsupported, Value, f64, is_narrow, lowers, wide

# ===----------------------------------------------------------------------=== #
# Products
# ===----------------------------------------------------------------------=== #


def accumulate(element: str) -> str:
    """16-bit matmuls accumulate in f32 and round once."""
    return "accumulate(f32)" if is_narrow(element) else ""


def product(b: Builder, x: Value, y: Value, element: str | None = None) -> Value:
    """Matmul with the operands' element type, or the wider accumulator type."""
    if not x.is_float:
        return _integer_product(b, x, y)
    kind = Type(x.shape[:-1] + y.shape[-1:], element or x.element)
    return b.emit("matmul", [x, y], [kind], after=accumulate(kind.element))[0]


def _integer_product(b: Builder, x: Value, y: Value) -> Value:
    """Integer matmul, which has no kernel, as a sum of products."""
    if x.element == "i1":
        raise Unsupported("a matmul of booleans")
    left = b.reshape(x, x.shape + (1,))
    right = b.reshape(y, y.shape[:-2] + (1,) + y.shape[-2:])
    return b.reduce("reduce_sum", b.mul(left, right), [left.rank - 2])


@lowers("mm", "bmm")
def matmul(b: Builder, x: Value, y: Value) -> Value:
    return product(b, x, y)


def _sum(b: Builder, bias: Value, result: Value, beta: float, alpha: float) -> Value:
    """`beta * bias + alpha * result`, computed in the type of `result` and rounded once."""
    if alpha != 1:
        result = b.mul(result, b.scalar(alpha, result.element))
    if beta != 0:
        bias = b.cast(bias, result.element)
        result = b.add(result, bias if beta == 1 else b.mul(bias, b.scalar(beta, bias.element)))
    return b.rounded(result)


@lowers("addmm", "baddbmm")
def addmm(b: Builder, bias: Value, x: Value, y: Value, *, beta: float = 1, alpha: float = 1) -> Value:
    return _sum(b, bias, product(b, x, y, wide(x.element)), beta, alpha)


@lowers("addbmm")
def addbmm(b: Builder, bias: Value, x: Value, y: Value, *, beta: float = 1, alpha: float = 1) -> Value:
    # The batch dimension is reduced with k.
    rows = b.reshape(b.transpose(x, [1, 0, 2]), (x.shape[1], x.shape[0] * x.shape[2]))
    columns = b.reshape(y, (y.shape[0] * y.shape[1], y.shape[2]))
    return addmm(b, bias, rows, columns, beta=beta, alpha=alpha)


@lowers("addmv")
def addmv(b: Builder, bias: Value, x: Value, y: Value, *, beta: float = 1, alpha: float = 1) -> Value:
    result = product(b, x, b.reshape(y, y.shape + (1,)), wide(x.element))
    return _sum(b, bias, b.reshape(result, x.shape[:1]), beta, alpha)


@lowers("addr")
def addr(b: Builder, bias: Value, x: Value, y: Value, *, beta: float = 1, alpha: float = 1) -> Value:
    if b.results[0].element == "i1":
        raise Unsupported("a product of booleans")
    x, y = (b.cast(v, wide(b.results[0].element)) for v in (x, y))
    return _sum(b, bias, b.mul(b.reshape(x, x.shape + (1,)), y), beta, alpha)


@lowers("mv")
def mv(b: Builder, x: Value, y: Value) -> Value:
    return b.reshape(product(b, x, b.reshape(y, y.shape + (1,))), x.shape[:1])


@lowers("dot")
def dot(b: Builder, x: Value, y: Value) -> Value:
    return b.reshape(product(b, b.reshape(x, (1,) + x.shape), b.reshape(y, y.shape + (1,))), ())


@lowers("_trilinear")
def trilinear(b: Builder, first: Value, second: Value, third: Value, expand1: list[int], expand2: list[int],
              expand3: list[int], sums: list[int], unroll: int = 1) -> Value:
    rank = first.rank + len(expand1)
    factors = []
    for value, places in ((first, expand1), (second, expand2), (third, expand3)):
        extents = iter(value.shape)
        factors.append(b.reshape(value, [1 if i in places else next(extents) for i in range(rank)]))
    return b.reduce("reduce_sum", b.mul(b.mul(factors[0], factors[1]), factors[2]), sums)


@lowers("_cdist_forward")
def distances(b: Builder, x: Value, y: Value, p: float, mode: int | None) -> Value:
    if p not in (1, 2):
        raise Unsupported("distances of this norm")
    left, right = b.reshape(x, x.shape[:-1] + (1, x.shape[-1])), b.reshape(y, y.shape[:-2] + (1,) + y.shape[-2:])
    apart = b.sub(left, right)
    if p == 1:
        return b.reduce("reduce_sum", b.unary("abs", apart), [apart.rank - 1])
    return b.unary("sqrt", b.reduce("reduce_sum", b.mul(apart, apart), [apart.rank - 1]))


# ===----------------------------------------------------------------------=== #
# Attention
# ===----------------------------------------------------------------------=== #


def _form(query: Value, mask: Value | None, causal: bool, scale: float | None) -> str:
    factor = scale if scale is not None else 1 / math.sqrt(query.shape[-1])
    return ("mask({}) " if mask is not None else "") + f"scale({f64(factor)})" + (" causal" if causal else "")


def _masks(b: Builder, query: Value, key: Value, mask: Value | None, dropout: float,
           causal: bool) -> tuple[Value | None, bool]:
    """The mask, and whether the op is also causal."""
    if dropout:
        raise Unsupported("dropout inside attention")
    if mask is not None and is_narrow(mask.element):
        mask = b.cast(mask, "f32")
    if not causal or query.shape[-2] == key.shape[-2]:
        return mask, causal
    # PyTorch's causal mask is aligned at the first query and key, mpc's at the last.
    seen = _lower_triangle(b, (query.shape[-2], key.shape[-2]))
    if mask is None:
        return seen, False
    hidden = b.scalar(False, "i1") if mask.element == "i1" else b.scalar(-math.inf, mask.element)
    return b.select(seen, mask, hidden), False


def _lower_triangle(b: Builder, shape: tuple[int, ...]) -> Value:
    return b.compare("ge", b.iota(shape, 0), b.iota(shape, 1))


@lowers("_scaled_dot_product_flash_attention_for_cpu")
def attention(b: Builder, query: Value, key: Value, value: Value, dropout: float = 0.0, causal: bool = False, *,
              attn_mask: Value | None = None, scale: float | None = None) -> tuple[Value, Value | None]:
    attn_mask, causal = _masks(b, query, key, attn_mask, dropout, causal)
    masks = [] if attn_mask is None else [attn_mask]
    result = b.emit("attention {}, {}, {} " + _form(query, attn_mask, causal, scale), [query, key, value, *masks],
                    [Type(query.shape[:-1] + value.shape[-1:], query.element)])[0]
    return result, _log_sum(b, query, key, causal, masks, scale) if b.used[1] else None


def _log_sum(b: Builder, query: Value, key: Value, causal: bool, masks: list[Value], scale: float | None) -> Value:
    """Log-sum-exp of each row of scores, for an eager-mode backward pass."""
    work = wide(query.element)
    query, key = b.cast(query, work), b.cast(key, work)
    factor = scale if scale is not None else 1 / math.sqrt(query.shape[-1])
    order = list(range(key.rank - 2)) + [key.rank - 1, key.rank - 2]
    scores = b.mul(product(b, query, b.transpose(key, order)), b.scalar(factor, work))
    lowest = b.scalar(-math.inf, work)
    for mask in masks:
        scores = (b.select(mask, scores, lowest) if mask.element == "i1" else b.add(scores, b.cast(mask, work)))
    if causal:
        scores = b.select(_lower_triangle(b, scores.shape[-2:]), scores, lowest)
    axis = scores.rank - 1
    most = b.reduce("reduce_max", scores, [axis], True)
    sums = b.reduce("reduce_sum", b.unary("exp", b.sub(scores, most)), [axis])
    return b.cast(b.add(b.unary("log", sums), b.reshape(most, sums.shape)), b.results[1].element)


@lowers("_scaled_dot_product_flash_attention_for_cpu_backward")
def attention_backward(b: Builder, gradient: Value, query: Value, key: Value, value: Value, result: Operand,
                       log_sum: Operand, dropout: float, causal: bool, *, attn_mask: Value | None = None,
                       scale: float | None = None) -> tuple[Value, ...]:
    attn_mask, causal = _masks(b, query, key, attn_mask, dropout, causal)
    masks = [] if attn_mask is None else [attn_mask]
    return tuple(b.emit("attention_gradient {}, {}, {}, {} " + _form(query, attn_mask, causal, scale),
                        [query, key, value, gradient, *masks], [query.type, key.type, value.type]))


# On a GPU PyTorch calls the op of the kernel that eager mode would select.


def _on_gpu(b: Builder, query: Value, key: Value, value: Value, mask: Value | None, dropout: float, causal: bool,
            scale: float | None) -> tuple[Value | None, ...]:
    if b.used[1]:
        raise Unsupported("the log-sum-exp output of attention, which is used")
    result, _ = attention(b, query, key, value, dropout, causal, attn_mask=mask, scale=scale)
    return (result, *[None] * (len(b.results) - 1))


@lowers("_scaled_dot_product_flash_attention")
def flash_attention(b: Builder, query: Value, key: Value, value: Value, dropout: float = 0.0, causal: bool = False,
                    debug: bool = False, *, scale: float | None = None) -> tuple[Value | None, ...]:
    return _on_gpu(b, query, key, value, None, dropout, causal, scale)


@lowers("_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention")
def biased_attention(b: Builder, query: Value, key: Value, value: Value, bias: Value | None, sums: bool,
                     dropout: float = 0.0, causal: bool = False, debug: bool = False, *,
                     scale: float | None = None) -> tuple[Value | None, ...]:
    return _on_gpu(b, query, key, value, bias, dropout, causal, scale)


@lowers("_scaled_dot_product_flash_attention_backward")
def flash_backward(b: Builder, gradient: Value, query: Value, key: Value, value: Value, result: Operand,
                   log_sum: Operand, first_query: Operand, first_key: Operand, most_queries: Operand,
                   most_keys: Operand, dropout: float, causal: bool, *draws: Operand,
                   scale: float | None = None) -> tuple[Value, ...]:
    return attention_backward(b, gradient, query, key, value, None, None, dropout, causal, scale=scale)


@lowers("_scaled_dot_product_efficient_attention_backward")
def efficient_backward(b: Builder, gradient: Value, query: Value, key: Value, value: Value, bias: Value | None,
                       result: Operand, log_sum: Operand, seed: Operand, offset: Operand, dropout: float,
                       wanted: list[bool], causal: bool = False, *,
                       scale: float | None = None) -> tuple[Value | None, ...]:
    if wanted[3]:
        raise Unsupported("a gradient of an attention's mask")
    return (*attention_backward(b, gradient, query, key, value, None, None, dropout, causal, attn_mask=bias,
                                scale=scale), None)


@lowers("_scaled_dot_product_cudnn_attention_backward")
def cudnn_backward(b: Builder, gradient: Value, query: Value, key: Value, value: Value, result: Operand,
                   log_sum: Operand, seed: Operand, offset: Operand, bias: Value | None, first_query: Operand,
                   first_key: Operand, most_queries: Operand, most_keys: Operand, dropout: float, causal: bool, *,
                   scale: float | None = None) -> tuple[Value, ...]:
    return attention_backward(b, gradient, query, key, value, None, None, dropout, causal, attn_mask=bias,
                              scale=scale)
