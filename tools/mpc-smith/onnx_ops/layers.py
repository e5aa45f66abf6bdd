# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reductions, products, convolutions, pools, norms and recurrences."""

import math

import numpy as np

from graph import FLOAT, INT32, INT64, INT8, UINT8, Skip
from movement import shaped
from resample import resize


def reduce(g):
    kind = g.random.choice(["Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSumExp", "LogSum"])
    x = g.pick(where=lambda v: v.size <= 4000)
    axes = sorted(g.random.sample(range(x.rank), g.random.randint(0, x.rank)))
    every = not axes
    count = int(np.prod([x.shape[a] for a in axes] if axes else x.shape))
    if kind == "Prod" and count > 8:
        raise Skip
    x = g.fit(x, 0.25, 2.0) if kind in ("LogSum", "Prod") else g.fit(x, -8.0, 8.0)
    keep = g.random.choice([0, 1])
    gone = range(x.rank) if every else axes
    shape = [1 if i in gone else e for i, e in enumerate(x.shape)]
    if not keep:
        shape = [e for i, e in enumerate(x.shape) if i not in gone]
    bound = max(-x.low, x.high)
    low, high = {"Sum": (x.low * count, x.high * count), "Mean": (x.low, x.high), "Max": (x.low, x.high),
                 "Min": (x.low, x.high), "Prod": (0, 2.0 ** min(count, 8)), "L1": (0, bound * count),
                 "L2": (0, bound * math.sqrt(count)), "SumSquare": (0, bound * bound * count),
                 "LogSumExp": (x.low, x.high + math.log(count)),
                 "LogSum": (math.log(0.2), math.log(bound * count + 1))}[kind]
    attributes, operands = {"keepdims": keep}, [x]
    if axes:
        written = [a - x.rank if g.opset >= 11 and g.chance(0.3) else a for a in axes]
        if g.opset >= (13 if kind == "Sum" else 18):
            operands.append(g.integers(*written))
        else:
            attributes["axes"] = written
    g.emit("Reduce" + kind, operands, shape, low, high, exact=x.exact and kind in ("Max", "Min"), **attributes)


def arg(g):
    x = g.pick(exact=True, least_rank=1)
    axis, written = g.axis(x.rank)
    keep = g.random.choice([0, 1])
    shape = [1 if i == axis else e for i, e in enumerate(x.shape)]
    if not keep:
        del shape[axis]
    attributes = {"select_last_index": 1} if g.opset >= 12 and g.chance(0.4) else {}
    g.emit(g.random.choice(["ArgMax", "ArgMin"]), [x], shape, 0, x.shape[axis] - 1, INT64, True, axis=written,
           keepdims=keep, **attributes)


def top_k(g):
    x = g.pick(exact=True, least_rank=1)
    axis, written = g.axis(x.rank)
    k = g.random.randint(1, x.shape[axis])
    shape = list(x.shape)
    shape[axis] = k
    operands, attributes = [x], {"axis": written}
    if g.opset < 10:
        attributes["k"] = k
    else:
        operands.append(g.integers(k))
    if g.opset >= 11:
        attributes["largest"] = g.random.choice([0, 1])
    g.emit_many("TopK", operands, [(shape, x.low, x.high, FLOAT, True),
                                   (shape, 0, x.shape[axis] - 1, INT64, True)], **attributes)


def cumulate(g):
    if g.opset < 11:
        raise Skip
    x = g.pick(least_rank=1, where=lambda v: max(v.shape) <= 40)
    axis, written = g.axis(x.rank)
    n = x.shape[axis]
    g.emit("CumSum", [x, g.constant(np.int64(written))], x.shape, min(n * x.low, 0), max(n * x.high, 0),
           exclusive=g.random.choice([0, 0, 1]), reverse=g.random.choice([0, 0, 1]))


def softmax(g):
    x = g.fit(g.pick(least_rank=1), -20.0, 20.0)
    kind = g.random.choice(["Softmax", "LogSoftmax", "Hardmax"])
    if kind == "Hardmax" and not x.exact:
        raise Skip
    axis, written = g.axis(x.rank)
    low, high = (-60, 0) if kind == "LogSoftmax" else (0, 1)
    g.emit(kind, [x], x.shape, low, high, exact=kind == "Hardmax", axis=written)


def matmul(g):
    x = g.fit(g.pick(least_rank=1, where=lambda v: v.shape[-1] <= 256), -8.0, 8.0)
    k, n = x.shape[-1], g.random.choice([1, 2, 5, 8, 16, 17, 33, 64])
    lead = ()
    if x.rank > 2 and g.chance(0.5):
        lead = tuple(1 if g.chance(0.3) else e for e in x.shape[g.random.randint(0, x.rank - 2):-2])
    if g.chance(0.15):
        y, shape = g.parameter((k,)), x.shape[:-1]
    else:
        y = g.parameter(lead + (k, n))
        if x.rank == 1:
            shape = lead + (n,)
        else:
            shape = np.broadcast_shapes(x.shape[:-2], lead) + (x.shape[-2], n)
    bound = k * max(-x.low, x.high)
    g.emit("MatMul", [x, y], shape, -bound, bound)


def gemm(g):
    m, k, n = (g.random.choice([1, 2, 7, 16, 33]) for _ in range(3))
    flip_a, flip_b = g.random.choice([0, 1]), g.random.choice([0, 1])
    a = g.fit(shaped(g, (k, m) if flip_a else (m, k)), -8.0, 8.0)
    b = g.parameter((n, k) if flip_b else (k, n))
    operands = [a, b]
    if g.opset < 11 or g.chance(0.7):
        operands.append(g.parameter(g.random.choice([(), (1,), (n,), (1, n), (m, 1), (m, n)])))
    alpha, beta = g.random.choice([1.0, 0.5]), g.random.choice([1.0, 2.0])
    bound = k * max(-a.low, a.high) + 2
    g.emit("Gemm", operands, (m, n), -bound, bound, transA=flip_a, transB=flip_b, alpha=alpha, beta=beta)


def einsum(g):
    if g.opset < 12:
        raise Skip
    letters = g.random.sample("abcdefg", 4)
    sizes = dict(zip(letters, (g.random.choice([1, 2, 3, 5, 8]) for _ in letters)))
    terms = [g.random.sample(letters, g.random.randint(1, 4)) for _ in range(2)]
    present = sorted(set(terms[0] + terms[1]))
    result = g.random.sample(present, g.random.randint(0, min(4, len(present))))
    operands = [g.fit(shaped(g, tuple(sizes[i] for i in terms[0])), -4.0, 4.0),
                g.parameter(tuple(sizes[i] for i in terms[1]))]
    bound = 4 * int(np.prod([sizes[i] for i in present if i not in result]))
    g.emit("Einsum", operands, tuple(sizes[i] for i in result), -bound, bound,
           equation=f"{''.join(terms[0])},{''.join(terms[1])}->{''.join(result)}")


def window(g, extents, kind):
    """(output extents, attributes) of a sliding window over `extents`; raises if it does not fit."""
    kernel = [g.random.choice([1, 2, 3, 3, 5]) for _ in extents]
    strides = [g.random.choice([1, 1, 2, 3]) for _ in extents]
    can_dilate = kind == "Conv" or (kind == "MaxPool" and g.opset >= 10) or (kind == "AveragePool" and
                                                                            g.opset >= 19)
    dilations = [g.random.choice([1, 1, 2]) if can_dilate else 1 for _ in extents]
    attributes = {"kernel_shape": kernel}
    if g.chance(0.7) or any(s != 1 for s in strides):
        attributes["strides"] = strides
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
    if g.chance(0.2):
        dilations, reach = [1] * len(extents), kernel
        mode = g.random.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])
        attributes["auto_pad"] = mode
        if mode == "VALID":
            shape = [-((k - 1 - e) // s) for e, k, s in zip(extents, reach, strides)]
        else:
            shape = [-(-e // s) for e, s in zip(extents, strides)]
        if min(shape) < 1 or any(mode == "VALID" and e < r for e, r in zip(extents, reach)):
            raise Skip
        # Where the stride leaves gaps, SAME pads nothing in TensorFlow and here. ONNX Runtime starts inside
        # the image for some ops and rejects others; ONNX's reference does neither.
        if mode != "VALID" and any((o - 1) * s + r < e for e, r, s, o in zip(extents, reach, strides, shape)):
            raise Skip
        return shape, attributes
    pads = [[g.random.randint(0, (r - 1) // 2 if kind != "Conv" else r - 1) for r in reach] for _ in range(2)]
    if any(d != 1 for d in dilations):
        attributes["dilations"] = dilations
    if any(pads[0] + pads[1]):
        attributes["pads"] = pads[0] + pads[1]
    ceil = kind != "Conv" and g.opset >= 10 and g.chance(0.2)
    shape = []
    for e, r, s, a, b in zip(extents, reach, strides, *pads):
        room = e + a + b - r
        if room < 0:
            raise Skip
        extent = (room + s - 1) // s + 1 if ceil else room // s + 1
        if ceil and (extent - 1) * s >= e + a:
            extent -= 1
        shape.append(extent)
    if ceil:
        attributes["ceil_mode"] = 1
    return shape, attributes


def spatial(g, channels):
    rank = g.random.choice([1, 2, 2, 2, 3])
    extents = tuple(g.random.choice([1, 3, 5, 8, 11] if rank < 3 else [2, 3, 5]) for _ in range(rank))
    found = [v for v in g.values if v.type == FLOAT and 3 <= v.rank <= 5 and 0 < v.size <= 6000 and
             v.shape[1] % channels == 0]
    if found and g.chance(0.8):
        return g.random.choice(found)
    return shaped(g, (g.random.choice([1, 1, 2]), channels * g.random.choice([1, 2, 3])) + extents)


def conv(g):
    groups = g.random.choice([1, 1, 1, 2, 4])
    x = g.fit(spatial(g, groups), -8.0, 8.0)
    channels = x.shape[1]
    if g.chance(0.2):
        groups = channels
    if channels > 64:
        raise Skip
    features = groups * g.random.choice([1, 2, 3, 8])
    extents, attributes = window(g, x.shape[2:], "Conv")
    kernel = attributes["kernel_shape"]
    weights = g.parameter((features, channels // groups, *kernel))
    operands = [x, weights] + ([g.parameter((features,))] if g.chance(0.6) else [])
    if g.chance(0.3):
        del attributes["kernel_shape"]
    bound = max(-x.low, x.high) * channels // groups * int(np.prod(kernel)) + 1
    g.emit("Conv", operands, (x.shape[0], features, *extents), -bound, bound, group=groups, **attributes)


def conv_transpose(g):
    groups = g.random.choice([1, 1, 2])
    x = g.fit(spatial(g, groups), -8.0, 8.0)
    channels, rank = x.shape[1], x.rank - 2
    if channels > 32:
        raise Skip
    features = g.random.choice([1, 2, 5])
    kernel = [g.random.choice([1, 2, 3]) for _ in range(rank)]
    strides = [g.random.choice([1, 2, 3]) for _ in range(rank)]
    dilations = [g.random.choice([1, 1, 2]) for _ in range(rank)]
    pads = [[g.random.choice([0, 0, 1]) for _ in range(rank)] for _ in range(2)]
    extra = [g.random.randrange(max(s, 1)) if g.chance(0.4) else 0 for s in strides]
    extents = [(e - 1) * s + o + (k - 1) * d + 1 - a - b
               for e, s, o, k, d, a, b in zip(x.shape[2:], strides, extra, kernel, dilations, *pads)]
    if min(extents) < 1:
        raise Skip
    operands = [x, g.parameter((channels, features, *kernel))]
    if g.chance(0.5):
        operands.append(g.parameter((features * groups,)))
    bound = max(-x.low, x.high) * channels // groups * int(np.prod(kernel)) + 1
    g.emit("ConvTranspose", operands, (x.shape[0], features * groups, *extents), -bound, bound, group=groups,
           kernel_shape=kernel, strides=strides, dilations=dilations, pads=pads[0] + pads[1], output_padding=extra)


def pool(g):
    kind = g.random.choice(["MaxPool", "AveragePool", "LpPool", "GlobalMaxPool", "GlobalAveragePool"])
    x = spatial(g, 1)
    if kind.startswith("Global"):
        g.emit(kind, [x], x.shape[:2] + (1,) * (x.rank - 2), x.low, x.high, exact=x.exact and kind == "GlobalMaxPool")
        return
    extents, attributes = window(g, x.shape[2:], kind if kind != "LpPool" else "")
    attributes.pop("ceil_mode", None) if kind == "LpPool" else None
    shape = x.shape[:2] + tuple(extents)
    if kind == "LpPool":
        # ceil_mode was added later than its other attributes.
        _, kernel = None, attributes["kernel_shape"]
        if "auto_pad" not in attributes:
            pads = attributes.get("pads", [0] * 2 * len(kernel))
            strides = attributes.get("strides", [1] * len(kernel))
            shape = x.shape[:2] + tuple((e + pads[i] + pads[i + len(kernel)] - kernel[i]) // strides[i] + 1
                                        for i, e in enumerate(x.shape[2:]))
        attributes["p"] = g.random.choice([1, 2])
        g.emit(kind, [x], shape, 0, max(-x.low, x.high) * int(np.prod(kernel)), **attributes)
        return
    if kind == "MaxPool" and any(d != 1 for d in attributes.get("dilations", [])) and "pads" in attributes:
        # A window may be all padding: -infinity, but the lowest finite number in ONNX Runtime.
        raise Skip
    if kind == "AveragePool":
        attributes["count_include_pad"] = g.random.choice([0, 1])
    g.emit(kind, [x], shape, min(x.low, 0), max(x.high, 0), exact=x.exact and kind == "MaxPool", **attributes)


def norm(g):
    kind = g.random.choice(["Batch", "Instance", "Layer", "Group", "LpNormalization", "LRN", "MeanVariance"])
    x = g.pick(least_rank=3 if kind in ("Batch", "Instance", "Group", "LRN", "MeanVariance") else 1,
               where=lambda v: v.rank < 5 or kind != "MeanVariance")
    if kind in ("Instance", "Group", "MeanVariance") and np.prod(x.shape[2:]) < 2:
        raise Skip
    channels = x.shape[1] if x.rank > 1 else 1
    if kind == "Batch":
        weights = [g.parameter((channels,)), g.parameter((channels,)), g.parameter((channels,)),
                   g.constant(g.numbers.uniform(0.5, 2, (channels,)).astype(np.float32))]
        g.emit("BatchNormalization", [x, *weights], x.shape, 2 * x.low - 3, 2 * x.high + 3, epsilon=1e-3)
    elif kind == "Instance":
        g.emit("InstanceNormalization", [x, g.parameter((channels,)), g.parameter((channels,))], x.shape, -12, 12,
               epsilon=0.01)
    elif kind == "Group":
        if g.opset < 18:
            raise Skip
        groups = g.random.choice([d for d in range(1, channels + 1) if channels % d == 0])
        count = channels if g.opset >= 21 else groups
        g.emit("GroupNormalization", [x, g.parameter((count,)), g.parameter((count,))], x.shape, -12, 12,
               num_groups=groups, epsilon=0.01)
        # ONNX Runtime expands the op's function, whose variance is a difference of squares: far from 0, only
        # rounding error remains of it.
        name = next(node for node in reversed(g.nodes) if node.op_type == "GroupNormalization").output[0]
        variance_error = 8 * 2.0**-24 * max(-x.low, x.high)**2
        g.coarse[name] = 12 * min(1.0, variance_error / 2 / 0.01), x.shape
    elif kind == "Layer":
        if g.opset < 17:
            raise Skip
        axis = g.random.randrange(x.rank)
        shape = x.shape[axis:]
        operands = [x, g.parameter(shape)] + ([g.parameter(shape)] if g.chance(0.7) else [])
        g.emit("LayerNormalization", operands, x.shape, -12, 12, axis=axis - x.rank if g.chance(0.4) else axis,
               epsilon=0.01)
    elif kind == "LpNormalization":
        if g.opset >= 22:
            raise Skip  # the result for a zero vector has changed between versions
        x = g.fit(x, 0.5, 8.0)
        g.emit(kind, [x], x.shape, 0, 1, axis=g.random.randrange(x.rank), p=g.random.choice([1, 2]))
    elif kind == "LRN":
        g.emit(kind, [x], x.shape, min(x.low, 0), max(x.high, 0), size=g.random.choice([1, 3, 5]), bias=1.0, alpha=0.01)
    else:
        if g.opset < 9:
            raise Skip
        if x.rank != 4:
            raise Skip
        x = g.input(FLOAT, x.shape)
        g.emit("MeanVarianceNormalization", [x], x.shape, -12, 12)


def recurrent(g):
    kind = g.random.choice(["RNN", "GRU", "LSTM"])
    steps, batch, width, hidden = (g.random.choice([1, 2, 3, 5, 8]) for _ in range(4))
    x = g.fit(shaped(g, (steps, batch, width)), -4.0, 4.0)
    direction = g.random.choice(["forward", "reverse", "bidirectional"])
    ways = 2 if direction == "bidirectional" else 1
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]
    operands = [x, g.parameter((ways, gates * hidden, width)), g.parameter((ways, gates * hidden, hidden))]
    operands.append(g.parameter((ways, 2 * gates * hidden)) if g.chance(0.6) else None)
    # Per-sequence lengths are not supported.
    operands.append(g.constant(np.full((batch,), steps, np.int32)) if g.chance(0.2) else None)
    operands.append(g.parameter((ways, batch, hidden)) if g.chance(0.4) else None)
    while operands[-1] is None:
        operands.pop()
    attributes = {"linear_before_reset": g.random.choice([0, 1])} if kind == "GRU" else {}
    state = ((ways, batch, hidden), -2, 2, FLOAT, False)
    results = [((steps, ways, batch, hidden), -2, 2, FLOAT, False), state]
    if kind == "LSTM":
        results.append(((ways, batch, hidden), -10, 10, FLOAT, False))
    g.emit_many(kind, operands, results, hidden_size=hidden, direction=direction, **attributes)


def integer_product(g):
    if g.opset < 10:
        raise Skip
    m, k, n = (g.random.choice([1, 3, 16, 33]) for _ in range(3))
    types = [g.random.choice([INT8, UINT8]), g.random.choice([INT8, UINT8])]
    a = g.input(types[0], (m, k), 0 if types[0] == UINT8 else -128, 255 if types[0] == UINT8 else 127)
    b = g.constant(g.numbers.integers(*((0, 256) if types[1] == UINT8 else (-128, 128)), (k, n)).astype(types[1]))
    operands = [a, b]
    if g.chance(0.6):
        operands.append(g.constant(np.array(g.random.randint(0, 100), types[0])))
        if g.chance(0.6):
            operands.append(g.constant(np.array(g.random.randint(0, 100), types[1])))
    g.emit("MatMulInteger", operands, (m, n), -1 << 20, 1 << 20, INT32, True)


OPS = [reduce, reduce, reduce, arg, top_k, cumulate, softmax, softmax, matmul, matmul, gemm, einsum, conv, conv,
       conv_transpose, pool, pool, norm, norm, recurrent, resize, integer_product]
