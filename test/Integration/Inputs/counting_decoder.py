# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes a decoder of one block that derives positions, or is given them. Prints the most likely tokens according to
ONNX Runtime, with a cache that grows token by token.
  mask       ALiBi, keys counted by the attention mask, as BLOOM's
  distance   ALiBi, keys counted back from the newest one, as MPT's
  rotary     rotary positions from the length of the past, as Llama's
  table      learned positions from the length of the past, as GPT-2's
  counted    learned positions counted by the attention mask, as OPT's
  given      learned positions from an input 'position_ids'
  offset     learned positions after two unused rows of the table, as OPT's without padding
  first      learned positions counted from the first visible row
  last       learned positions counted back from the sum of the mask
  rows       learned distances of keys from the first visible row; negative for hidden rows
  window     rotary positions, and ALiBi counted by the mask, with a window of 9 tokens
and decoders in which unfilled cache rows or padding tokens matter:
  padding    learned positions from the length minus the number of hidden rows
  squared    a bias by the square of the number of rows, which is no position
  unmasked   a second attention without the mask
  later      attention to later tokens
  pooled     the mean of all cached values
  picked     the values of the oldest row
  normed     keys normalized after the cache, which gives NaN for rows of zeros
and decoders whose tokens depend on the number of later ones:
  total      a factor by the number of rows
  shown      a factor by the sum of the mask
  back       learned positions counted back from the newest token
  final      logits of the last token only
usage: counting_decoder.py FILE KIND PROMPT TOKENS"""
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

HEADS, SIZE, WORDS, ROWS = 2, 8, 53, 64
WIDTH = HEADS * SIZE


class Graph:
    def __init__(self):
        self.nodes, self.constants = [], []

    def constant(self, value, dtype=np.int64):
        name = f"constant{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def __call__(self, op, *inputs, name=None, **attributes):
        name = name or f"{op.lower()}{len(self.nodes)}"
        given = [each if isinstance(each, str) else self.constant(each) for each in inputs]
        self.nodes.append(helper.make_node(op, given, [name], **attributes))
        return name

    def real(self, value):
        return self("Cast", value, to=TensorProto.FLOAT)

    def extent(self, value, dimension):
        return self("Gather", self("Shape", value), dimension)


def build(kind):
    g, source = Graph(), np.random.RandomState(5)

    def weight(*shape, scale=1.0):
        return g.constant(scale * source.randn(*shape), np.float32)

    past, new = g.extent("past_key_values.0.key", 2), g.extent("input_ids", 1)
    total = g("Add", past, new)
    rows, own = g("Range", 0, total, 1), g("Range", past, total, 1)
    shown = g("Cast", "attention_mask", to=TensorProto.BOOL)
    causal = g("LessOrEqual", g("Unsqueeze", rows, [0]), g("Unsqueeze", own, [1]))
    if kind == "window":
        causal = g("And", causal, g("Greater", g("Unsqueeze", rows, [0]), g("Unsqueeze", g("Sub", own, 9), [1])))
    mask = g("Unsqueeze", shown, [1, 2])
    if kind != "later":
        mask = g("And", causal, mask)
    bias = g("Where", mask, g.constant(0, np.float32), g.constant(-1e9, np.float32))
    counted = g("Mul", g("Sub", g("CumSum", "attention_mask", 1), 1), "attention_mask")

    def sloped(places):
        return g("Mul", g.constant(np.array([0.5, 0.1]).reshape(1, HEADS, 1, 1), np.float32), g.real(places))

    x = g("Gather", weight(WORDS, WIDTH), "input_ids")
    hidden = g("ReduceSum", g("Sub", 1, "attention_mask"), [1], keepdims=1)
    first = g("ArgMax", "attention_mask", axis=1, keepdims=1)
    if kind in ("mask", "window"):
        bias = g("Add", bias, sloped(g("Unsqueeze", counted, [1, 2])))
    elif kind == "distance":
        back = g("Range", g("Sub", 1, total), 1, 1)
        bias = g("Add", bias, sloped(back))
    elif kind == "table":
        x = g("Add", x, g("Gather", weight(ROWS, WIDTH), own))
    elif kind == "counted":
        fresh = g("Slice", counted, g("Unsqueeze", past, [0]), [1 << 40], [1])
        x = g("Add", x, g("Gather", weight(ROWS, WIDTH), fresh))
    elif kind == "given":
        x = g("Add", x, g("Gather", weight(ROWS, WIDTH), "position_ids"))
    elif kind == "offset":
        x = g("Add", x, g("Gather", weight(ROWS, WIDTH), g("Add", own, 2)))
    elif kind == "first":
        x = g("Add", x, g("Gather", weight(ROWS, WIDTH), g("Sub", own, first)))
    elif kind == "rows":
        learned = g("Gather", weight(ROWS, HEADS), g("Sub", rows, first))
        bias = g("Add", bias, g("Unsqueeze", g("Transpose", learned, perm=[0, 2, 1]), [2]))
    elif kind == "padding":
        x = g("Add", x, g("Gather", weight(ROWS, WIDTH), g("Sub", own, hidden)))
    elif kind == "last":
        shown_rows = g("ReduceSum", "attention_mask", [1], keepdims=1)
        x = g("Add", x, g("Gather", weight(ROWS, WIDTH), g("Add", g("Sub", shown_rows, new), g("Range", 0, new, 1))))
    elif kind in ("total", "shown"):
        length = total if kind == "total" else g("ReduceSum", "attention_mask", keepdims=0)
        x = g("Mul", x, g("Mul", g.real(length), g.constant(0.05, np.float32)))
    elif kind == "back":
        x = g("Add", x, g("Gather", weight(ROWS, WIDTH), g("Range", g("Sub", new, 1), -1, -1)))
    elif kind == "squared":
        bias = g("Add", bias, g.real(g("Mul", rows, rows)))

    def heads(weights):
        return g("Transpose", g("Reshape", g("MatMul", x, weights), [0, 0, HEADS, SIZE]), perm=[0, 2, 1, 3])

    q, k, v = (heads(weight(WIDTH, WIDTH, scale=0.3)) for _ in range(3))
    if kind in ("rotary", "window"):
        rates = g.constant(np.tile(10.0 ** -np.linspace(0, 2, SIZE // 2), 2), np.float32)
        angles = g("Mul", g("Unsqueeze", g.real(own), [1]), rates)
        cos, sin = g("Cos", angles), g("Sin", angles)

        def turn(t):
            low, high = (g("Slice", t, [begin], [begin + SIZE // 2], [3]) for begin in (0, SIZE // 2))
            return g("Add", g("Mul", t, cos), g("Mul", g("Concat", g("Neg", high), low, axis=3), sin))

        q, k = turn(q), turn(k)
    k = g("Concat", "past_key_values.0.key", k, axis=2, name="present.0.key")
    v = g("Concat", "past_key_values.0.value", v, axis=2, name="present.0.value")
    keys = k
    if kind == "normed":
        size = g("Sqrt", g("ReduceSum", g("Mul", keys, keys), [3]))
        keys = g("Div", keys, size)
    scores = g("Mul", g("MatMul", q, g("Transpose", keys, perm=[0, 1, 3, 2])), g.constant(SIZE ** -0.5, np.float32))
    y = g("MatMul", g("Softmax", g("Add", scores, bias), axis=-1), v)
    if kind == "unmasked":
        y = g("Add", y, g("MatMul", g("Softmax", scores, axis=-1), v))
    elif kind == "pooled":
        y = g("Add", y, g("ReduceMean", v, axes=[2], keepdims=1))
    elif kind == "picked":
        y = g("Add", y, g("Gather", v, [0], axis=2))
    y = g("Reshape", g("Transpose", y, perm=[0, 2, 1, 3]), [0, 0, WIDTH])
    x = g("Add", x, g("MatMul", y, weight(WIDTH, WIDTH)))
    if kind == "final":
        x = g("Gather", x, [-1], axis=1)
    g("MatMul", x, weight(WIDTH, WORDS), name="logits")

    value = helper.make_tensor_value_info
    cache = [f"0.{each}" for each in ("key", "value")]
    inputs = [value("input_ids", TensorProto.INT64, ["batch", "tokens"]),
              value("attention_mask", TensorProto.INT64, ["batch", "total"])]
    inputs += [value("position_ids", TensorProto.INT64, ["batch", "tokens"])] * (kind == "given")
    inputs += [value(f"past_key_values.{each}", TensorProto.FLOAT, ["batch", HEADS, "past", SIZE]) for each in cache]
    outputs = [value("logits", TensorProto.FLOAT, ["batch", "tokens", WORDS])]
    outputs += [value(f"present.{each}", TensorProto.FLOAT, ["batch", HEADS, "total", SIZE]) for each in cache]
    graph = helper.make_graph(g.nodes, "decoder", inputs, outputs, g.constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


def main():
    path, kind, prompt, tokens = sys.argv[1:]
    onnx.save(build(kind), path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    fed, chosen, length = [int(token) for token in prompt.split(",")], [], 0
    past = {f"past_key_values.0.{each}": np.zeros((1, HEADS, 0, SIZE), np.float32) for each in ("key", "value")}
    while len(chosen) < int(tokens):
        positions = {"position_ids": np.arange(length, length + len(fed))[None]} if kind == "given" else {}
        length += len(fed)
        logits, *present = session.run(["logits", "present.0.key", "present.0.value"], {
            "input_ids": np.array([fed]), "attention_mask": np.ones((1, length), np.int64), **positions, **past})
        past = dict(zip(past, present))
        fed = [int(np.argmax(logits[0, -1]))]
        chosen += fed
    print(",".join(map(str, chosen)))


main()
