# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Generates Resize nodes in all modes and compares them with ONNX's reference evaluator (onnx.reference), or with
ONNX Runtime where the evaluator departs from the specification.
usage: resize_modes.py MPC FOLDER [SEED MODELS]"""
import random
import sys

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

sys.dont_write_bytecode = True
from held import Held  # noqa: E402

NODES = 24
COORDINATES = ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
               "tf_crop_and_resize", "tf_half_pixel_for_nn"]
NEAREST = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
# Ratios whose products with small extents are exact in f32 and f64, so that no result depends on rounding.
SCALES = [0.25, 0.5, 0.625, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0]


def draw(r, opset):
    """(attributes, shape, roi, scales, sizes) of one node."""
    rank = r.randint(1, 5)
    mode = r.choice(["nearest", "linear", "cubic"])
    coordinates = r.choice(COORDINATES)
    if coordinates == "half_pixel_symmetric" and opset < 19 or coordinates == "tf_half_pixel_for_nn" and opset > 11:
        coordinates = "half_pixel"
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates}
    if mode == "nearest":
        attributes["nearest_mode"] = r.choice(NEAREST)
    if mode == "cubic":
        attributes["cubic_coeff_a"] = r.choice([-0.75, -0.5])
    if mode != "nearest":
        attributes["exclude_outside"] = r.choice([0, 0, 1])
    if coordinates == "tf_crop_and_resize":
        attributes["extrapolation_value"] = r.choice([0.0, 10.0])
    if opset >= 18 and mode != "nearest" and coordinates != "tf_crop_and_resize":
        attributes["antialias"] = r.choice([0, 1])
    scaled = r.sample(range(rank), r.randint(1, min(rank, 3)))
    if mode == "cubic":
        scaled = scaled[:2]
    shape = [r.randint(1, 9) if d in scaled else r.randint(1, 3) for d in range(rank)]
    given = list(range(rank))
    if opset >= 18 and r.random() < 0.5:
        given = r.sample(scaled, len(scaled))
        attributes["axes"] = [d - rank if r.random() < 0.2 else d for d in given]
    scales = sizes = None
    # If the scaled extent is no integer, only ONNX Runtime truncates it for the length.
    if r.random() < 0.5 and coordinates != "pytorch_half_pixel":
        scales = [r.choice(SCALES) if d in scaled else 1.0 for d in given]
        if min(int(shape[d] * s) for d, s in zip(given, scales)) < 1:
            return draw(r, opset)
    else:
        sizes = [r.randint(1, 14) if d in scaled else shape[d] for d in given]
        if opset >= 18 and "axes" in attributes and r.random() < 0.5:
            attributes["keep_aspect_ratio_policy"] = r.choice(["not_larger", "not_smaller", "stretch"])
            policy = {"not_larger": min, "not_smaller": max}.get(attributes["keep_aspect_ratio_policy"])
            common = policy(s / shape[d] for d, s in zip(given, sizes)) if policy else 1
            if any(int(common * shape[d] + 0.5) < 1 for d in given):
                return draw(r, opset)
    roi = None
    if coordinates == "tf_crop_and_resize":
        starts = [r.choice([0.0, 0.25, -0.25, 0.125]) if d in scaled else 0.0 for d in given]
        ends = [r.choice([1.0, 0.75, 1.25]) if d in scaled else 1.0 for d in given]
        roi = starts + ends
    return attributes, shape, roi, scales, sizes


def answer(held, attributes, shape, names, feed, own):
    """Expected result of one node, None if there is no reference."""
    plain = dict(attributes)
    if "axes" in plain:
        # The evaluator accepts non-negative axes only.
        plain["axes"] = [d % len(shape) for d in plain["axes"]]
    model = held.model([helper.make_node("Resize", names, ["y"], **plain)], feed, own, {"y": onnx.TensorProto.FLOAT})
    mode = attributes["coordinate_transformation_mode"]
    value = ReferenceEvaluator(model).run(None, feed)[0] if mode != "tf_half_pixel_for_nn" else None
    # The evaluator does not have the last mode, reads pytorch_half_pixel without its case of one element, and for
    # half_pixel_symmetric takes neighbours and weights from two roundings of one coordinate.
    if value is not None and mode != "half_pixel_symmetric" and not (mode == "pytorch_half_pixel" and
                                                                     1 in value.shape):
        return value
    try:
        return held.run(model.SerializeToString(), feed, ["y"])["y"]
    except Exception:  # a form that ONNX Runtime does not have; its exceptions have no other common class
        return None


def main():
    held = Held(sys.argv[1], sys.argv[2])
    seed, models = (int(each) for each in (sys.argv[3:] or (1, 4)))
    for number in range(seed, seed + models):
        r, source = random.Random(number), np.random.RandomState(number)
        held.opset = r.choice([11, 13, 18, 19])
        nodes, feeds, fixed, outputs, expected = [], {}, {}, {}, {}
        while len(nodes) < NODES:
            i = len(nodes)
            attributes, shape, roi, scales, sizes = draw(r, held.opset)
            names = [f"x{i}"] + [f"{what}{i}" if value else "" for what, value in
                                 (("roi", roi), ("scales", scales), ("sizes", sizes))]
            own = {f"{what}{i}": np.array(value, kind) for what, value, kind in
                   (("roi", roi, np.float32), ("scales", scales, np.float32), ("sizes", sizes, np.int64)) if value}
            for place, what in ((1, "roi"), (2, "scales")):
                if held.opset < 13 and not names[place]:
                    names[place] = f"{what}{i}"
                    own[names[place]] = np.zeros(0, np.float32)
            while names[-1] == "":
                names.pop()
            feed = {f"x{i}": source.randn(*shape).astype(np.float32)}
            value = answer(held, attributes, shape, names, feed, own)
            if value is None:
                continue
            nodes.append(helper.make_node("Resize", names, [f"y{i}"], name=f"Resize{i}", **attributes))
            fixed.update(own)
            feeds.update(feed)
            outputs[f"y{i}"], expected[f"y{i}"] = onnx.TensorProto.FLOAT, value
        held.hold(f"resize{number}", nodes, feeds, outputs, fixed, expected, tolerance=1e-5)
    return held.end()


if __name__ == "__main__":
    sys.exit(main())
