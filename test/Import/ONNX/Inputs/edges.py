# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models with extreme but valid operands, compared with ONNX Runtime.
usage: edges.py MPC FOLDER"""
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper

sys.dont_write_bytecode = True
from held import Held  # noqa: E402

FLOAT, INT32, INT8 = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT8
NUMBERS = np.random.RandomState(1)


def floats(*shape):
    return NUMBERS.randn(*shape).astype(np.float32)


def old_resampling(held):
    """Before opset 11 the nearest position is the next one where an axis shrinks; extents are f32 products."""
    image = np.arange(1, 9, dtype=np.float32).reshape(1, 1, 2, 4)
    held.opset = 10
    node = helper.make_node("Resize", ["x", "s"], ["y"])
    held.hold("resize-10", [node], {"x": image}, {"y": FLOAT}, {"s": np.array([1, 1, 0.6, 0.6], np.float32)},
              {"y": np.array([[[[1, 3]]]], np.float32)})
    image = floats(1, 1, 10, 20)
    for scales in ((0.3, 0.7), (2.3, 1.1), (0.9, 2.5)):
        held.hold(f"resize-10-{scales[0]}", [node], {"x": image}, {"y": FLOAT},
                  {"s": np.array([1, 1, *scales], np.float32)})
    # Extents follow in f32: 0.9 of 10 is 9.
    held.opset = 18
    for scales in ((0.9, 1.1), (2.3, 0.7)):
        held.hold(f"resize-18-{scales[0]}", [helper.make_node("Resize", ["x", "", "s"], ["y"], mode="linear")],
                  {"x": image}, {"y": FLOAT}, {"s": np.array([1, 1, *scales], np.float32)}, tolerance=2e-5)


def resampled_integers(held):
    """A sum that ends on a half is rounded as the interpreter does it."""
    held.opset = 18
    node = helper.make_node("Resize", ["x", "", "", "z"], ["y"], mode="linear")
    feeds = {"x": np.array([[[[1, -100], [3, 127]]]], np.int8)}
    path, inputs = str(held.folder / "integers.onnx"), str(held.folder / "integers.npz")
    onnx.save(held.model([node], feeds, {"z": np.array([1, 1, 3, 5])}, {"y": INT8}), path)
    np.savez(inputs, **feeds)
    held.call("integers", "check", path, "--device", "cpu", "--inputs", inputs)
    held.hold("nothing", [node], {"x": floats(0, 2, 4, 7)}, {"y": FLOAT}, {"z": np.array([0, 2, 3, 3])},
              {"y": floats(0, 2, 3, 3)})


def cubic_border(held):
    held.opset = 20
    for aligned in (0, 1):
        node = helper.make_node("GridSample", ["x", "g"], ["y"], mode="cubic", padding_mode="border",
                                align_corners=aligned)
        held.hold(f"cubic-border{aligned}", [node], {"x": floats(2, 3, 4, 5), "g": 3 * floats(2, 3, 4, 2)},
                  {"y": FLOAT}, tolerance=2e-5)


def integer_vectors(held):
    held.opset = 17
    node = helper.make_node("MatMulInteger", ["a", "b", "z"], ["y"])
    vector, matrix = NUMBERS.randint(0, 256, 8).astype(np.uint8), NUMBERS.randint(-128, 128, (8, 3)).astype(np.int8)
    for name, a, b in (("row", vector, matrix), ("column", matrix.T.astype(np.uint8), vector.view(np.int8)),
                       ("dot", vector, vector.view(np.int8))):
        # Not ONNX Runtime's answer: its kernels for cores without VNNI saturate sums of two products.
        answer = np.matmul(a.astype(np.int32) - 200, b.astype(np.int32))
        held.hold(name, [node], {"a": a, "b": b}, {"y": INT32}, {"z": np.uint8(200)}, {"y": np.asarray(answer)})
    held.hold("mean", [helper.make_node("ReduceMean", ["x"], ["y"], axes=[0])],
              {"x": np.array([[2**31 - 1, 1], [3, -4]], np.int32)}, {"y": INT32},
              expected={"y": np.array([[2**30 + 1, -1]], np.int32)})


def no_iterations(held):
    """Results of loops with zero iterations: initial states, and empty scan outputs."""
    held.opset = 17
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["co"]), helper.make_node("Add", ["si", "si"], ["so"]),
         helper.make_node("Mul", ["so", "so"], ["ys"])],
        "body", [value("i", TensorProto.INT64, []), value("c", TensorProto.BOOL, []), value("si", FLOAT, [3])],
        [value("co", TensorProto.BOOL, []), value("so", FLOAT, [3]), value("ys", FLOAT, [3])])
    held.hold("loop", [helper.make_node("Loop", ["m", "", "s"], ["z", "y"], body=body)], {"s": floats(3)},
              {"z": FLOAT, "y": FLOAT}, {"m": np.int64(0)})
    for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        outputs = ["y", "h", "c"] if op == "LSTM" else ["y", "h"]
        node = helper.make_node(op, ["x", "w", "r", "", "", "h0"], outputs, hidden_size=3)
        start = floats(1, 2, 3)
        expected = {"y": floats(0, 1, 2, 3), "h": start, "c": np.zeros((1, 2, 3), np.float32)}
        held.hold(op, [node], {"x": floats(0, 2, 5), "h0": start}, {name: FLOAT for name in outputs},
                  {"w": floats(1, 3 * gates, 5), "r": floats(1, 3 * gates, 3)},
                  {name: expected[name] for name in outputs})


def default(held):
    """A given value overrides an initializer that is an input too."""
    held.opset = 17
    held.hold("default", [helper.make_node("Add", ["x", "w"], ["y"])], {"x": floats(2, 3), "w": floats(2, 3)},
              {"y": FLOAT}, {"w": floats(2, 3)})


def refusals(held):
    node = helper.make_node("GroupQueryAttention", ["q", "k", "v", "pk", "pv", "l", "t"], ["y", "ok", "ov"],
                            domain="com.microsoft", num_heads=4, kv_num_heads=2)
    feeds = {"q": floats(1, 3, 32), "k": floats(1, 3, 16), "v": floats(1, 3, 16), "pk": floats(1, 2, 3),
             "pv": floats(1, 2, 0, 8)}
    held.refuse("past", [node], feeds, {"y": FLOAT, "ok": FLOAT, "ov": FLOAT},
                {"l": np.array([2], np.int32), "t": np.int32(3)}, "past 'tensor<1x2x3xf32>' is not [1, 2, length, 8]")
    held.refuse("negative", [helper.make_node("ConstantOfShape", ["s"], ["y"])], {}, {"y": FLOAT},
                {"s": np.array([-1, 2])}, "a tensor of shape [-1, 2] has a negative extent")
    held.refuse("pads", [helper.make_node("Conv", ["x", "w"], ["y"], pads=[0, 2**40])], {"x": floats(1, 1, 5)},
                {"y": FLOAT}, {"w": floats(1, 1, 3)}, "has the entry 1099511627776, expected 0 to 2147483648")
    held.refuse("sizes", [helper.make_node("Resize", ["x", "", "", "z"], ["y"])], {"x": floats(3)}, {"y": FLOAT},
                {"z": np.array([2**62])}, "sizes has the entry 4.611686e+18, expected a positive number below 2^40")


def main():
    held = Held(sys.argv[1], sys.argv[2])
    for part in (old_resampling, resampled_integers, cubic_border, integer_vectors, no_iterations, default, refusals):
        part(held)
    return held.end()


if __name__ == "__main__":
    sys.exit(main())
