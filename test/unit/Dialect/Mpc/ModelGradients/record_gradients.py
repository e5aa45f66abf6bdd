# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradients of ONNX models by PyTorch in float64.

usage: record_gradients.py MODELS_FOLDER OUTPUT.json [NAME...]

The tests unpack gradients.tar.xz, which holds such a file as gradients.json.

For each model the loss is the sum over all float outputs of output times
noise(output number, element). Float inputs are noise(200 + input number,
element), integers those of the case's inputs.npz. Per initialiser that is
trained: the norm of its gradient and its dot products with noise(100 + k, element),
k = 0..7. The forward pass is checked against the case's expected.npz first.

Needs numpy, onnx and torch. The graph runs operator by operator in torch, so
the gradients are torch's own.
"""
import json
import math
import pathlib
import sys

import numpy as np
import onnx
import onnx.numpy_helper
import torch
import torch.nn.functional as F

PROJECTIONS = 8


def noise(stream, count):
    """Numbers in [-1, 1) by SplitMix64, as ModelGradientTests.cpp generates them."""
    x = np.arange(count, dtype=np.uint64) + np.uint64(stream << 32)
    x = (x + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x = x ^ (x >> np.uint64(31))
    return (x >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1.0


def widen(array):
    """Floats as float64; the rest as it is."""
    tensor = torch.from_numpy(np.array(array))
    return tensor.double() if tensor.is_floating_point() else tensor


class Graph:
    """Runs the nodes of a graph; one method per operator."""

    def __init__(self, model):
        self.graph = model.graph

    def run(self, values):
        values[""] = None
        for node in self.graph.node:
            attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
            method = getattr(self, "op_" + node.op_type)
            results = method([values[name] for name in node.input], attributes, node)
            if not isinstance(results, (tuple, list)) or node.op_type in ("SplitToSequence",):
                results = [results]
            for name, value in zip(node.output, results):
                values[name] = value
        return [values[o.name] for o in self.graph.output]

    # Elementwise.
    def op_Add(self, x, a, n): return x[0] + x[1]
    def op_Sub(self, x, a, n): return x[0] - x[1]
    def op_Mul(self, x, a, n): return x[0] * x[1]
    def op_Div(self, x, a, n):
        if x[0].is_floating_point():
            return x[0] / x[1]
        return torch.div(x[0], x[1], rounding_mode="trunc")
    def op_Pow(self, x, a, n): return torch.pow(x[0], x[1].to(x[0].dtype))
    def op_And(self, x, a, n): return x[0] & x[1]
    def op_Not(self, x, a, n): return ~x[0]
    def op_Erf(self, x, a, n): return torch.erf(x[0])
    def op_Tanh(self, x, a, n): return torch.tanh(x[0])
    def op_Relu(self, x, a, n): return torch.relu(x[0])
    def op_Where(self, x, a, n): return torch.where(x[0], x[1], x[2])
    def op_Identity(self, x, a, n): return x[0]
    def op_Gelu(self, x, a, n):
        return F.gelu(x[0], approximate=a.get("approximate", b"none").decode())
    def op_Cast(self, x, a, n):
        kind = onnx.helper.tensor_dtype_to_np_dtype(a["to"])
        return x[0].to(torch.double if kind.kind == "f" else torch.from_numpy(np.zeros(1, kind)).dtype)
    def op_CastLike(self, x, a, n): return x[0].to(x[1].dtype)
    def op_Constant(self, x, a, n):
        (value,) = a.values()
        if isinstance(value, onnx.TensorProto):
            return widen(onnx.numpy_helper.to_array(value))
        return torch.tensor(value)

    # Matmuls.
    def op_MatMul(self, x, a, n): return torch.matmul(x[0], x[1])
    def op_Gemm(self, x, a, n):
        lhs = x[0].T if a.get("transA") else x[0]
        rhs = x[1].T if a.get("transB") else x[1]
        y = a.get("alpha", 1.0) * (lhs @ rhs)
        return y if len(x) < 3 or x[2] is None else y + a.get("beta", 1.0) * x[2]

    # Windows.
    def pads(self, a, rank): return a.get("pads", [0] * (2 * rank))
    def op_Conv(self, x, a, n):
        rank = x[0].dim() - 2
        p = self.pads(a, rank)
        assert a.get("auto_pad", b"NOTSET") == b"NOTSET"
        image = F.pad(x[0], [v for i in reversed(range(rank)) for v in (p[i], p[rank + i])])
        return getattr(F, f"conv{rank}d")(image, x[1], x[2] if len(x) > 2 else None,
            a.get("strides", 1), 0, a.get("dilations", 1), a.get("group", 1))
    def op_ConvTranspose(self, x, a, n):
        rank = x[0].dim() - 2
        p = self.pads(a, rank)
        assert p[:rank] == p[rank:]
        return getattr(F, f"conv_transpose{rank}d")(x[0], x[1], x[2] if len(x) > 2 else None,
            a.get("strides", 1), p[:rank], a.get("output_padding", 0), a.get("group", 1),
            a.get("dilations", 1))
    def op_MaxPool(self, x, a, n):
        rank = x[0].dim() - 2
        p = self.pads(a, rank)
        assert p[:rank] == p[rank:]
        return getattr(F, f"max_pool{rank}d")(x[0], a["kernel_shape"], a.get("strides", [1] * rank),
            p[:rank], a.get("dilations", 1), bool(a.get("ceil_mode", 0)))
    def op_GlobalAveragePool(self, x, a, n):
        return x[0].mean(dim=tuple(range(2, x[0].dim())), keepdim=True)

    # Norms.
    def op_Softmax(self, x, a, n): return torch.softmax(x[0], a.get("axis", -1))
    def op_LayerNormalization(self, x, a, n):
        shape = x[0].shape[a.get("axis", -1):]
        return F.layer_norm(x[0], shape, x[1], x[2] if len(x) > 2 else None, a.get("epsilon", 1e-5))
    def op_BatchNormalization(self, x, a, n):
        return F.batch_norm(x[0], x[3].detach(), x[4].detach(), x[1], x[2], False, 0.0, a.get("epsilon", 1e-5))

    # Movement.
    def op_Reshape(self, x, a, n):
        shape = [int(v) if v or a.get("allowzero") else x[0].shape[i] for i, v in enumerate(x[1].tolist())]
        return x[0].reshape(shape)
    def op_Flatten(self, x, a, n):
        axis = a.get("axis", 1)
        return x[0].reshape(math.prod(x[0].shape[:axis]), -1)
    def op_Transpose(self, x, a, n):
        return x[0].permute(a.get("perm", list(reversed(range(x[0].dim())))))
    def axes(self, x, a): return a["axes"] if "axes" in a else x[1].tolist()
    def op_Unsqueeze(self, x, a, n):
        y, axes = x[0], self.axes(x, a)
        rank = y.dim() + len(axes)
        for axis in sorted(axis % rank for axis in axes):
            y = y.unsqueeze(axis)
        return y
    def op_Squeeze(self, x, a, n):
        axes = self.axes(x, a) if len(x) > 1 or "axes" in a else [i for i, e in enumerate(x[0].shape) if e == 1]
        y = x[0]
        for axis in sorted((axis % y.dim() for axis in axes), reverse=True):
            y = y.squeeze(axis)
        return y
    def op_Concat(self, x, a, n): return torch.cat(x, a["axis"])
    def op_Split(self, x, a, n):
        axis = a.get("axis", 0)
        sizes = x[1].tolist() if len(x) > 1 else [x[0].shape[axis] // len(n.output)] * len(n.output)
        return list(torch.split(x[0], sizes, axis))
    def op_SplitToSequence(self, x, a, n):
        return list(torch.split(x[0], x[1].tolist(), a.get("axis", 0)))
    def op_SequenceAt(self, x, a, n): return x[0][int(x[1])]
    def op_Slice(self, x, a, n):
        starts, ends = x[1].tolist(), x[2].tolist()
        axes = x[3].tolist() if len(x) > 3 else range(len(starts))
        steps = x[4].tolist() if len(x) > 4 else [1] * len(starts)
        index = [slice(None)] * x[0].dim()
        for start, end, axis, step in zip(starts, ends, axes, steps):
            assert step > 0
            index[axis] = slice(start, end, step)
        return x[0][tuple(index)]
    def op_Shape(self, x, a, n):
        return torch.tensor(list(x[0].shape)[a.get("start", 0):a.get("end", None)])
    def op_Range(self, x, a, n): return torch.arange(int(x[0]), int(x[1]), int(x[2]))
    def op_Gather(self, x, a, n):
        axis = a.get("axis", 0) % x[0].dim()
        flat = x[0].index_select(axis, x[1].reshape(-1) % x[0].shape[axis])
        return flat.reshape(x[0].shape[:axis] + x[1].shape + x[0].shape[axis + 1:])
    def op_GatherND(self, x, a, n):
        assert a.get("batch_dims", 0) == 0
        return x[0][tuple(x[1].unbind(-1))]

    # Recurrence: gate order i, o, f, c.
    def op_LSTM(self, x, a, n):
        assert a.get("direction", b"forward") == b"forward"
        data, weight, recurrence = x[0], x[1][0], x[2][0]
        hidden = a["hidden_size"]
        bias = x[3][0][:4 * hidden] + x[3][0][4 * hidden:]
        h = x[5][0] if len(x) > 5 and x[5] is not None else data.new_zeros(data.shape[1], hidden)
        c = x[6][0] if len(x) > 6 and x[6] is not None else data.new_zeros(data.shape[1], hidden)
        rows = []
        for step in data:
            i, o, f, g = (step @ weight.T + h @ recurrence.T + bias).split(hidden, -1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            rows.append(h)
        return [torch.stack(rows).unsqueeze(1), h[None], c[None]]


def record(folder):
    model = onnx.load(folder / "model.onnx")
    values, parameters = {}, {}
    for tensor in model.graph.initializer:
        value = widen(onnx.numpy_helper.to_array(tensor, str(folder)))
        # Scalars and masks are no weights.
        if value.is_floating_point() and value.numel() > 1 and value.isfinite().all():
            # A stored transpose is the same weight.
            tied = [other for other in parameters.values() if value.ndim == 2 and other.ndim == 2 and torch.equal(other.T, value)]
            if tied:
                value = tied[0].T
            else:
                value.requires_grad_(True)
                parameters[tensor.name] = value
        values[tensor.name] = value
    case = np.load(folder / "inputs.npz")
    given = {name: widen(case[name]) for name in case.files}
    expected = np.load(folder / "expected.npz")
    with torch.no_grad():
        outputs = Graph(model).run(values | given)
    for info, output in zip(model.graph.output, outputs):
        want = expected[info.name]
        error = np.abs(output.numpy() - want).max() / np.abs(want).max()
        # Exporters round a model's scalars to float32.
        assert error < 1e-6, (folder.name, info.name, error)

    inputs = {}
    for number, info in enumerate(i for i in model.graph.input if i.name in given):
        value = given[info.name]
        inputs[info.name] = {"shape": list(value.shape)}
        if value.is_floating_point():
            given[info.name] = torch.from_numpy(noise(200 + number, value.numel())).reshape(value.shape)
        else:
            inputs[info.name]["values"] = value.reshape(-1).tolist()
    outputs = Graph(model).run(values | given)
    loss = 0
    for number, output in enumerate(outputs):
        weights = torch.from_numpy(noise(number, output.numel()))
        loss = loss + (output * weights.reshape(output.shape)).sum()
    loss.backward()
    result = {}
    for name, value in parameters.items():
        if value.grad is None:
            continue
        gradient = value.grad.numpy().reshape(-1)
        result[name] = {
            "norm": float(np.sqrt(np.dot(gradient, gradient))),
            "projections": [float(np.dot(gradient, noise(100 + k, gradient.size)))
                            for k in range(PROJECTIONS)],
        }
    return {"inputs": inputs, "loss": float(loss.detach()), "gradients": result}


def main():
    models, output, *names = sys.argv[1:]
    models = pathlib.Path(models)
    names = names or sorted(p.parent.name for p in models.glob("*/model.onnx"))
    records = {}
    for name in names:
        records[name] = record(models / name)
        print(name, len(records[name]["gradients"]), "parameters")
    # A line per model, a line per gradient.
    text = []
    for name, case in records.items():
        lines = [f"   {json.dumps(key)}: {json.dumps(value)}" for key, value in case["gradients"].items()]
        text.append(f' {json.dumps(name)}: {{"inputs": {json.dumps(case["inputs"])},\n'
                    f'  "loss": {case["loss"]!r},\n  "gradients": {{\n' + ",\n".join(lines) + "}}")
    pathlib.Path(output).write_text("{\n" + ",\n".join(text) + "\n}\n")


if __name__ == "__main__":
    main()
