# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Language models as .onnx files, which `mpc train` trains on sequences of tokens.

The GPT is nanoGPT's: learned positions, pre-norm blocks, no biases, and an output projection tied to
the embedding. A second file, which `mpc generate` decodes token by token, has the same weights under
the same names. The LSTM has PyTorch's initial deviations.
"""
import array
import dataclasses
import math

from onnx_file import FLOAT, INT64, Graph, Normal


class Network:
    """Weights by the shapes that a subclass lists; those without a deviation are initialized to one."""

    def parameters(self):
        return sum(math.prod(shape) for shape, _ in self.shapes().values())

    def draw(self, seed):
        normal, drawn = Normal(seed), {}
        for name, (shape, deviation) in self.shapes().items():
            count = math.prod(shape)
            drawn[name] = normal.draw(count, deviation) if deviation else array.array("f", [1.0]) * count
        return drawn

    def _begin(self, weights):
        graph = Graph()
        for name, (shape, _) in self.shapes().items():
            graph.weight(name, shape, weights[name])
        return graph


@dataclasses.dataclass
class Lstm(Network):
    vocabulary: int
    positions: int
    layers: int
    width: int

    def shapes(self):
        width, deviation = self.width, 1 / math.sqrt(3 * self.width)
        found = {"letter": ((self.vocabulary, width), 1.0)}
        for i in range(self.layers):
            for name, shape in (("input", (1, 4 * width, width)), ("state", (1, 4 * width, width)),
                                ("bias", (1, 8 * width))):
                found[f"layers.{i}.{name}"] = shape, deviation
        found["head"] = (width, self.vocabulary), deviation
        return found

    def write_trained(self, path, weights, batch):
        """Takes sequences of full length and returns the logits of every position."""
        graph = self._begin(weights)
        tokens = graph.input("tokens", INT64, (batch, self.positions))
        x = graph.op("Gather", ["letter", graph.op("Transpose", [tokens], "columns", perm=[1, 0])], "embedding")
        for i in range(self.layers):
            y = graph.op("LSTM", [x, *(f"layers.{i}.{name}" for name in ("input", "state", "bias"))],
                         f"layers.{i}.states", hidden_size=self.width)
            x = graph.op("Squeeze", [y, graph.integers(1)], f"layers.{i}")
        rows = graph.op("Transpose", [x], "rows", perm=[1, 0, 2])
        graph.op("MatMul", [rows, "head"], "logits")
        graph.output("logits", FLOAT, (batch, self.positions, self.vocabulary))
        graph.write(path)


@dataclasses.dataclass
class Gpt(Network):
    vocabulary: int
    positions: int
    layers: int
    heads: int
    width: int

    def shapes(self):
        last = 0.02 / math.sqrt(2 * self.layers)
        width = self.width
        found = {"letter": ((self.vocabulary, width), 0.02), "place": ((self.positions, width), 0.02)}
        for i in range(self.layers):
            for name, shape, deviation in (("norm1", (width,), None), ("qkv", (width, 3 * width), 0.02),
                                           ("out", (width, width), last), ("norm2", (width,), None),
                                           ("up", (width, 4 * width), 0.02), ("down", (4 * width, width), last)):
                found[f"blocks.{i}.{name}"] = shape, deviation
        found["norm"] = (width,), None
        return found

    def dropouts(self):
        """Dropout positions of nanoGPT, as named by `mpc train --dropout`."""
        return ["embedding", *(f"blocks.{i}.{name}_product" for i in range(self.layers) for name in ("out", "down"))]

    # Builders of the two graphs.

    def write_trained(self, path, weights, batch):
        """Takes sequences of full length and returns the logits of every position."""
        graph = self._begin(weights)
        tokens = graph.input("tokens", INT64, (batch, self.positions))
        x = graph.op("Gather", ["letter", tokens], "letters")
        x = graph.op("Add", [x, "place"], "embedding")
        places = graph.weight("places", (self.positions,), array.array("q", range(self.positions)))
        allowed = graph.op("LessOrEqual", [places, graph.op("Unsqueeze", [places, graph.integers(1)], "queries")],
                           "allowed")
        mask = graph.op("Where", [allowed, graph.real("zero", 0.0), graph.real("never", -1e9)], "mask")
        self._finish(graph, x, mask, (batch, self.positions))
        graph.write(path)

    def write_decoder(self, path, weights):
        """Inputs and outputs are those listed in docs/HowTo/Generate.md."""
        graph = self._begin(weights)
        ids = graph.input("input_ids", INT64, (1, "tokens"))
        seen = graph.input("attention_mask", INT64, (1, "total"))
        positions = graph.input("position_ids", INT64, (1, "tokens"))
        x = graph.op("Add", [graph.op("Gather", ["letter", ids], "letters"),
                             graph.op("Gather", ["place", positions], "position")], "embedding")
        count = {name: graph.op("Squeeze", [graph.op("Shape", [value], name + "_shape", start=1, end=2)], name)
                 for name, value in (("tokens", ids), ("total", seen))}
        zero, one = graph.integers(0, scalar=True), graph.integers(1, scalar=True)
        places = graph.op("Range", [zero, count["total"], one], "places")
        first = graph.op("Reshape", [graph.op("Sub", [count["total"], count["tokens"]], "past"), graph.integers(-1)],
                         "first")
        queries = graph.op("Slice", [places, first, graph.integers(2**63 - 1), graph.integers(0), graph.integers(1)],
                           "queries")
        behind = graph.op("LessOrEqual", [graph.op("Unsqueeze", [places, graph.integers(0)], "row"),
                                          graph.op("Unsqueeze", [queries, graph.integers(1)], "column")], "behind")
        allowed = graph.op("And", [graph.op("Unsqueeze", [behind, graph.integers(0, 1)], "behind4"),
                                   graph.op("Greater", [graph.op("Unsqueeze", [seen, graph.integers(1, 2)], "seen4"),
                                                        zero], "seen")], "allowed")
        mask = graph.op("Where", [allowed, graph.real("zero", 0.0), graph.real("never", -1e9)], "mask")
        size = self.width // self.heads
        cache = [graph.input(f"past_key_values.{i}.{kind}", FLOAT, (1, self.heads, "past", size))
                 for i in range(self.layers) for kind in ("key", "value")]
        self._finish(graph, x, mask, (1, "tokens"), cache)
        for i in range(self.layers):
            for kind in ("key", "value"):
                graph.output(f"present.{i}.{kind}", FLOAT, (1, self.heads, "total", size))
        graph.write(path)

    def _finish(self, graph, x, mask, rows, cache=None):
        graph.real("root", math.sqrt(self.width // self.heads))
        for i in range(self.layers):
            x = self._block(graph, f"blocks.{i}", x, mask, cache and cache[2 * i:2 * i + 2])
        x = graph.op("LayerNormalization", [x, "norm"], "normed", axis=-1, epsilon=1e-5)
        graph.op("MatMul", [x, graph.op("Transpose", ["letter"], "head", perm=[1, 0])], "logits")
        graph.output("logits", FLOAT, (*rows, self.vocabulary))

    def _block(self, graph, name, x, mask, past):
        def op(kind, inputs, end, outputs=1, **attributes):
            return graph.op(kind, inputs, f"{name}.{end}", outputs, **attributes)

        def normed(value, end):
            return op("LayerNormalization", [value, f"{name}.{end}"], end + "_normed", axis=-1, epsilon=1e-5)

        apart = graph.integers(1, -1, self.heads, self.width // self.heads) if past else \
            graph.integers(0, 0, self.heads, self.width // self.heads)
        parts = op("Split", [op("MatMul", [normed(x, "norm1"), f"{name}.qkv"], "qkv_product")], "part", 3,
                   axis=2, num_outputs=3)
        q, k, v = (op("Transpose", [op("Reshape", [part, apart], f"{kind}_apart")], kind, perm=[0, 2, 1, 3])
                   for part, kind in zip(parts, "qkv"))
        if past:
            layer = name.rsplit(".", 1)[1]
            k, v = (graph.op("Concat", [old, new], f"present.{layer}.{kind}", axis=2)
                    for old, new, kind in zip(past, (k, v), ("key", "value")))
        scores = op("MatMul", [q, op("Transpose", [k], "keys", perm=[0, 1, 3, 2])], "scores")
        scores = op("Add", [op("Div", [scores, "root"], "scaled"), mask], "masked")
        y = op("MatMul", [op("Softmax", [scores], "shares", axis=-1), v], "attended")
        together = graph.integers(1, -1, self.width) if past else graph.integers(0, 0, self.width)
        y = op("Reshape", [op("Transpose", [y], "rows", perm=[0, 2, 1, 3]), together], "together")
        x = op("Add", [x, op("MatMul", [y, f"{name}.out"], "out_product")], "attention")
        y = op("Gelu", [op("MatMul", [normed(x, "norm2"), f"{name}.up"], "up_product")], "gelu")
        return op("Add", [x, op("MatMul", [y, f"{name}.down"], "down_product")], "mlp")
