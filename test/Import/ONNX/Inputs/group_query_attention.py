# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares GroupQueryAttention and RotaryEmbedding of com.microsoft, in all supported forms, with ONNX Runtime.
usage: group_query_attention.py MPC FOLDER"""
import sys

import numpy as np
import onnx
from onnx import helper

sys.dont_write_bytecode = True
from held import Held  # noqa: E402

HEADS, GROUPS, SIZE = 4, 2, 16
FLOAT = onnx.TensorProto.FLOAT
held = Held(sys.argv[1], sys.argv[2])
source = np.random.RandomState(3)


def floats(*shape):
    return source.randn(*shape).astype(np.float32)


def tables(pairs, positions=24):
    angles = np.arange(positions)[:, None] * 10.0 ** -np.linspace(0, 3, pairs)[None]
    return {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}


def attend(name, lengths, new, total, past=None, packed=False, known=True, pairs=0, bias=False, sink=False,
           position_ids=False, capacity=None, refused=None, more=(), **attributes):
    """A node with `lengths` positions in each sample, `new` of which are appended, and a cache with capacity `past`.
    With `capacity` mpc gets that total, instead of the length of the longest sample.
    `refused` is the expected diagnostic, `more` are inputs that are not supported."""
    batch = len(lengths)
    feeds = {"q": floats(batch, new, (HEADS + (2 * GROUPS if packed else 0)) * SIZE)}
    if not packed:
        feeds.update(k=floats(batch, new, GROUPS * SIZE), v=floats(batch, new, GROUPS * SIZE))
    if past is not None:
        feeds.update(pk=floats(batch, GROUPS, past, SIZE), pv=floats(batch, GROUPS, past, SIZE))
        # Elements after a sample's past are unspecified: ONNX Runtime gives zeros.
        for sample, length in enumerate(lengths):
            for cache in ("pk", "pv"):
                feeds[cache][sample, :, 0 if new == total else max(length - new, 0):] = 0
    fixed = {"total": np.array(total, np.int32)}
    (fixed if known else feeds)["last"] = np.array(lengths, np.int32) - 1
    if pairs:
        fixed.update(tables(pairs))
        attributes["do_rotary"] = 1
    if position_ids:
        feeds["at"] = np.stack([np.arange(max(length - new, 0), max(length - new, 0) + new) for length in lengths])
    if bias:
        feeds["bias"] = floats(1, HEADS, new, total)
    if sink:
        feeds["sink"] = floats(HEADS)
    given = ["q", "k", "v", "pk", "pv", "last", "total", "cos", "sin", "at", "bias", "sink"]
    names = [each if each in feeds or each in fixed else "" for each in given]
    while more and len(names) < more[0]:
        names.append("")
    for array in more[1:]:
        names.append(f"more{len(names)}")
        feeds[names[-1]] = array
    node = helper.make_node("GroupQueryAttention", names, ["y", "k2", "v2"], domain="com.microsoft",
                            **{"num_heads": HEADS, "kv_num_heads": GROUPS, **attributes})
    outputs = {"y": FLOAT, "k2": FLOAT, "v2": FLOAT}
    if refused:
        held.refuse("refused-" + name, [node], feeds, outputs, fixed, refused)
        return
    expected = held.run(held.model([node], feeds, fixed, outputs).SerializeToString(), feeds, outputs)
    fixed["total"] = np.array(capacity or total, np.int32)
    held.hold(name, [node], feeds, outputs, fixed, expected)


attend("prompt", [5, 5], 5, 5)
attend("prompt-packed", [5, 5], 5, 5, packed=True, pairs=8)
attend("prompt-buffer", [6], 6, 6, past=9, pairs=8, known=False)
attend("step", [6, 6], 1, 6, past=5, pairs=8)
attend("step-packed", [6], 1, 6, past=5, packed=True, pairs=8, known=False, rotary_interleaved=1)
attend("step-buffer", [6, 6], 1, 6, past=12, pairs=8)
attend("step-lengths", [4, 6], 1, 6, past=5, pairs=8)
attend("step-at-run-time", [4, 6, 2], 1, 6, past=12, pairs=8, known=False)
attend("step-capacity", [4, 6], 1, 6, past=12, capacity=12, pairs=8, known=False)
attend("steps-capacity", [7], 3, 7, past=12, capacity=12, pairs=8, known=False)
attend("step-grown-at-run-time", [4, 6], 1, 6, past=5, known=False, scale=0.3)
attend("steps", [8], 3, 8, past=5, pairs=8)
attend("steps-buffer", [8], 3, 8, past=12, packed=True, pairs=8, known=False)
attend("window", [9], 9, 9, pairs=8, local_window_size=3)
attend("window-step", [9, 5], 1, 9, past=8, pairs=8, local_window_size=4, known=False)
attend("window-softcap", [7], 7, 7, softcap=1.5, local_window_size=2)
attend("softcap-step", [6, 3], 1, 6, past=8, softcap=0.7, known=False)
attend("smooth", [5, 5], 5, 5, smooth_softmax=1)
attend("sink-step", [5, 4], 1, 5, past=5, sink=True, known=False)
attend("bias", [6, 6], 1, 6, past=5, bias=True, pairs=8)
attend("bias-prompt", [4], 4, 4, bias=True, softcap=2.0)
attend("positions", [6, 6], 1, 6, past=5, pairs=8, position_ids=True)
SIZE = 32
attend("partial-rotation", [6, 6], 1, 6, past=5, pairs=8)
SIZE = 16
attend("both-ways", [5, 5], 5, 5, causal=0)
attend("both-ways-short", [5, 3], 5, 5, causal=0, known=False)
attend("quantised", [5], 5, 5, refused="attribute 'k_quant_type' is 'PER_TENSOR': a quantised cache is not supported",
       k_quant_type="PER_TENSOR")
attend("sliding", [9], 1, 9, past=4, refused="'sliding_window_cache' is 1: a sliding-window cache is not supported",
       sliding_window_cache=1, local_window_size=3)
attend("norms", [5], 5, 5, more=(14, floats(SIZE), floats(SIZE)),
       refused="input 14, norms of queries and keys, is not supported")
attend("padded", [5], 5, 5, more=(16, np.array([5], np.int32)),
       refused="input 16, padded queries ('query_seqlens'), is not supported")
attend("scores", [5], 5, 5, refused="returning the scores ('qk_output') is not supported", qk_output=1)
attend("heads", [5], 5, 5, refused="is 4, expected a multiple of 'kv_num_heads', which is 3", kv_num_heads=3)
attend("long", [9], 1, 6, past=5, refused="'seqlens_k' has 8, expected less than 'total_sequence_length', 6")
attend("table", [30], 30, 30, pairs=8, refused="are not two of at least 30 positions and at most 8 pairs")
attend("window", [5], 5, 5, refused="'local_window_size' is 2, expected a positive number where 'causal' is 1, or -1",
       causal=0, local_window_size=2)


def turn(name, shape, positions, pairs, **attributes):
    feeds = {"x": floats(*shape), "at": np.array(positions, np.int64)}
    node = helper.make_node("RotaryEmbedding", ["x", "at", "cos", "sin"], ["y"], domain="com.microsoft", **attributes)
    held.hold("turn-" + name, [node], feeds, {"y": FLOAT}, tables(pairs))


turn("first", (2, 5, 48), [3], 8)
turn("each", (2, 3, 48), [[0, 1, 2], [7, 5, 9]], 8, interleaved=1)
turn("heads", (2, 3, 4, 16), [[0, 1, 2, 3], [7, 5, 9, 1]], 8)
turn("partial", (2, 3, 48), [[0, 1, 2], [7, 5, 9]], 4, num_heads=3, rotary_embedding_dim=8)
sys.exit(held.end())
