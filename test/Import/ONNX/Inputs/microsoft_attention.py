# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the attention operators of ONNX Runtime, in all supported forms, with it.
usage: microsoft_attention.py MPC FOLDER"""
import sys

import numpy as np
import onnx
from onnx import helper

sys.dont_write_bytecode = True
from held import Held  # noqa: E402

BATCH, LENGTH, WIDTH, HEADS = 2, 5, 16, 2
held = Held(sys.argv[1], sys.argv[2])
source = np.random.RandomState(1)


def floats(*shape):
    return source.randn(*shape).astype(np.float32)


def some(*shape):
    return (source.rand(*shape) > 0.3).astype(np.int32)


def hold(name, op, names, outputs, arrays, **attributes):
    """Checks a node with inputs `names` ("-" is absent), whose arrays are those of `arrays` in order."""
    names = ["" if each == "-" else each for each in names.split()]
    node = helper.make_node(op, names, outputs, domain="com.microsoft", num_heads=HEADS, **attributes)
    held.hold(name, [node], dict(zip(filter(None, names), arrays)), dict.fromkeys(outputs, onnx.TensorProto.FLOAT))


x, weights, bias = floats(BATCH, LENGTH, WIDTH), floats(WIDTH, 3 * WIDTH) * np.float32(0.3), floats(3 * WIDTH)
packed = [x, weights, bias]
hold("plain", "Attention", "x w b", ["y"], packed)
hold("keys", "Attention", "x w b m", ["y"], [*packed, some(BATCH, LENGTH)])
hold("lengths", "Attention", "x w b m", ["y"], [*packed, np.array([5, 3], np.int32)])
hold("pairs", "Attention", "x w b m", ["y"], [*packed, some(BATCH, LENGTH, LENGTH)], scale=0.3)
hold("past", "Attention", "x w b - p", ["y", "present"], [*packed, floats(2, BATCH, HEADS, 3, 8)], unidirectional=1)
hold("widths", "Attention", "x w b - - a", ["y"],
     [x, floats(WIDTH, 28) * np.float32(0.3), floats(28), floats(BATCH, HEADS, LENGTH, LENGTH)],
     qkv_hidden_sizes=[8, 8, 12])

three = [floats(BATCH, LENGTH, WIDTH) for _ in range(3)]
hold("cross", "MultiHeadAttention", "q k v", ["y"], [x, floats(BATCH, 7, WIDTH), floats(BATCH, 7, WIDTH)])
hold("causal", "MultiHeadAttention", "q k v b", ["y"], [*three, bias], unidirectional=1)
hold("masked", "MultiHeadAttention", "q k v b m a", ["y"],
     [*three, bias, some(BATCH, LENGTH), floats(1, HEADS, LENGTH, LENGTH)])
hold("cached", "MultiHeadAttention", "q k v - - - pk pv", ["y", "k2", "v2"],
     [floats(BATCH, 1, WIDTH) for _ in range(3)] + [floats(BATCH, HEADS, 4, 8) for _ in range(2)], scale=0.2)
hold("heads", "MultiHeadAttention", "q k v", ["y"], [x, floats(BATCH, HEADS, 7, 8), floats(BATCH, HEADS, 7, 8)])
sys.exit(held.end())
