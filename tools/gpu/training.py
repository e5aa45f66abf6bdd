#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The training steps of bench.sh and check.sh: each as a forward model in mpc's text, and as calls
of training_peers.py's functions for PyTorch and JAX.

usage: training.py models FOLDER [small]      writes FOLDER/NAME.mlir, and FOLDER/NAME.flags,
                                              what --training takes
       training.py data NAME FILE.npz [small] writes what a step is given: batch, labels, weights
       training.py agree NAME INPUTS.npz EXPECTED.npz
                                              compares a step of the small workload NAME in
                                              PyTorch, in float64 on the CPU, with what
                                              `mpc check --training --save` wrote
"""
import json
import math
import pathlib
import sys

from workloads import Text, tensor

# Adam's hyperparameters, in every system.
RATE, BETAS, EPSILON = 1e-3, (0.9, 0.999), 1e-8


class Training:
    """A model and the kind of step. `parameters` are shapes by name, weights as (input, output); `forward`
    is the model in PyTorch's or JAX's functions (training_peers.py)."""

    def __init__(self, name, title, batch, parameters, body, output, loss, flops, forward, part="step"):
        self.name, self.title, self.batch, self.parameters = name, title, batch, parameters
        self.body, self.output, self.loss, self.flops = body, output, loss, flops
        self.forward, self.part = forward, part

    def flags(self):
        return f"{self.part} loss={self.loss} optimizer=adam learning-rate={RATE}"

    def count(self):
        return sum(map(math.prod, self.parameters.values()))

    def bytes(self):
        """Bytes of memory traffic of the update: reads gradient, parameter and two moments, writes the last
        three and a 16-bit copy (without products: a wider gradient and no copy)."""
        return 28 * self.count()

    def label(self):
        """Shape of the labels; class labels are integers."""
        shape = self.output[1]
        return shape[:-1] if self.loss == "softmax_cross_entropy" else shape

    def mlir(self):
        name, shape = self.batch
        lines = [f'func.func @main(%{name}: tensor<{tensor(shape)}f32> '
                 f'{{mpc.role = #mpc.role<input>, mpc.name = "{name}"}})',
                 f'    -> (tensor<{tensor(self.output[1])}f32> '
                 f'{{mpc.role = #mpc.role<output>, mpc.name = "y"}}) {{']
        for name, shape in self.parameters.items():
            value = "1.0" if name.startswith("scale") else "0.0" if len(shape) == 1 else "0.01"
            lines.append(f'  %{name} = mpc.constant dense<{value}> : tensor<{tensor(shape)}f32> loc("{name}")')
        output = f"%{self.output[0]} : tensor<{tensor(self.output[1])}f32>"
        return "\n".join(lines) + f"\n{self.body}  return {output}\n}}\n"

    def draw(self, generator):
        """The batch, the labels and the weights: all inputs of a run besides the file. Weights are scaled to
        preserve the activations' variance."""
        import numpy

        def normal(shape, deviation=1.0):
            return (generator.standard_normal(shape, dtype=numpy.float32) * numpy.float32(deviation))
        drawn = {name: normal(shape, 1 / math.sqrt(math.prod(shape) / fan_out(shape)))
                 for name, shape in self.parameters.items() if len(shape) > 1}
        if self.part == "apply":
            return drawn | {f"{name}.gradient": normal(shape) for name, shape in self.parameters.items()}
        drawn[self.batch[0]] = normal(self.batch[1])
        classes = self.output[1][-1]
        drawn["label"] = (generator.integers(0, classes, self.label()).astype(numpy.int32)
                          if self.loss == "softmax_cross_entropy" else normal(self.label()))
        return drawn


def fan_out(shape):
    return shape[0] if len(shape) == 4 else shape[-1]


class Model(Text):
    """Builds the body of a forward model in f32."""

    def value(self, name, shape):
        return name, tuple(shape), "f32"

    def conv(self, x, w):
        (n, _, height, width), (outputs, _, kh, kw) = x[1], w[1]
        shape = (n, outputs, height - kh + 1, width - kw + 1)
        result = self.type((None, shape, "f32"))
        return self.add(f"mpc.conv %{x[0]}, %{w[0]} strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1])"
                        f" : ({self.type(x)}, {self.type(w)}) -> {result}", shape, "f32")

    def max_pool(self, x):
        shape = x[1][:2] + tuple(extent // 2 for extent in x[1][2:])
        result = self.type((None, shape, "f32"))
        return self.add(f"mpc.max_pool %{x[0]} window([2, 2]) strides([2, 2]) pad([0, 0], [0, 0]) dilations([1, 1])"
                        f" : {self.type(x)} -> {result}", shape, "f32")


#===------------------------------------------------------------------------------------===#
# Workloads
#===------------------------------------------------------------------------------------===#


def mlp(batch, features, width, classes):
    extents = [features, width, width, classes]
    parameters = {}
    for i in range(3):
        parameters |= {f"w{i}": (extents[i], extents[i + 1]), f"b{i}": (extents[i + 1],)}
    t = Model()
    h = t.value("x", (batch, features))
    for i in range(3):
        h = t.plus(t.matmul(h, t.value(f"w{i}", parameters[f"w{i}"])), t.value(f"b{i}", parameters[f"b{i}"]))
        h = t.unary("relu", h) if i < 2 else h
    # The gradient of the batch is not computed.
    products = [extents[i] * extents[i + 1] for i in range(3)]
    flops = 2 * batch * (3 * sum(products) - products[0])

    def forward(f, p, x):
        for i in range(3):
            x = f.linear(x, p[f"w{i}"], p[f"b{i}"])
            x = f.relu(x) if i < 2 else x
        return x
    return Training("g1-mlp", f"MLP, batch {batch}", ("x", (batch, features)), parameters, t.result(), h,
                    "softmax_cross_entropy", flops, forward)


def cnn(batch, size, channels, width):
    inner = channels[1] * ((size - 4) // 2) ** 2
    parameters = {"f1": (channels[0], 1, 3, 3), "c1": (channels[0], 1, 1), "f2": (channels[1], channels[0], 3, 3),
                  "c2": (channels[1], 1, 1), "w1": (inner, width), "b1": (width,), "w2": (width, 10), "b2": (10,)}
    t = Model()
    a = {name: t.value(name, shape) for name, shape in parameters.items()}
    h = t.value("x", (batch, 1, size, size))
    for i in "12":
        h = t.unary("relu", t.plus(t.conv(h, a[f"f{i}"]), a[f"c{i}"]))
    h = t.reshape(t.max_pool(h), (batch, inner))
    h = t.unary("relu", t.plus(t.matmul(h, a["w1"]), a["b1"]))
    h = t.plus(t.matmul(h, a["w2"]), a["b2"])
    first = 9 * channels[0] * (size - 2) ** 2
    second = 9 * channels[0] * channels[1] * (size - 4) ** 2
    flops = 2 * batch * (2 * first + 3 * (second + inner * width + width * 10))

    def forward(f, p, x):
        for i in "12":
            x = f.relu(f.conv(x, p[f"f{i}"], p[f"c{i}"]))
        x = f.relu(f.linear(f.flatten(f.max_pool(x)), p["w1"], p["b1"]))
        return f.linear(x, p["w2"], p["b2"])
    return Training("g2-mnist-cnn", f"MNIST CNN, batch {batch}", ("x", (batch, 1, size, size)), parameters,
                    t.result(), h, "softmax_cross_entropy", flops, forward)


def bert_layer(batch, length, width, heads, inner):
    parameters = {}
    for name in "qkvo":
        parameters |= {f"w{name}": (width, width), f"b{name}": (width,)}
    parameters |= {"w1": (width, inner), "b1": (inner,), "w2": (inner, width), "b2": (width,)}
    parameters |= {f"{kind}{i}": (width,) for i in "12" for kind in ("scale", "shift")}
    t = Model()
    a = {name: t.value(name, shape) for name, shape in parameters.items()}
    x = t.value("x", (batch, length, width))

    def head(name):
        rows = t.plus(t.matmul(x, a[f"w{name}"]), a[f"b{name}"])
        return t.transpose(t.reshape(rows, (batch, length, heads, width // heads)), (0, 2, 1, 3))
    mixed = t.attention(*(head(name) for name in "qkv"), 1 / math.sqrt(width // heads))
    mixed = t.reshape(t.transpose(mixed, (0, 2, 1, 3)), (batch, length, width))
    normed = t.layer_norm(t.plus(t.plus(t.matmul(mixed, a["wo"]), a["bo"]), x), a["scale1"], a["shift1"])
    hidden = t.unary("gelu", t.plus(t.matmul(normed, a["w1"]), a["b1"]))
    y = t.layer_norm(t.plus(t.plus(t.matmul(hidden, a["w2"]), a["b2"]), normed), a["scale2"], a["shift2"])
    # The backward pass of attention recomputes the scores: five products where forward has two. The gradient
    # of the batch, from three of the products, is not computed.
    tokens = batch * length
    products = 2 * tokens * (4 * width * width + 2 * width * inner)
    flops = 3 * products - 2 * tokens * 3 * width * width + 14 * tokens * length * width

    def forward(f, p, x):
        q, k, v = f.projections(x, [p[f"w{n}"] for n in "qkv"], [p[f"b{n}"] for n in "qkv"], heads)
        mixed = f.attention(q, k, v)
        normed = f.layer_norm(f.linear(mixed, p["wo"], p["bo"]) + x, p["scale1"], p["shift1"])
        hidden = f.gelu(f.linear(normed, p["w1"], p["b1"]))
        return f.layer_norm(f.linear(hidden, p["w2"], p["b2"]) + normed, p["scale2"], p["shift2"])
    return Training("g4-bert-layer", f"BERT-base layer, batch {batch}, {length} positions",
                    ("x", (batch, length, width)), parameters, t.result(), y, "mean_squared_error", flops, forward)


def update(width, count):
    """Unscaling, the finiteness check and Adam only, on given gradients."""
    parameters = {f"w{i}": (width, width) for i in range(count)}
    t = Model()
    h = t.value("x", (1, width))
    for name, shape in parameters.items():
        h = t.matmul(h, t.value(name, shape))
    return Training("g11-update", f"scaler and Adam, {width * width * count / 1e6:.0f} M parameters", ("x", (1, width)),
                    parameters, t.result(), h, "mean_squared_error", 0, None, part="apply")


def workloads(small=False):
    """Named after the goals; the small ones have the same ops."""
    if small:
        return [mlp(16, 24, 32, 10), cnn(4, 12, (8, 16), 24), bert_layer(2, 16, 64, 4, 128), update(48, 2)]
    return [mlp(8192, 784, 4096, 10), cnn(256, 28, (32, 64), 128), bert_layer(32, 128, 768, 12, 3072),
            update(4096, 6)]


def find(name, small=False):
    return {workload.name: workload for workload in workloads(small)}[name]


#===------------------------------------------------------------------------------------===#
# Commands
#===------------------------------------------------------------------------------------===#


def write_models(folder, small):
    folder.mkdir(parents=True, exist_ok=True)
    for workload in workloads(small):
        (folder / f"{workload.name}.mlir").write_text(workload.mlir(), encoding="utf-8")
        (folder / f"{workload.name}.flags").write_text(workload.flags() + "\n", encoding="utf-8")


def agree(name, given, expected):
    """Both sides compute in float64; constants of the model are f32, so the learning rate and the betas
    differ by a rounding, and derived values by a few."""
    import numpy
    import training_peers
    workload = find(name, small=True)
    step = training_peers.TorchStep(workload, numpy.load(given), "cpu", "float64")
    step()
    wanted, report, ok = numpy.load(expected), [], True

    def size(array):
        return float(numpy.sqrt(numpy.mean(array ** 2)))
    # A value that is 0 up to rounding (the gradient of the keys' bias) has no relative error.
    largest = {}
    for key in wanted.files:
        kind = key.partition(".")[2]
        largest[kind] = max(largest.get(kind, 0), size(wanted[key].astype(float)))
    for key, array in step.arrays().items():
        error, least = size(array - wanted[key]), 2.0 ** -40 * largest[key.partition(".")[2]]
        limit = max(2.0 ** -20 * size(wanted[key]), least)
        # NaN exceeds every limit.
        ok &= error <= limit
        report.append({"name": key, "rms_error": error, "limit": limit})
    print(json.dumps({"ok": ok, "arrays": report}))
    return 0 if ok else 4


def main():
    if len(sys.argv) in (3, 4) and sys.argv[1] == "models":
        return write_models(pathlib.Path(sys.argv[2]), sys.argv[3:] == ["small"])
    if len(sys.argv) in (4, 5) and sys.argv[1] == "data":
        import numpy
        drawn = find(sys.argv[2], sys.argv[4:] == ["small"]).draw(numpy.random.default_rng(1))
        return numpy.savez(sys.argv[3], **drawn)
    if len(sys.argv) == 5 and sys.argv[1] == "agree":
        return agree(*sys.argv[2:])
    return __doc__


if __name__ == "__main__":
    sys.exit(main())
