#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The workloads of bench.sh: each as mpc text, as PyTorch and as JAX, with the same
stored types.

usage: workloads.py FOLDER     writes FOLDER/NAME.mlir

All parameters are arguments, so files hold no weights and no system can prepack them.
"""
import math
import pathlib
import sys


class Workload:
    """`shapes` are those of the arguments, all bfloat16; `text` is the body including its results."""

    def __init__(self, name, title, shapes, results, text, flops, torch, jax):
        self.name, self.title, self.shapes, self.results = name, title, shapes, results
        self.body, self.flops, self.torch, self.jax = text, flops, torch, jax

    def bytes(self):
        return 2 * sum(math.prod(shape) for shape in [*self.shapes.values(), *self.results.values()])

    def mlir(self):
        def value(name, shape, role):
            return f'tensor<{tensor(shape)}bf16> {{mpc.role = #mpc.role<{role}>, mpc.name = "{name}"}}'
        arguments = ",\n    ".join(f"%{name}: {value(name, shape, 'input')}" for name, shape in self.shapes.items())
        results = ", ".join(value(name, shape, "output") for name, shape in self.results.items())
        types = ", ".join(f"tensor<{tensor(shape)}bf16>" for shape in self.results.values())
        names = ", ".join(f"%{name}" for name in self.results)
        return f"func.func @main({arguments})\n    -> ({results}) {{\n{self.body}  return {names} : {types}\n}}\n"


def tensor(shape):
    return "".join(f"{extent}x" for extent in shape)


class Text:
    """Builds a body; values are (name, shape, type)."""

    def __init__(self):
        self.lines, self.count = [], 0

    def add(self, text, shape, kind, name=None):
        self.count += name is None
        name = name or f"v{self.count}"
        self.lines.append(f"  %{name} = {text}\n")
        return name, tuple(shape), kind

    @staticmethod
    def type(value):
        return f"tensor<{tensor(value[1])}{value[2]}>"

    def cast(self, value, kind, name=None):
        if value[2] == kind and name is None:
            return value
        result = (None, value[1], kind)
        return self.add(f"mpc.cast %{value[0]} : {self.type(value)} to {self.type(result)}", value[1], kind, name)

    def matmul(self, x, w):
        shape = x[1][:-1] + (w[1][-1],)
        result = self.type((None, shape, "f32"))
        return self.add(f"mpc.matmul %{x[0]}, %{w[0]} : ({self.type(x)}, {self.type(w)}) -> {result}", shape, "f32")

    def plus(self, x, y):
        x, y = self.cast(x, "f32"), self.cast(y, "f32")
        shape = x[1] if len(x[1]) >= len(y[1]) else y[1]
        result = self.type((None, shape, "f32"))
        return self.add(f"mpc.add %{x[0]}, %{y[0]} : ({self.type(x)}, {self.type(y)}) -> {result}", shape, "f32")

    def unary(self, op, x, suffix=""):
        return self.add(f"mpc.{op} %{x[0]}{suffix} : {self.type(x)}", x[1], x[2])

    def layer_norm(self, x, scale, shift):
        x, scale, shift = (self.cast(v, "f32") for v in (x, scale, shift))
        types = ", ".join(self.type(v) for v in (x, scale, shift))
        return self.add(f"mpc.layer_norm %{x[0]}, %{scale[0]}, %{shift[0]} axis({len(x[1]) - 1}) epsilon(1.0e-5)"
                        f" : ({types}) -> {self.type(x)}", x[1], "f32")

    def reshape(self, x, shape):
        result = self.type((None, shape, x[2]))
        return self.add(f"mpc.reshape %{x[0]} : {self.type(x)} to {result}", shape, x[2])

    def transpose(self, x, order):
        shape = [x[1][i] for i in order]
        result = self.type((None, shape, x[2]))
        return self.add(f"mpc.transpose %{x[0]} [{', '.join(map(str, order))}] : {self.type(x)} to {result}",
                        shape, x[2])

    def attention(self, q, k, v, scale):
        types = ", ".join(self.type(t) for t in (q, k, v))
        result = self.type((None, q[1], "f32"))
        return self.add(f"mpc.attention %{q[0]}, %{k[0]}, %{v[0]} scale({scale!r}) : ({types}) -> {result}",
                        q[1], "f32")

    def result(self):
        return "".join(self.lines)


def argument(shapes, name):
    return name, tuple(shapes[name]), "bf16"


def elementwise(name, title, extents, op, torch, jax):
    shapes = {"x": extents}
    t = Text()
    t.cast(t.unary(*op[:1], t.cast(argument(shapes, "x"), "f32"), *op[1:]), "bf16", "y")
    return Workload(name, title, shapes, {"y": extents}, t.result(), 0, torch, jax)


def layer_norm(extents):
    shapes = {"x": extents, "scale": extents[-1:], "shift": extents[-1:]}
    t = Text()
    t.cast(t.layer_norm(*(argument(shapes, name) for name in shapes)), "bf16", "y")
    return Workload("g9-layer-norm", "LayerNorm", shapes, {"y": extents}, t.result(), 0, "layer_norm", "layer_norm")


def linear_gelu(m, n, k):
    """Also stores the activation's input, for a training step."""
    shapes = {"x": (m, k), "w": (k, n), "b": (n,)}
    t = Text()
    x, w, b = (argument(shapes, name) for name in shapes)
    linear = t.plus(t.matmul(x, w), b)
    t.cast(linear, "bf16", "linear")
    t.cast(t.unary("gelu", linear, " form(tanh)"), "bf16", "y")
    return Workload("g12-linear-gelu", "matmul + bias + GELU + auxiliary output", shapes,
                    {"linear": (m, n), "y": (m, n)}, t.result(), 2 * m * n * k, "linear_gelu", "linear_gelu")


def bert_layer(batch, length, width, heads, inner):
    shapes = {"x": (batch, length, width)}
    for name in "qkvo":
        shapes |= {f"w{name}": (width, width), f"b{name}": (width,)}
    shapes |= {"w1": (width, inner), "b1": (inner,), "w2": (inner, width), "b2": (width,)}
    shapes |= {f"{kind}{i}": (width,) for i in "12" for kind in ("scale", "shift")}
    t = Text()
    a = {name: argument(shapes, name) for name in shapes}

    def head(name):
        rows = t.cast(t.plus(t.matmul(a["x"], a[f"w{name}"]), a[f"b{name}"]), "bf16")
        return t.transpose(t.reshape(rows, (batch, length, heads, width // heads)), (0, 2, 1, 3))
    mixed = t.cast(t.attention(*(head(name) for name in "qkv"), 1 / math.sqrt(width // heads)), "bf16")
    mixed = t.reshape(t.transpose(mixed, (0, 2, 1, 3)), (batch, length, width))
    summed = t.plus(t.plus(t.matmul(mixed, a["wo"]), a["bo"]), a["x"])
    normed = t.cast(t.layer_norm(summed, a["scale1"], a["shift1"]), "bf16")
    hidden = t.cast(t.unary("gelu", t.plus(t.matmul(normed, a["w1"]), a["b1"])), "bf16")
    summed = t.plus(t.plus(t.matmul(hidden, a["w2"]), a["b2"]), normed)
    t.cast(t.layer_norm(summed, a["scale2"], a["shift2"]), "bf16", "y")
    tokens = batch * length
    flops = 2 * tokens * (4 * width * width + 2 * width * inner) + 4 * tokens * length * width
    return Workload("g3-bert-layer", "BERT-base layer, forward", shapes, {"y": shapes["x"]}, t.result(), flops,
                    "bert_layer", "bert_layer")


def workloads():
    big = (8192, 4096)
    return [
        bert_layer(32, 128, 768, 12, 3072),
        layer_norm(big),
        elementwise("g9-softmax", "softmax", big, ("softmax", " axis(1)"), "softmax", "softmax"),
        elementwise("g9-gelu", "GELU", big, ("gelu",), "gelu", "gelu"),
        linear_gelu(8192, 4096, 4096),
    ]


def torch_function(name):
    import torch
    from torch.nn import functional as F

    def bert_layer(x, wq, bq, wk, bk, wv, bv, wo, bo, w1, b1, w2, b2, scale1, shift1, scale2, shift2):
        batch, length, width = x.shape

        def head(w, b):
            return (x @ w + b).view(batch, length, 12, width // 12).transpose(1, 2)
        mixed = F.scaled_dot_product_attention(head(wq, bq), head(wk, bk), head(wv, bv))
        mixed = mixed.transpose(1, 2).reshape(batch, length, width)
        normed = F.layer_norm(mixed @ wo + bo + x, (width,), scale1, shift1)
        hidden = F.gelu(normed @ w1 + b1)
        return F.layer_norm(hidden @ w2 + b2 + normed, (width,), scale2, shift2)

    def linear_gelu(x, w, b):
        linear = x @ w + b
        return linear, F.gelu(linear, approximate="tanh")

    return {
        "bert_layer": bert_layer,
        "linear_gelu": linear_gelu,
        "layer_norm": lambda x, scale, shift: F.layer_norm(x, x.shape[-1:], scale, shift),
        "softmax": lambda x: torch.softmax(x, -1),
        "gelu": F.gelu,
    }[name]


def jax_function(name):
    import jax
    import jax.numpy as jnp

    def norm(x, scale, shift):
        wide = x.astype(jnp.float32)
        centred = wide - wide.mean(-1, keepdims=True)
        unit = centred * jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
        return (unit * scale.astype(jnp.float32) + shift.astype(jnp.float32)).astype(x.dtype)

    def bert_layer(x, wq, bq, wk, bk, wv, bv, wo, bo, w1, b1, w2, b2, scale1, shift1, scale2, shift2):
        batch, length, width = x.shape

        def head(w, b):
            return (x @ w + b).reshape(batch, length, 12, width // 12)
        mixed = jax.nn.dot_product_attention(head(wq, bq), head(wk, bk), head(wv, bv), implementation="cudnn")
        normed = norm(mixed.reshape(batch, length, width) @ wo + bo + x, scale1, shift1)
        hidden = jax.nn.gelu(normed @ w1 + b1, approximate=False)
        return norm(hidden @ w2 + b2 + normed, scale2, shift2)

    def linear_gelu(x, w, b):
        linear = x @ w + b
        return linear, jax.nn.gelu(linear, approximate=True)

    return {
        "bert_layer": bert_layer,
        "linear_gelu": linear_gelu,
        "layer_norm": norm,
        "softmax": lambda x: jax.nn.softmax(x.astype(jnp.float32), -1).astype(x.dtype),
        "gelu": lambda x: jax.nn.gelu(x.astype(jnp.float32), approximate=False).astype(x.dtype),
    }[name]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for workload in workloads():
        (folder / f"{workload.name}.mlir").write_text(workload.mlir(), encoding="utf-8")


if __name__ == "__main__":
    main()
