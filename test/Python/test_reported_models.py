# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small models modelled on user reports about graph compilers, against NumPy in float64."""

import math
import pathlib
import subprocess
import sys
from fractions import Fraction

import mpc
import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
ml_dtypes = pytest.importorskip("ml_dtypes")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

FLOATS = ("float32", "mixed_float16", "mixed_bfloat16")
# Relative to the largest element.
BOUND = {"float32": 2e-5, "mixed_float16": 5e-3, "mixed_bfloat16": 3e-2}
EXACT = dict.fromkeys(FLOATS, 0)
CASES = {}


def case(function):
    """Registers a function that returns nodes, inputs, initializers, expected outputs and more, by its name."""
    CASES[function.__name__] = function
    return function


def N(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs.split(","), outputs.split(","), name=f"{op}_{outputs}", **attributes)


def G(nodes, outputs, inputs=(), constants=None):
    """The body of an If or a Loop."""
    return helper.make_graph(nodes, "body", list(inputs), [helper.make_empty_tensor_value_info(name) for name in outputs],
                             [numpy_helper.from_array(np.asarray(a), name) for name, a in (constants or {}).items()])


def numbers(*shape, seed=0, dtype="f4"):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# ===----------------------------------------------------------------------=== #
# Norms, sums and attention out of primitive nodes
# ===----------------------------------------------------------------------=== #


def _hidden():
    """Rows near 300, whose squares no float16 holds, one of them constant."""
    x, w = numbers(8, 64), numbers(64, 256, seed=1) * 40
    x[3] = 0
    return x, w, x.astype("f8") @ w + 7


@case
def layer_norm_of_large_rows():
    x, w, h = _hidden()
    d = h - h.mean(-1, keepdims=True)
    variance = (d * d).mean(-1, keepdims=True)
    nodes = [N("MatMul", "x,w", "xw"), N("Add", "xw,b", "h"), N("ReduceMean", "h", "mu", axes=[-1]), N("Sub", "h,mu", "d"),
             N("Mul", "d,d", "sq"), N("ReduceMean", "sq", "variance", axes=[-1]), N("Min", "variance,inf", "v1"),
             N("Max", "v1,zero", "v2"), N("Add", "v2,eps", "v3"), N("Sqrt", "v3", "deviation"), N("Div", "d,deviation", "y")]
    constants = {"w": w, "b": np.float32(7), "inf": np.float32(np.inf), "zero": np.float32(0), "eps": np.float32(1e-12)}
    return nodes, {"x": x}, constants, {"y": d / np.sqrt(variance + 1e-12), "variance": variance}


@case
def rms_norm_of_large_rows():
    x, w, h = _hidden()
    nodes = [N("MatMul", "x,w", "xw"), N("Add", "xw,b", "h"), N("Pow", "h,two", "sq"), N("ReduceMean", "sq", "ms", axes=[-1]),
             N("Add", "ms,eps", "ms1"), N("Sqrt", "ms1", "root"), N("Div", "one,root", "inverse"), N("Mul", "h,inverse", "y")]
    constants = {"w": w, "b": np.float32(7), "two": np.float32(2), "one": np.float32(1), "eps": np.float32(1e-6)}
    return nodes, {"x": x}, constants, {"y": h / np.sqrt((h * h).mean(-1, keepdims=True) + 1e-6)}


def _zeros_and_small_rows():
    x, w = numbers(6, 32), np.linalg.qr(numbers(32, 32, seed=1))[0].astype("f4")
    x[1], x[2], x[3] = 0, x[2] * 1e-5, x[3] * 300
    return x, w, x.astype("f8") @ w


def _unit_vectors(norm):
    x, w, h = _zeros_and_small_rows()
    nodes = [N("MatMul", "x,w", "h"), *norm, N("Clip", "n,eps", "c"), N("Div", "h,c", "y")]
    constants = {"w": w, "eps": np.float32(1e-12), "two": np.float32(2), "half": np.float32(0.5), "axis": np.array([-1])}
    return nodes, {"x": x}, constants, {"y": h / np.maximum(np.linalg.norm(h, axis=-1, keepdims=True), 1e-12)}


NORMS = {"norms": [N("ReduceL2", "h", "n", axes=[-1])], "powers": [N("Pow", "h,two", "sq"), N("ReduceSum", "sq,axis", "s"), N("Pow", "s,half", "n")]}
for _form, _norm in NORMS.items():
    CASES[f"unit_vectors_by_{_form}"] = lambda norm=_norm: _unit_vectors(norm)


@case
def cosines_of_zeros_and_small_rows():
    x, w, h = _zeros_and_small_rows()
    k = numbers(6, 32, seed=2)
    k[4] = 0
    nodes = [N("MatMul", "x,w", "h"), N("Mul", "h,k", "hk"), N("ReduceSum", "hk,axis", "dot", keepdims=0), N("Mul", "h,h", "hh"), N("ReduceSum", "hh,axis", "h2", keepdims=0),
             N("Mul", "k,k", "kk"), N("ReduceSum", "kk,axis", "k2", keepdims=0), N("Mul", "h2,k2", "m"), N("Sqrt", "m", "r"), N("Clip", "r,eps", "c"), N("Div", "dot,c", "y")]
    wide = k.astype("f8")
    return (nodes, {"x": x, "k": k}, {"w": w, "axis": np.array([-1]), "eps": np.float32(1e-8)},
            {"y": (h * wide).sum(-1) / np.maximum(np.sqrt((h * h).sum(-1) * (wide * wide).sum(-1)), 1e-8)})


@case
def log_sum_exp_of_large_numbers():
    x = np.array([[100, 88, 50], [200, -10, 1], [-1e4, -1e4 - 1, -2e4], [3e4, 3e4, -3e4], [-np.inf] * 3], "f4")
    wanted = np.logaddexp.reduce(x.astype("f8"), 1)
    return ([N("ReduceLogSumExp", "x", "y", axes=[1], keepdims=0), N("LogSoftmax", "z", "l")], {"x": x, "z": x[:4]}, {},
            {"y": wanted, "l": x[:4] - wanted[:4, None]}, {"bounds": {"mixed_float16": 1e-3, "mixed_bfloat16": 8e-3}})


@case
def attention_masked_by_minus_1e12():
    q, k, v = (numbers(3, 2, 8, 16, seed=i) for i in range(3))
    mask = np.ones((3, 8), "f4")
    mask[1, 5:] = mask[2] = 0
    bias = (1 - mask)[:, None, None] * np.float32(-1e12)
    scores = (q.astype("f8") @ k.swapaxes(2, 3)).astype("f4") / 4 + bias  # The model adds in float32.
    nodes = [N("Transpose", "k", "kt", perm=[0, 1, 3, 2]), N("MatMul", "q,kt", "s0"), N("Div", "s0,four", "s1"), N("Sub", "one,mask", "off"),
             N("Unsqueeze", "off,axes", "off4"), N("Mul", "off4,far", "bias"), N("Add", "s1,bias", "s2"), N("Softmax", "s2", "p"), N("MatMul", "p,v", "y")]
    constants = {"four": np.float32(4), "one": np.float32(1), "far": np.float32(-1e12), "axes": np.array([1, 2])}
    return nodes, {"q": q, "k": k, "v": v, "mask": mask}, constants, {"y": softmax(scores.astype("f8")) @ v}


@case
def a_mask_that_two_layers_share():
    q, k, v = (numbers(3, 2, 8, 16, seed=i) for i in range(3))
    lowest, causal = np.finfo("f4").min, np.tril(np.ones((8, 8), bool))
    keep = np.arange(8) >= np.array([0, 3, 7])[:, None]  # Padding in front: the first rows see nothing.
    bias = np.where(keep[:, None, None] & causal, np.float32(0), lowest)

    def attend(x):
        return softmax(((x @ k.swapaxes(2, 3)).astype("f4") / 4 + bias).astype("f8")) @ v

    def layer(x, y):
        return [N("MatMul", f"{x},kt", f"s{y}"), N("Div", f"s{y},four", f"t{y}"), N("Add", f"t{y},bias", f"u{y}"), N("Softmax", f"u{y}", f"p{y}"), N("MatMul", f"p{y},v", y)]

    nodes = [N("Transpose", "k", "kt", perm=[0, 1, 3, 2]), N("Unsqueeze", "keep,axes", "keep4"), N("And", "keep4,causal", "seen"),
             N("Where", "seen,zero,lowest", "bias"), *layer("q", "y1"), N("Add", "y1,q", "q1"), *layer("q1", "y")]
    constants = {"four": np.float32(4), "zero": np.float32(0), "lowest": lowest, "axes": np.array([1, 2]), "causal": causal}
    wide = q.astype("f8")
    return nodes, {"q": q, "k": k, "v": v, "keep": keep}, constants, {"y": attend(attend(wide) + wide)}


@case
def mean_as_a_scaled_sum():
    x = np.random.default_rng(0).uniform(2, 6, (1, 3, 160, 160)).astype("f4")
    nodes = [N("Relu", "x", "r"), N("ReduceSum", "r,axes", "t"), N("Mul", "t,share", "y"), N("GlobalAveragePool", "r", "z")]
    mean = x.astype("f8").mean((2, 3), keepdims=True)
    return nodes, {"x": x}, {"axes": np.array([2, 3]), "share": np.float32(1 / 25600)}, {"y": mean, "z": mean}


@case
def norms_of_float16_models():
    x = (numbers(1, 2, 129, 128) * 3 + 20).astype("f2")
    wide = x.astype("f8")
    mean, variance = wide.mean((2, 3), keepdims=True), wide.var((2, 3), keepdims=True)
    nodes = [N("InstanceNormalization", "x,s,b", "y"), N("ReduceMean", "x", "m", axes=[1, 2, 3])]
    return (nodes, {"x": x}, {"s": np.ones(2, "f2"), "b": np.zeros(2, "f2")},
            {"y": (wide - mean) / np.sqrt(variance + 1e-5), "m": wide.mean(keepdims=True)}, {"bounds": {"float32": 2e-3}, "policies": ["float32"]})


@case
def batch_norm_of_a_large_mean():
    mean, variance, scale, bias = np.array([1e4, -3e4, 2e3], "f4"), np.full(3, 0.25, "f4"), numbers(3, seed=1), numbers(3, seed=2)
    x = mean[:, None] + numbers(4, 3, 50) / 2
    wide = (x.astype("f8") - mean[:, None]) / np.sqrt(variance.astype("f8")[:, None] + np.float32(1e-5))
    return ([N("BatchNormalization", "x,s,b,m,v", "y")], {"x": x}, {"s": scale, "b": bias, "m": mean, "v": variance},
            {"y": wide * scale[:, None] + bias[:, None]}, {"policies": ["float32"], "bounds": {"float32": 1e-6}})


@case
def batch_norm_in_training_before_opset_14():
    x, w, mean, variance = numbers(4, 3, 5) * 2 + 1, numbers(3, seed=1), numbers(3, seed=2), numbers(3, seed=3) ** 2
    wide = x.astype("f8")
    of_batch = wide.mean((0, 2)), wide.var((0, 2))
    y = (wide - of_batch[0][:, None]) / np.sqrt(of_batch[1][:, None] + 1e-5) * w[:, None] + mean[:, None]
    running = [0.75 * old + 0.25 * new for old, new in zip((mean, variance), of_batch)]
    nodes = [N("BatchNormalization", "x,w,m,m,v", "y,mean,variance,saved_mean,saved_variance", momentum=0.75)]
    names = ("y", "mean", "variance", "saved_mean", "saved_variance")
    return nodes, {"x": x}, {"w": w, "m": mean, "v": variance}, dict(zip(names, (y, *running, *of_batch))), {"opset": 9}


# ===----------------------------------------------------------------------=== #
# Positions, boxes and indices
# ===----------------------------------------------------------------------=== #


@case
def rotary_angles_from_position_65536():
    inverse, position = (1 / 10000 ** (np.arange(0, 16, 2) / 16)).astype("f4"), 65536 + np.arange(24)[None]
    angle = (inverse[None, :, None] * position[:, None].astype("f4")).astype("f8")  # The model's own rounding.
    nodes = [N("Cast", "position", "p", to=1), N("Unsqueeze", "p,one", "p1"), N("MatMul", "inverse,p1", "f"), N("Cos", "f", "y")]
    return (nodes, {"position": position}, {"inverse": inverse[None, :, None], "one": np.array([1])}, {"y": np.cos(angle)},
            {"bounds": {"float32": 2e-3, "mixed_bfloat16": 5e-3}})


@case
def boxes_moved_apart_by_class():
    boxes = np.random.default_rng(0).uniform(200, 3300, (20, 4)).astype("f4")
    kind = np.random.default_rng(1).integers(0, 20, 20)
    nodes = [N("ReduceMax", "boxes", "most", keepdims=0), N("Add", "most,one", "step"), N("Cast", "kind", "k", to=1), N("Mul", "k,step", "offset"),
             N("Unsqueeze", "offset,axis", "o"), N("Add", "boxes,o", "y")]
    return (nodes, {"boxes": boxes, "kind": kind}, {"one": np.float32(1), "axis": np.array([1])},
            {"y": boxes + kind[:, None].astype("f4") * (boxes.max() + np.float32(1))}, {"bounds": dict.fromkeys(FLOATS, 1e-6)})


@case
def boxes_of_three_strides():
    """The head of a YOLO near the corner of 1280 pixels: a box errs by less than 16-bit coordinates do."""
    nodes, feeds, wanted = [], {}, []
    constants = {"parts": np.array([2, 2, 1]), "two": np.float32(2), "half": np.float32(0.5), "size": np.float32(40), "flat": np.array([1, -1, 5])}
    for i, (stride, side) in enumerate(((8, 20), (16, 10), (32, 5))):
        x, w = numbers(1, 6, side, side, seed=i), numbers(5, 6, 1, 1, seed=i + 3)
        cells = np.arange(1280 // stride - side, 1280 // stride)
        grid = np.stack(np.meshgrid(cells, cells), -1).astype("f4")[None]
        feeds[f"x{i}"] = x
        constants |= {f"w{i}": w, f"grid{i}": grid, f"stride{i}": np.float32(stride)}
        nodes += [N("Conv", f"x{i},w{i}", f"c{i}"), N("Transpose", f"c{i}", f"t{i}", perm=[0, 2, 3, 1]), N("Sigmoid", f"t{i}", f"s{i}"),
                  N("Split", f"s{i},parts", f"xy{i},wh{i},score{i}", axis=-1), N("Mul", f"xy{i},two", f"a{i}"), N("Sub", f"a{i},half", f"b{i}"),
                  N("Add", f"b{i},grid{i}", f"d{i}"), N("Mul", f"d{i},stride{i}", f"e{i}"), N("Mul", f"wh{i},two", f"f{i}"), N("Pow", f"f{i},two", f"g{i}"),
                  N("Mul", f"g{i},size", f"h{i}"), N("Concat", f"e{i},h{i},score{i}", f"r{i}", axis=-1), N("Reshape", f"r{i},flat", f"y{i}")]
        s = 1 / (1 + np.exp(-np.einsum("nchw,oc->nhwo", x.astype("f8"), w[:, :, 0, 0])))
        wanted.append(np.concatenate([(s[..., :2] * 2 - 0.5 + grid) * stride, (s[..., 2:4] * 2) ** 2 * 40, s[..., 4:]], -1).reshape(1, -1, 5))
    nodes.append(N("Concat", "y0,y1,y2", "y", axis=1))
    return nodes, feeds, constants, {"y": np.concatenate(wanted, 1)}, {"bounds": {"float32": 1e-6, "mixed_float16": 0.25 / 1280, "mixed_bfloat16": 1.5 / 1280}}


def _nearest(n_in, n_out, mode, near):
    def index(i):
        scale = Fraction(n_out, n_in)
        x = {"half_pixel": (i + Fraction(1, 2)) / scale - Fraction(1, 2), "asymmetric": i / scale,
             "align_corners": Fraction(i * (n_in - 1), n_out - 1)}[mode]
        low, tie = math.floor(x), x - math.floor(x) == Fraction(1, 2)
        nearest = math.floor(x + Fraction(1, 2))
        return min(max({"floor": low, "ceil": math.ceil(x), "round_prefer_floor": low if tie else nearest, "round_prefer_ceil": nearest}[near], 0), n_in - 1)

    x = np.arange(n_in, dtype="f4").reshape(1, 1, 1, n_in) / 64
    node = N("Resize", "x,,,size", "y", mode="nearest", coordinate_transformation_mode=mode, nearest_mode=near)
    return [node], {"x": x}, {"size": np.array([1, 1, 1, n_out])}, {"y": x[..., [index(i) for i in range(n_out)]]}, {"bounds": EXACT}


for _sizes in ((20, 6, "half_pixel"), (4, 8, "half_pixel"), (26, 64, "asymmetric"), (4000, 3999, "asymmetric"), (600, 1000, "align_corners")):
    for _near in ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"):
        CASES["nearest_%d_to_%d_%s_" % _sizes + _near] = lambda sizes=_sizes, near=_near: _nearest(*sizes, near)


# ===----------------------------------------------------------------------=== #
# Subgraphs
# ===----------------------------------------------------------------------=== #


@case
def a_branch_with_its_own_weights():
    x, w, inner = numbers(4, 8), numbers(8, 8, seed=1), numbers(8, 8, seed=2)
    branches = [G([N("Gemm", "act,bw", "t"), N("Relu", "t", "o")], ["o"], constants={"bw": inner * sign}) for sign in (1, -1)]
    nodes = [N("MatMul", "x,w", "act"), N("Shape", "x", "s"), N("Gather", "s,zero", "rows"), N("Greater", "rows,two", "c"),
             N("If", "c", "y", then_branch=branches[0], else_branch=branches[1]), N("MatMul", "y,w", "z")]
    return (nodes, {"x": x}, {"w": w, "zero": np.int64(0), "two": np.int64(2)},
            {"z": np.maximum(x.astype("f8") @ w @ inner, 0) @ w})


@case
def a_loop_that_ends_early():
    x, w = numbers(4, 8), numbers(8, 8, seed=1) / 4
    value = helper.make_tensor_value_info
    body = G([N("MatMul", "st,w", "mm"), N("Tanh", "mm", "st1"), N("Less", "it,three", "go"), N("ReduceSum", "st1", "scan", keepdims=0), N("Add", "acc,it", "acc1")],
             ["go", "st1", "acc1", "scan"], [value("it", TensorProto.INT64, []), value("on", TensorProto.BOOL, []), value("st", TensorProto.FLOAT, [4, 8]), value("acc", TensorProto.INT64, [])])
    state, sums = x.astype("f8"), []
    for _ in range(4):
        state = np.tanh(state @ w)
        sums.append(state.sum())
    return ([N("Loop", "ten,yes,x,zero", "y,acc,sums", body=body)], {"x": x},
            {"ten": np.int64(10), "yes": np.array(True), "zero": np.int64(0), "w": w, "three": np.int64(3)}, {"y": state, "acc": np.int64(6), "sums": np.array(sums)})


@case
def a_branch_in_a_branch_that_captures_of_both():
    x, w = numbers(1, 2, 4, 4), numbers(2, 2, 1, 1, seed=1)
    inner = [G([N("Add", "up,tiled", "i")], ["i"]), G([N("Identity", "up", "i")], ["i"])]
    outer = G([N("Conv", "x,w", "c"), N("Resize", "c,,scales", "up", mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
               N("Not", "no", "n"), N("If", "n", "o", then_branch=inner[0], else_branch=inner[1])], ["o"],
              constants={"scales": np.array([1, 1, 2, 2], "f4"), "w": w})
    nodes = [N("Tile", "x,twice", "tiled"), N("If", "yes", "m", then_branch=outer, else_branch=G([N("Identity", "tiled", "o")], ["o"])), N("Relu", "m", "y")]
    c = np.einsum("nchw,oc->nohw", x.astype("f8"), w[:, :, 0, 0])
    return (nodes, {"x": x}, {"twice": np.array([1, 1, 2, 2]), "yes": np.array(True), "no": np.array(False)},
            {"y": np.maximum(c.repeat(2, 2).repeat(2, 3) + np.tile(x, (1, 1, 2, 2)), 0)})


@case
def branches_twenty_deep():
    x = numbers(2, 4)
    inner = G([N("Neg", "x", "o")], ["o"])
    for _ in range(19):
        inner = G([N("If", "yes", "t", then_branch=inner, else_branch=G([N("Identity", "x", "e")], ["e"])), N("Identity", "t", "o")], ["o"])
    return [N("If", "yes", "y", then_branch=inner, else_branch=G([N("Identity", "x", "e")], ["e"]))], {"x": x}, {"yes": np.array(True)}, {"y": -x}


@case
def a_loop_of_a_thousand_steps():
    x, value = numbers(2, 4), helper.make_tensor_value_info
    body = G([N("Mul", "st,half", "m"), N("Add", "m,x", "so"), N("Identity", "ci", "co")], ["co", "so"],
             [value("it", TensorProto.INT64, []), value("ci", TensorProto.BOOL, []), value("st", TensorProto.FLOAT, [2, 4])])
    constants = {"n": np.int64(1000), "yes": np.array(True), "zero": np.zeros((2, 4), "f4"), "half": np.float32(0.5)}
    return [N("Loop", "n,yes,zero", "y", body=body)], {"x": x}, constants, {"y": 2 * x}, {"policies": ["float32"]}


# ===----------------------------------------------------------------------=== #
# Deep, wide and large graphs
# ===----------------------------------------------------------------------=== #


@case
def ten_thousand_nodes_in_a_row():
    x = numbers(2, 4)
    nodes, wanted = [], x.astype("f8")
    for i in range(10000):
        nodes.append([N("Add", f"v{i},one", f"v{i + 1}"), N("Sub", f"v{i},one", f"v{i + 1}"), N("Neg", f"v{i}", f"v{i + 1}"), N("Tanh", f"v{i}", f"v{i + 1}")][i % 4])
        wanted = [wanted + 1, wanted - 1, -wanted, np.tanh(wanted)][i % 4]
    nodes[0].input[0] = "x"
    return nodes, {"x": x}, {"one": np.float32(1)}, {"v10000": wanted}, {"policies": ["float32"], "bounds": {"float32": 1e-3}}


@case
def one_value_that_two_thousand_nodes_read():
    x, count = numbers(2, 4), 2000
    nodes = [N("Exp", "x", "e"), *(N("Mul", f"e,c{i}", f"p{i}") for i in range(count)), N("Sum", ",".join(f"p{i}" for i in range(count)), "y")]
    return nodes, {"x": x}, {f"c{i}": np.float32(1 / count) for i in range(count)}, {"y": np.exp(x.astype("f8"))}, {"policies": ["float32"]}


@case
def a_row_of_a_causal_mask_of_constants():
    x = numbers(1, 4096)
    nodes = [N("ConstantOfShape", "shape", "full", value=numpy_helper.from_array(np.array([-1e9], "f4"))), N("Trilu", "full,k", "mask", upper=1),
             N("Gather", "mask,row", "m", axis=0), N("Add", "x,m", "s"), N("Softmax", "s", "y", axis=-1)]
    constants = {"shape": np.array([4096, 4096]), "k": np.int64(1), "row": np.array([9])}
    return nodes, {"x": x}, constants, {"y": softmax(x.astype("f8") + np.where(np.arange(4096) <= 9, 0, -1e9))}, {"policies": ["float32"]}


@case
def a_constant_expanded_to_gigabytes():
    x = numbers(2, 4)
    nodes = [N("ConstantOfShape", "shape", "full", value=numpy_helper.from_array(np.array([0.5], "f4"))), N("Expand", "full,big", "ex"),
             N("ReduceSum", "ex,axes", "t", keepdims=0), N("Mul", "x,t", "y")]
    constants = {"shape": np.array([1, 1, 4]), "big": np.array([1 << 14, 1 << 12, 4]), "axes": np.array([0, 1])}
    return nodes, {"x": x}, constants, {"y": x * 2.0**25}, {"policies": ["float32"]}


# ===----------------------------------------------------------------------=== #
# Windows
# ===----------------------------------------------------------------------=== #


def _average(x, kernel, stride, pad, include):
    """Average pooling with ceil_mode, in which a window's count ends with the padded input."""
    rank = x.ndim - 2
    padded = np.pad(x.astype("f8"), [(0, 0)] * 2 + [(pad, pad + stride)] * rank)
    ones = np.pad(np.ones_like(x, "f8"), [(0, 0)] * 2 + [(pad, pad)] * rank, constant_values=float(include))
    counts = np.pad(ones, [(0, 0)] * 2 + [(0, stride)] * rank)
    sizes = [-(-(e + 2 * pad - kernel) // stride) + 1 for e in x.shape[2:]]
    sizes = [s - 1 if (s - 1) * stride >= e + pad else s for s, e in zip(sizes, x.shape[2:])]
    axes = tuple(range(2, 2 + rank))
    window = [np.lib.stride_tricks.sliding_window_view(a, [kernel] * rank, axes).sum(tuple(range(-rank, 0))) for a in (padded, counts)]
    part = (slice(None), slice(None), *(slice(0, (s - 1) * stride + 1, stride) for s in sizes))
    return window[0][part] / window[1][part]


for _shape, _kernel, _stride, _pad in (((1, 1, 4, 4), 3, 2, 1), ((1, 3, 17, 17), 2, 2, 1), ((1, 3, 2, 2), 3, 3, 1), ((1, 2, 9), 7, 3, 3)):
    for _include in (0, 1):
        def _pool(shape=_shape, kernel=_kernel, stride=_stride, pad=_pad, include=_include):
            x, rank = numbers(*shape), len(shape) - 2
            node = N("AveragePool", "x", "y", kernel_shape=[kernel] * rank, strides=[stride] * rank, pads=[pad] * 2 * rank, ceil_mode=1, count_include_pad=include)
            return [node], {"x": x}, {}, {"y": _average(x, kernel, stride, pad, include)}, {"opset": 19}

        CASES[f"average_of_{_kernel}_at_the_end_of_{_shape[-1]}_{_include}"] = _pool


def _transposed(mode, kernel, stride):
    """ConvTranspose whose result has `stride` times the input's size."""
    x, w = numbers(1, 2, 3, 3), numbers(2, 3, kernel, kernel, seed=1)
    size, total = 3 * stride, kernel - stride
    whole = np.zeros((1, 3, 2 * stride + kernel, 2 * stride + kernel))
    for i in range(3):
        for j in range(3):
            whole[:, :, i * stride:i * stride + kernel, j * stride:j * stride + kernel] += np.einsum("nc,cohw->nohw", x[:, :, i, j].astype("f8"), w)
    begin = total // 2 if mode == "SAME_UPPER" else total - total // 2
    return [N("ConvTranspose", "x,w", "y", auto_pad=mode, strides=[stride] * 2)], {"x": x}, {"w": w}, {"y": whole[:, :, begin:begin + size, begin:begin + size]}


for _mode in ("SAME_UPPER", "SAME_LOWER"):
    for _kernel, _stride in ((3, 2), (3, 1), (4, 1)):
        CASES[f"transposed_{_mode}_{_kernel}_{_stride}"] = lambda m=_mode, k=_kernel, s=_stride: _transposed(m, k, s)


@case
def a_norm_after_a_grouped_transposed_convolution():
    x, w = numbers(1, 4, 5, 5), numbers(4, 1, 3, 3, seed=1)
    scale, bias, mean, variance = numbers(4, seed=2), numbers(4, seed=3), numbers(4, seed=4), numbers(4, seed=5) ** 2 + np.float32(0.5)
    y = np.zeros((1, 4, 11, 11))
    for i in range(5):
        for j in range(5):
            y[:, :, 2 * i:2 * i + 3, 2 * j:2 * j + 3] += x[:, :, i, j, None, None].astype("f8") * w[None, :, 0]
    nodes = [N("ConvTranspose", "x,w", "c", strides=[2, 2], group=4), N("BatchNormalization", "c,s,b,m,v", "y")]
    s, b, m, v = (a.astype("f8")[:, None, None] for a in (scale, bias, mean, variance))
    return nodes, {"x": x}, {"w": w, "s": scale, "b": bias, "m": mean, "v": variance}, {"y": (y - m) / np.sqrt(v + 1e-5) * s + b}


# ===----------------------------------------------------------------------=== #
# Small types
# ===----------------------------------------------------------------------=== #


def _blocks(dtype, axis, zeros):
    """Four-bit weights in blocks of 16 along an axis."""
    draw = np.random.default_rng(0)
    low, high = (-8, 8) if dtype == "int4" else (0, 16)
    kind, shape = getattr(ml_dtypes, dtype), [4 if axis == 0 else 64, 48 if axis == 0 else 3]
    q, scale, zero = draw.integers(low, high, (64, 48)), draw.uniform(0.01, 0.1, shape).astype("f4"), draw.integers(low, high, shape)
    spread = [np.repeat(a, 16, axis).astype("f8") for a in (scale, zero if zeros else 0 * zero)]
    x = numbers(5, 64)
    nodes = [N("DequantizeLinear", "q,s,z" if zeros else "q,s", "w", axis=axis, block_size=16), N("MatMul", "x,w", "y")]
    constants = {"q": q.astype(kind), "s": scale} | ({"z": zero.astype(kind)} if zeros else {})
    return nodes, {"x": x}, constants, {"y": x.astype("f8") @ ((q - spread[1]) * spread[0])}, {"opset": 21}


for _dtype in ("int4", "uint4"):
    for _axis in (0, 1):
        for _zeros in (False, True):
            CASES[f"blocks_of_{_dtype}_along_{_axis}_{_zeros}"] = lambda d=_dtype, a=_axis, z=_zeros: _blocks(d, a, z)


def _float8(kind, saturate):
    """Casts to 8-bit floats and back, by ml_dtypes, whose casts do not saturate."""
    x = np.array([0, -0.0, 1, 448, 464, 465, 1e5, -1e5, np.inf, -np.inf, np.nan, 2**-9, 2**-10, 3 * 2**-10, 17, 57344, 65536], "f4")
    number, dtype = getattr(TensorProto, kind), {"FLOAT8E4M3FN": ml_dtypes.float8_e4m3fn, "FLOAT8E5M2": ml_dtypes.float8_e5m2}[kind]
    wanted = x.astype(dtype).astype("f4")
    if saturate:
        beyond = ~np.isfinite(wanted) & ~np.isnan(x)
        wanted[beyond] = np.copysign(np.float32(ml_dtypes.finfo(dtype).max), x[beyond])
    nodes = [N("Cast", "x", "c", to=number, saturate=saturate), N("Cast", "c", "y", to=1)]
    return nodes, {"x": x}, {}, {"y": wanted}, {"opset": 19, "policies": ["float32"], "bounds": EXACT}


for _kind in ("FLOAT8E4M3FN", "FLOAT8E5M2"):
    for _saturate in (0, 1):
        CASES[f"{_kind}_{_saturate}"] = lambda k=_kind, s=_saturate: _float8(k, s)


# ===----------------------------------------------------------------------=== #
# Einsum and integer matmuls
# ===----------------------------------------------------------------------=== #


def _einsum(equation, *shapes, dtype="f4"):
    if dtype == "f4":
        factors = [numbers(*shape, seed=i) for i, shape in enumerate(shapes)]
    else:  # Numbers whose sums wrap.
        ends = np.iinfo(dtype)
        factors = [np.random.default_rng(i).integers(ends.min, ends.max, shape, dtype) for i, shape in enumerate(shapes)]
    names = [f"x{i}" for i in range(len(factors))]
    wanted = np.einsum(equation, *[f.astype("f8") if dtype == "f4" else f for f in factors])
    return [N("Einsum", ",".join(names), "y", equation=equation)], dict(zip(names, factors)), {}, {"y": wanted}


EQUATIONS = {"iij->ij": [(3, 3, 4)], "iij,j->ij": [(3, 3, 4), (4,)], "ii": [(5, 5)], "ijji->j": [(2, 3, 3, 2)], "abc,cd,def->abd": [(2, 3, 4), (4, 5), (5, 2, 3)],
             "...ij,...jk->...ik": [(2, 1, 3, 4), (5, 4, 6)], "i...j,jk->k...i": [(3, 2, 5, 4), (4, 6)], "bA,Ac": [(3, 4), (4, 5)], "i,j,k->ijk": [(2,), (3,), (4,)],
             "ij->": [(3, 4)], "...->...": [(2, 3)], "ij,ij->i": [(3, 4), (3, 4)], ",ij->ij": [(), (2, 3)], "blq,bhlk->bhlqk": [(2, 3, 4), (2, 2, 3, 5)]}
for _equation, _shapes in EQUATIONS.items():
    CASES[f"einsum {_equation}"] = lambda e=_equation, s=_shapes: _einsum(e, *s)
    for _dtype in ("int64",) if "b" not in _equation else ("int32", "int64", "uint64", "int8"):
        CASES[f"einsum {_equation} {_dtype}"] = lambda e=_equation, s=_shapes, d=_dtype: (*_einsum(e, *s, dtype=d), {"policies": ["float32"]})


@case
def products_of_integers_that_wrap():
    draw = np.random.default_rng(0)
    a, b, c = (draw.integers(-2**62, 2**62, shape) for shape in ((2, 3, 4), (4, 5), (5, 3)))
    d = draw.integers(-2**31, 2**31, (3, 4), "i4")
    nodes = [N("MatMul", "a,b", "y"), N("Gemm", "b,c,three", "z", transA=1, transB=1, alpha=2.0), N("MatMul", "d,e", "w")]
    nodes[1].input[0] = "b1"
    b1 = draw.integers(-2**62, 2**62, (3, 4))
    return (nodes, {"a": a, "b": b, "c": c, "d": d}, {"three": np.int64(3), "b1": b1, "e": d.T.copy()},
            {"y": a @ b, "z": 2 * (b1.T @ c.T) + 3, "w": d @ d.T}, {"policies": ["float32"]})


# ===----------------------------------------------------------------------=== #
# Outputs that pass through, optional inputs and outputs
# ===----------------------------------------------------------------------=== #


@case
def one_value_as_several_outputs():
    x, k = np.array([[1.5, -2, 3], [0.25, 70000, -1e-9]], "f4"), np.array([7, 8], "f4")
    nodes = [N("Identity", "x", "y"), N("Identity", "y", "y1"), N("Reshape", "x,s", "w"), N("Relu", "x", "r")]
    return (nodes, {"x": x}, {"k": k, "s": np.array([3, 2])}, {"y": x, "y1": x, "w": x.reshape(3, 2), "k": k, "r": np.maximum(x, 0)},
            {"policies": ["float32"], "bounds": EXACT})


@case
def inputs_and_outputs_left_out():
    x = numbers(3, 4)
    d = x - x.astype("f8").mean(1, keepdims=True)
    inverse = 1 / np.sqrt((d * d).mean(1, keepdims=True) + 1e-5)
    nodes = [N("Clip", "x,,one", "c"), N("LayerNormalization", "x,ones", "n,,inverse"), N("Dropout", "x", "same,mask"),
             N("Pad", "x,pads", "zeros"), N("Pad", "x,pads", "edges", mode="edge")]
    part, pads = x[:2, 1:], ((2, 0), (0, 3))
    return (nodes, {"x": x}, {"one": np.float32(1), "ones": np.ones(4, "f4"), "pads": np.array([2, -1, -1, 3])},
            {"c": np.minimum(x, 1), "n": d * inverse, "inverse": inverse, "same": x, "mask": np.ones((3, 4), bool), "zeros": np.pad(part, pads), "edges": np.pad(part, pads, "edge")},
            {"policies": ["float32"], "bounds": {"float32": 1e-6}})


@case
def weights_among_the_inputs_of_an_old_file():
    x, w, b = numbers(2, 3), numbers(3, 3, seed=1), numbers(3, seed=2)
    return [N("MatMul", "x,w", "h"), N("Add", "h,b", "y")], {"x": x}, {"w": w, "b": b}, {"y": x.astype("f8") @ w + b}, {"opset": 9, "ir": 3}


# ===----------------------------------------------------------------------=== #
# Running
# ===----------------------------------------------------------------------=== #


def save(path, nodes, inputs, constants, wanted, opset=17, ir=10):
    def info(name, array):
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)

    # Before version 4 of the format initializers are inputs as well.
    declared = inputs | constants if ir < 4 else inputs
    graph = helper.make_graph(nodes, "g", [info(n, a) for n, a in declared.items()], [helper.make_empty_tensor_value_info(n) for n in wanted],
                              [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir), path)


def distance(found, wanted):
    """Largest difference relative to the largest element; infinite where others are finite or integers differ."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.shape == wanted.shape
    if wanted.dtype.kind in "iub":
        return 0 if np.array_equal(found, wanted) else math.inf
    found, wanted = found.astype("f8"), wanted.astype("f8")
    finite = np.isfinite(wanted)
    if not np.array_equal(found[~finite], wanted[~finite], equal_nan=True) or not np.isfinite(found[finite]).all():
        return math.inf
    return np.abs(found[finite] - wanted[finite]).max(initial=0) / (np.abs(wanted[finite]).max(initial=0) or 1)


@pytest.mark.parametrize("name", CASES)
def test_model(name, tmp_path):
    nodes, inputs, constants, wanted, *more = CASES[name]()
    more = more[0] if more else {}
    save(tmp_path / "model.onnx", nodes, inputs, constants, wanted, more.get("opset", 17), more.get("ir", 10))
    for policy in more.get("policies", FLOATS):
        found = mpc.compile(tmp_path / "model.onnx", policy=policy)(*inputs.values())
        found = found if isinstance(found, tuple) else (found,)
        for (key, number), output in zip(wanted.items(), found, strict=True):
            error = distance(output, number)
            assert error <= (BOUND | more.get("bounds", {}))[policy], (key, policy, error)


@pytest.mark.parametrize("equation, shapes", [("ij,jk->ik", [(2, 3), (4, 5)]), ("ij,jk->ik", [(2, 3, 1), (3, 5)])])
def test_an_einsum_that_does_not_fit_is_refused(equation, shapes, tmp_path):
    arrays = {f"x{i}": np.ones(shape, "i8") for i, shape in enumerate(shapes)}
    save(tmp_path / "model.onnx", [N("Einsum", "x0,x1", "y", equation=equation)], arrays, {}, {"y": None})
    with pytest.raises(mpc.InvalidArgument, match="Einsum"):
        mpc.compile(tmp_path / "model.onnx", policy="float32")(*arrays.values())


def test_a_sequence_ends_with_its_table_of_positions(tmp_path):
    pytest.importorskip("onnxruntime")
    maker = pathlib.Path(__file__).resolve().parents[1] / "Integration" / "Inputs" / "counting_decoder.py"
    subprocess.run([sys.executable, maker, tmp_path / "given.onnx", "given", "3", "0"], check=True)
    decoder = mpc.Decoder(tmp_path / "given.onnx", policy="float32", capacity=80, chunk=8)
    sequence = decoder.start()
    sequence.feed([1] * 60)
    with pytest.raises(mpc.InvalidArgument, match="a sequence of 60 tokens cannot take 5 more tokens: '.*' has a position table of 64 rows"):
        sequence.feed([1] * 5)
    sequence.feed([1] * 4)
    assert sequence.length == 64
