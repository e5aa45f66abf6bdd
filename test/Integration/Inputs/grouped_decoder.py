# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes a decoder of one block whose attention is com.microsoft's GroupQueryAttention, as ONNX Runtime's exporters
write it: the rows that count are the sum of the mask, positions follow from them or are an input. Prints the tokens
that ONNX Runtime chooses, the most likely ones, with a cache that grows token by token.
usage: grouped_decoder.py FILE PROMPT TOKENS [--positions] [--window N] [--softcap X]"""
import argparse

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

HEADS, GROUPS, SIZE, WIDTH, WORDS, LONGEST = 4, 2, 16, 32, 53, 96


def model(positions, window, softcap):
    source = np.random.RandomState(5)
    angles = np.arange(LONGEST)[:, None] * 10.0 ** -np.linspace(0, 3, SIZE // 2)[None]
    floats = {"words": source.randn(WORDS, WIDTH), "head": source.randn(WIDTH, WORDS),
              "qkv": source.randn(WIDTH, (HEADS + 2 * GROUPS) * SIZE) / 3, "out": source.randn(HEADS * SIZE, WIDTH) / 4,
              "cos": np.cos(angles), "sin": np.sin(angles)}
    integers = {"one": np.array([1], np.int64), "axis": np.array([1], np.int64), "second": np.array(1, np.int64)}
    node = helper.make_node
    at = "position_ids" if positions else ""
    nodes = [
        node("ReduceSum", ["attention_mask", "axis"], ["count"], keepdims=0),
        node("Sub", ["count", "one"], ["last64"]), node("Cast", ["last64"], ["last"], to=onnx.TensorProto.INT32),
        node("Shape", ["attention_mask"], ["shape"]), node("Gather", ["shape", "second"], ["total64"], axis=0),
        node("Cast", ["total64"], ["total"], to=onnx.TensorProto.INT32),
        node("Gather", ["words", "input_ids"], ["x"]), node("MatMul", ["x", "qkv"], ["packed"]),
        node("GroupQueryAttention", ["packed", "", "", "past_key_values.0.key", "past_key_values.0.value", "last",
                                     "total", "cos", "sin", at], ["y", "present.0.key", "present.0.value"],
             domain="com.microsoft", num_heads=HEADS, kv_num_heads=GROUPS, do_rotary=1, local_window_size=window,
             softcap=softcap),
        node("MatMul", ["y", "out"], ["z"]), node("Add", ["x", "z"], ["w"]), node("MatMul", ["w", "head"], ["logits"])]
    value = helper.make_tensor_value_info
    integer, real = onnx.TensorProto.INT64, onnx.TensorProto.FLOAT
    inputs = [value("input_ids", integer, ["batch", "tokens"]), value("attention_mask", integer, ["batch", "total"])]
    inputs += [value("position_ids", integer, ["batch", "tokens"])] * positions
    inputs += [value(f"past_key_values.0.{each}", real, ["batch", GROUPS, "past", SIZE]) for each in ("key", "value")]
    outputs = [value("logits", real, ["batch", "tokens", WORDS])]
    outputs += [value(f"present.0.{each}", real, ["batch", GROUPS, "total", SIZE]) for each in ("key", "value")]
    given = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in floats.items()]
    given += [numpy_helper.from_array(array, name) for name, array in integers.items()]
    graph = helper.make_graph(nodes, "decoder", inputs, outputs, given)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("prompt")
    parser.add_argument("tokens", type=int)
    parser.add_argument("--positions", action="store_true")
    parser.add_argument("--window", type=int, default=-1)
    parser.add_argument("--softcap", type=float, default=0.0)
    arguments = parser.parse_args()
    onnx.save(model(arguments.positions, arguments.window, arguments.softcap), arguments.file)
    session = onnxruntime.InferenceSession(arguments.file, providers=["CPUExecutionProvider"])
    fed, chosen = [int(token) for token in arguments.prompt.split(",")], []
    past = {f"past_key_values.0.{each}": np.zeros((1, GROUPS, 0, SIZE), np.float32) for each in ("key", "value")}
    length = 0
    while len(chosen) < arguments.tokens:
        feeds = {"input_ids": np.array([fed]), "attention_mask": np.ones((1, length + len(fed)), np.int64), **past}
        if arguments.positions:
            feeds["position_ids"] = np.arange(length, length + len(fed))[None]
        logits, *present = session.run(["logits", "present.0.key", "present.0.value"], feeds)
        past = dict(zip(past, present))
        length += len(fed)
        fed = [int(np.argmax(logits[0, -1]))]
        chosen += fed
    print(",".join(map(str, chosen)))


main()
