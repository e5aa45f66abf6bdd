# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Generates random RoiAlign, DeformConv and Det nodes and compares them with ONNX Runtime.
usage: regions.py MPC FOLDER [SEED]"""
import random
import sys

import numpy as np
import onnx
from onnx import helper

sys.dont_write_bytecode = True
from held import Held  # noqa: E402

FLOAT = onnx.TensorProto.FLOAT


def floats(r, *shape):
    return np.random.RandomState(r.randrange(1 << 30)).randn(*shape).astype(np.float32)


def roi_align(r, opset):
    """A node with its feeds and initializers."""
    batch, height, width, count = r.randint(1, 3), r.randint(2, 9), r.randint(2, 9), r.randint(1, 4)
    scale = r.choice([1.0, 0.5, 0.25])
    rois = [[r.uniform(-2, width) / scale, r.uniform(-2, height) / scale] for _ in range(count)]
    rois = np.array([[x, y, x + r.uniform(-0.5, 9) / scale, y + r.uniform(-0.5, 9) / scale] for x, y in rois],
                    np.float32)
    attributes = {"mode": r.choice(["avg", "max"]), "output_height": r.randint(1, 4), "output_width": r.randint(1, 4),
                  "sampling_ratio": r.randint(0, 3), "spatial_scale": scale}
    if opset >= 16:
        attributes["coordinate_transformation_mode"] = r.choice(["half_pixel", "output_half_pixel"])
    feeds = {"x": floats(r, batch, r.randint(1, 3), height, width)}
    rest = {"rois": rois, "of": np.array([r.randrange(batch) for _ in range(count)], np.int64)}
    known = attributes["sampling_ratio"] == 0 or r.random() < 0.3
    fixed = rest if known else {}
    feeds.update({} if known else rest)
    return helper.make_node("RoiAlign", ["x", "rois", "of"], ["y"], **attributes), feeds, fixed


def deform_conv(r, _):
    groups, offsets = r.choice([1, 1, 2, 3]), r.choice([1, 2])
    channels, features = groups * offsets * r.randint(1, 2), groups * r.randint(1, 3)
    kernel, strides, dilations = ([r.randint(1, n), r.randint(1, n)] for n in (3, 2, 2))
    pads = [r.randint(0, 2) for _ in range(4)]
    image = [r.randint(5, 8), r.randint(5, 8)]
    result = [(e + pads[d] + pads[d + 2] - (kernel[d] - 1) * dilations[d] - 1) // strides[d] + 1
              for d, e in enumerate(image)]
    batch, window = r.randint(1, 2), kernel[0] * kernel[1]
    feeds = {"x": floats(r, batch, channels, *image), "w": floats(r, features, channels // groups, *kernel),
             "offset": 2 * floats(r, batch, offsets * window * 2, *result)}
    names = ["x", "w", "offset", "", ""]
    if r.random() < 0.5:
        names[3], feeds["b"] = "b", floats(r, features)
    if r.random() < 0.5:
        names[4], feeds["mask"] = "mask", np.abs(floats(r, batch, offsets * window, *result))
    while not names[-1]:
        names.pop()
    return helper.make_node("DeformConv", names, ["y"], group=groups, offset_group=offsets, strides=strides,
                            dilations=dilations, pads=pads), feeds, {}


def det(r, _):
    rows = r.randint(1, 7)
    x = floats(r, *[r.randint(1, 3) for _ in range(r.randint(0, 2))], rows, rows)
    if r.random() < 0.3:
        x[..., 0] = 0 if r.random() < 0.5 else x[..., -1]
    return helper.make_node("Det", ["x"], ["y"]), {"x": x}, {}


def main():
    held = Held(sys.argv[1], sys.argv[2])
    r = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    for draw, opsets in ((roi_align, (10, 16)), (deform_conv, (19, 22)), (det, (11, 22))):
        for number in range(12):
            held.opset = r.choice(opsets)
            node, feeds, fixed = draw(r, held.opset)
            held.hold(f"{draw.__name__}{number}", [node], feeds, {"y": FLOAT}, fixed, tolerance=2e-5)
    return held.end()


if __name__ == "__main__":
    sys.exit(main())
