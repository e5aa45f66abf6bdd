# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs nodes that generate random numbers: checks distributions, and that samples depend on seed and node alone.
usage: random_numbers.py MPC FOLDER"""
import sys

import numpy as np
import onnx
from onnx import helper

sys.dont_write_bytecode = True
from held import Held  # noqa: E402

FLOAT, DOUBLE, HALF, INT32 = (getattr(onnx.TensorProto, kind) for kind in ("FLOAT", "DOUBLE", "FLOAT16", "INT32"))
COUNT = 20000
held = Held(sys.argv[1], sys.argv[2], opset=15)
chances = np.linspace(0, 1, 5, dtype=np.float32).repeat(COUNT // 5)
weights = np.array([[0.1, 0.2, 0.7], [0.5, 0.5, 0.0]])
with np.errstate(divide="ignore"):
    feeds = {"p": chances, "logits": np.log(weights).astype(np.float32)}
nodes = [
    helper.make_node("RandomNormal", [], ["normal"], shape=[COUNT], mean=2.0, scale=3.0, seed=5.0),
    helper.make_node("RandomNormal", [], ["other"], shape=[COUNT], mean=2.0, scale=3.0, seed=5.0),
    helper.make_node("RandomNormalLike", ["p"], ["wide"], dtype=DOUBLE),
    helper.make_node("RandomUniform", [], ["uniform"], shape=[COUNT], low=-1.0, high=3.0),
    helper.make_node("RandomUniformLike", ["p"], ["half"], dtype=HALF),
    helper.make_node("Bernoulli", ["p"], ["coins"], dtype=INT32),
    helper.make_node("Multinomial", ["logits"], ["classes"], sample_size=COUNT),
]
outputs = {"normal": FLOAT, "other": FLOAT, "wide": DOUBLE, "uniform": FLOAT, "half": HALF, "coins": INT32,
           "classes": INT32}
path, inputs, answers = (str(held.folder / name) for name in ("model.onnx", "inputs.npz", "answers.npz"))
onnx.save(held.model(nodes, feeds, {}, outputs), path)
np.savez(inputs, **feeds)


def run():
    held.call("run", "run", path, "--device", "cpu", "--inputs", inputs, "--output", answers)
    return dict(np.load(answers))


def expect(name, holds):
    if not holds:
        held.fail(name, "does not hold")


def near(name, found, mean, deviation):
    """Tolerance of the mean of COUNT samples: five standard deviations."""
    expect(f"{name} {found}", abs(found - mean) < 5 * deviation / np.sqrt(COUNT))


held.call("check", "check", path, "--device", "cpu", "--inputs", inputs)
draws, again = run(), run()
for key, value in draws.items():
    expect(f"{key} again", np.array_equal(value, again[key]))
for key, mean, deviation in (("normal", 2, 3), ("other", 2, 3), ("wide", 0, 1)):
    value = (draws[key] - mean) / deviation
    near(key, value.mean(), 0, 1)
    near(key + " squared", (value ** 2).mean(), 1, np.sqrt(2))
    near(key + " to the fourth", (value ** 4).mean(), 3, np.sqrt(96))
near("two nodes", (draws["normal"] - 2).dot(draws["other"] - 2) / 9 / COUNT, 0, 1)
for key, low, high in (("uniform", -1, 3), ("half", 0, 1)):
    value = (np.float64(draws[key]) - low) / (high - low)
    expect(f"{key} inside", value.min() >= 0 and value.max() <= 1)
    near(key, value.mean(), 0.5, np.sqrt(1 / 12))
    near(key + " squared", (value ** 2).mean(), 1 / 3, np.sqrt(4 / 45))
near("neighbours", np.corrcoef(draws["uniform"][1:], draws["uniform"][:-1])[0, 1], 0, 1)
for part, chance in zip(np.split(draws["coins"], 5), (0, 0.25, 0.5, 0.75, 1)):
    expect(f"coins {chance}", abs(part.mean() - chance) <= 5 * np.sqrt(chance * (1 - chance) / len(part)))
for row, shares in zip(draws["classes"], weights):
    for kind, share in enumerate(shares):
        expect(f"class {kind}", abs((row == kind).mean() - share) <= 5 * np.sqrt(share * (1 - share) / COUNT))
sys.exit(held.end())
