# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention in exporters' forms and ONNX Runtime's operators; interpolation; determinants."""

import math

import numpy as np

from graph import FLOAT, Skip
from movement import moved, shaped


def attention(g):
    """Decomposed attention as exporters write it: scores, mask, softmax, values."""
    batch, heads, rows, keys, width = g.random.choice([1, 2]), g.random.choice([1, 2, 3]), *(
        g.random.choice([1, 3, 8, 17]) for _ in range(2)), g.random.choice([1, 4, 8, 16])
    q = g.fit(shaped(g, (batch, heads, rows, width)), -4.0, 4.0)
    k = g.input(FLOAT, (batch, heads, keys, width))
    v = g.input(FLOAT, (batch, heads, keys, width))
    turned = moved(g, "Transpose", [k], (batch, heads, width, keys), k, perm=[0, 1, 3, 2])
    scores = g.emit("MatMul", [q, turned], (batch, heads, rows, keys), -12 * width, 12 * width)
    scale = g.constant(np.float32(1 / math.sqrt(width)))
    scores = g.emit("Mul", [scores, scale], scores.shape, scores.low, scores.high)
    if g.chance(0.5):
        mask = g.parameter(g.random.choice([(rows, keys), (batch, 1, 1, keys), (1, heads, rows, keys)]), -4, 0)
        scores = g.emit("Add", [scores, mask], scores.shape, scores.low - 4, scores.high)
    weights = g.emit("Softmax", [scores], scores.shape, 0, 1, axis=-1 if g.opset >= 11 else 3)
    g.emit("MatMul", [weights, v], (batch, heads, rows, width), v.low, v.high)


def group_query_attention(g):
    """Prefill, or a decoding step with a cache."""
    groups, width = g.random.choice([1, 2]), 16
    heads = groups * g.random.choice([1, 2, 3])
    batch, past = g.random.choice([1, 2]), g.random.choice([0, 0, 3, 7])
    new = 1 if past else g.random.choice([1, 5, 9])
    total = past + new
    if g.chance(0.3):
        q = shaped(g, (batch, new, (heads + 2 * groups) * width))
        operands, low, high = [q, None, None], q.low, q.high
    else:
        q = g.fit(shaped(g, (batch, new, heads * width)), -4.0, 4.0)
        k, v = (g.input(FLOAT, (batch, new, groups * width)) for _ in range(2))
        operands, low, high = [q, k, v], v.low, v.high
    if max(-q.low, q.high) > 4.0:
        raise Skip
    # All samples have one length: ONNX does not specify the elements after a shorter one.
    operands += [g.input(FLOAT, (batch, groups, past, width)) if past else None for _ in range(2)]
    operands += [g.constant(np.full(batch, total - 1, np.int32)), g.constant(np.array(total, np.int32))]
    attributes = {"num_heads": heads, "kv_num_heads": groups}
    if g.chance(0.5):
        angles = np.arange(total + 3)[:, None] / 8 * np.arange(1, 9)[None]
        operands += [g.constant(np.cos(angles).astype(np.float32)), g.constant(np.sin(angles).astype(np.float32))]
        attributes.update(do_rotary=1, rotary_interleaved=g.random.choice([0, 1]))
    if g.chance(0.3):
        attributes["local_window_size"] = g.random.randint(1, total)
    if g.chance(0.3):
        attributes["softcap"] = g.random.choice([1.0, 4.0])
    low, high = min(low, -3), max(high, 3)
    # Rotary embedding may scale an element by up to the root of 2.
    cache = ((batch, groups, total, width), 1.5 * min(low, -high), 1.5 * max(high, -low), FLOAT, False)
    g.emit_many("GroupQueryAttention", operands, [((batch, new, heads * width), low, high, FLOAT, False), cache, cache],
                domain="com.microsoft", **attributes)


def roi_align(g):
    if g.opset < 10 or g.opset >= 22:  # not supported by ONNX Runtime
        raise Skip
    x = g.pick(rank=4, where=lambda v: v.size < 1000)
    count, bins = g.random.randint(1, 3), [g.random.randint(1, 3) for _ in range(2)]
    corners = g.numbers.uniform(-1, max(x.shape[2:]), (count, 2))
    rois = np.concatenate([corners, corners + g.numbers.uniform(0, 8, (count, 2))], 1).astype(np.float32)
    of = g.constant(np.array([g.random.randrange(x.shape[0]) for _ in range(count)], np.int64))
    attributes = {"coordinate_transformation_mode": g.random.choice(["half_pixel", "output_half_pixel"])}
    g.emit("RoiAlign", [x, g.constant(rois), of], (count, x.shape[1], *bins), min(x.low, 0), max(x.high, 0),
           mode=g.random.choice(["avg", "max"]), output_height=bins[0], output_width=bins[1],
           sampling_ratio=g.random.randint(0, 2), **(attributes if g.opset >= 16 else {}))


def deform_conv(g):
    if g.opset < 19:
        raise Skip
    x = g.fit(g.pick(rank=4, where=lambda v: v.size < 1000 and min(v.shape[2:]) >= 3 and v.shape[1] < 20), -4.0, 4.0)
    kernel, features = [g.random.randint(1, 3) for _ in range(2)], g.random.choice([1, 3, 8])
    shape = tuple(e - k + 1 for e, k in zip(x.shape[2:], kernel))
    window = kernel[0] * kernel[1]
    operands = [x, g.parameter((features, x.shape[1], *kernel)), g.input(FLOAT, (x.shape[0], 2 * window, *shape)),
                g.parameter((features,)) if g.chance(0.5) else None]
    if g.chance(0.5):
        operands.append(g.input(FLOAT, (x.shape[0], window, *shape), 0, 1))
    bound = 4 * x.shape[1] * window + 1
    g.emit("DeformConv", operands if operands[-1] else operands[:3], (x.shape[0], features, *shape), -bound, bound)


def det(g):
    if g.opset < 11:
        raise Skip
    rows = g.random.randint(1, 4)
    # Far from singular, so that the determinant is well conditioned.
    x = g.input(FLOAT, (*g.extents(g.random.randint(0, 2), 20), rows, rows), -1, 1)
    x = g.emit("Add", [x, g.constant(5 * np.eye(rows, dtype=np.float32))], x.shape, -1, 6)
    g.emit("Det", [x], x.shape[:-2], 0, 9.0 ** rows)


OPS = [attention, attention, group_query_attention, group_query_attention, roi_align, deform_conv, det]
