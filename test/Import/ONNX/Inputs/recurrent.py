# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Recurrent layers of padded sequences and with other cells than the default ones, held against NumPy in float64.
usage: recurrent.py MPC FOLDER [DEVICE]; devices other than cpu run a few layers"""
import sys

import numpy as np
from onnx import TensorProto, helper

sys.dont_write_bytecode = True
from held import Held  # noqa: E402

FLOAT, INT32 = TensorProto.FLOAT, TensorProto.INT32
STEPS, BATCH, INPUT, HIDDEN = 6, 4, 3, 5
LENGTHS = np.array([6, 2, 0, 4], np.int32)
NUMBERS = np.random.RandomState(3)
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
# Functions of ONNX by name: value, alpha, beta.
FUNCTIONS = {
    "Sigmoid": lambda x, a, b: 1 / (1 + np.exp(-x)), "Tanh": lambda x, a, b: np.tanh(x),
    "Relu": lambda x, a, b: np.maximum(x, 0), "Affine": lambda x, a, b: a * x + b,
    "LeakyRelu": lambda x, a, b: np.where(x < 0, a * x, x), "ThresholdedRelu": lambda x, a, b: np.where(x > a, x, 0),
    "ScaledTanh": lambda x, a, b: a * np.tanh(b * x), "HardSigmoid": lambda x, a, b: np.clip(a * x + b, 0, 1),
    "Elu": lambda x, a, b: np.where(x < 0, a * (np.exp(x) - 1), x), "Softsign": lambda x, a, b: x / (1 + np.abs(x)),
    "Softplus": lambda x, a, b: np.log1p(np.exp(x))}


def run_direction(op, x, w, r, bias, peephole, h, c, lengths, reverse, functions, clip, coupled, linear):
    """One direction by the formulas of the operator: Y, Y_h and Y_c."""
    gates = GATES[op] * HIDDEN
    limit = (lambda v: np.clip(v, -clip, clip)) if clip else (lambda v: v)
    act = [lambda v, f=f: FUNCTIONS[f[0]](v, f[1], f[2]) for f in functions]
    y, h, c = np.zeros((STEPS, BATCH, HIDDEN)), h.copy(), c.copy()
    for b in range(BATCH):
        for t in range(lengths[b])[::-1] if reverse else range(lengths[b]):
            own, state = w @ x[t, b] + bias[:gates], h[b]
            recurrent = r @ state + bias[gates:]
            part = lambda v, i: v[i * HIDDEN:(i + 1) * HIDDEN]  # noqa: E731
            if op == "RNN":
                h[b] = act[0](limit(own + recurrent))
            elif op == "GRU":
                z = act[0](limit(part(own, 0) + part(recurrent, 0)))
                q = act[0](limit(part(own, 1) + part(recurrent, 1)))
                share = (q * part(recurrent, 2) if linear
                         else part(r, 2) @ (q * state) + part(bias[gates:], 2))
                h[b] = (1 - z) * act[1](limit(part(own, 2) + share)) + z * state
            else:
                i, o, f, g = (part(own + recurrent, k) for k in range(4))
                pi, po, pf = (part(peephole, k) for k in range(3))
                i = act[0](limit(i + pi * c[b]))
                f = 1 - i if coupled else act[0](limit(f + pf * c[b]))
                c[b] = f * c[b] + i * act[1](limit(g))
                h[b] = act[0](limit(o + po * c[b])) * act[2](c[b])
            y[t, b] = h[b]
    return y, h, c


def layer(held, name, op, direction="forward", lengths=LENGTHS, as_input=False, states=True, functions=None, clip=None,
          layout=0, largest=1, tolerance=1e-5, **attributes):
    """Holds one layer whose operands are random; `functions` are (name, alpha, beta) for each direction in turn,
    `largest` multiplies the recurrent weights."""
    directions = 2 if direction == "bidirectional" else 1
    gates = GATES[op] * HIDDEN
    draw = lambda *shape: NUMBERS.randn(*shape).astype(np.float32)  # noqa: E731
    x, w, r = draw(STEPS, BATCH, INPUT), draw(directions, gates, INPUT) / 2, draw(directions, gates, HIDDEN) / 2
    r *= np.float32(largest)
    bias, peephole = draw(directions, 2 * gates) / 2, draw(directions, 3 * HIDDEN)
    h, c = (draw(directions, BATCH, HIDDEN) if states else np.zeros((directions, BATCH, HIDDEN)) for _ in range(2))
    default = [("Sigmoid", 0, 0), ("Tanh", 0, 0), ("Tanh", 0, 0)]
    count = {"LSTM": 3, "GRU": 2, "RNN": 1}[op]
    used = functions or directions * (default[1:2] if op == "RNN" else default[:count])
    results = [
        run_direction(op, x.astype(float), w[d].astype(float), r[d].astype(float), bias[d].astype(float),
                      peephole[d].astype(float), h[d].astype(float), c[d].astype(float), lengths,
                      direction == "reverse" or d == 1, used[d * count:(d + 1) * count], clip,
                      attributes.get("input_forget"), attributes.get("linear_before_reset")) for d in range(directions)]
    expected = {"y": np.stack([q[0] for q in results], 1), "yh": np.stack([q[1] for q in results]),
                "yc": np.stack([q[2] for q in results])}
    # Elements past the end of a sequence have no influence.
    for b in range(BATCH):
        x[lengths[b]:, b] = np.nan if as_input else 1e6
    if layout:
        x, h, c = (v.transpose(1, 0, 2) for v in (x, h, c))
        expected = {k: v.transpose(2, 0, 1, 3) if k == "y" else v.transpose(1, 0, 2) for k, v in expected.items()}
        attributes["layout"] = 1
    if functions:
        attributes["activations"] = [f[0] for f in functions]
        for key, index in (("activation_alpha", 1), ("activation_beta", 2)):
            if values := [f[index] for f in functions if f[index]]:
                attributes[key] = values
    if clip:
        attributes["clip"] = clip
    names = ["x", "w", "r", "b", "lengths", "h" if states else ""]
    weights = {"w": w, "r": r, "b": bias}
    outputs = ["y", "yh"]
    if op == "LSTM":
        names += ["c" if states else "", "p"]
        weights["p"] = peephole
        outputs.append("yc")
    feeds = {"x": np.ascontiguousarray(x)}
    (feeds if as_input else weights)["lengths"] = lengths
    if states:
        feeds["h"] = np.ascontiguousarray(h.astype(np.float32))
        if op == "LSTM":
            feeds["c"] = np.ascontiguousarray(c.astype(np.float32))
    node = helper.make_node(op, names, outputs, hidden_size=HIDDEN, direction=direction, name=name, **attributes)
    held.hold(name, [node], feeds, {k: FLOAT for k in outputs}, weights,
              {k: expected[k].astype(np.float32) for k in outputs}, tolerance=tolerance)


def frozen(held):
    """Past the end of a sequence the cell does not move, however large the sums of the recurrence are. Under mixed
    policies the input may be stored in 16 bits."""
    for policy, tolerance in ((None, 1e-5), ("float16", 1e-2), ("bfloat16", 1e-2)):
        own = Held(held.mpc, held.folder, held.opset, held.device, policy)
        layer(own, f"LSTM-frozen-{policy}", "LSTM", "bidirectional", lengths=np.zeros(BATCH, np.int32), as_input=True,
              largest=2e4, tolerance=tolerance)
        held.failures += own.failures


def refuse_lengths(held):
    """Checks that lengths out of range end a run. Returns the layer's node, inputs and outputs, and weights."""
    node = helper.make_node("RNN", ["x", "w", "r", "", "l"], ["y"], hidden_size=2, name="layer")
    zeros = {"x": np.zeros((3, 2, 1), np.float32)}, {"y": FLOAT}
    weights = {"w": np.zeros((1, 2, 1), np.float32), "r": np.zeros((1, 2, 2), np.float32)}
    for end, entries in (("4", [3, 4]), ("-1", [-1, 0])):
        held.refuse(f"lengths{end}", [node], {**zeros[0], "l": np.array(entries, np.int32)}, zeros[1], weights,
                    f"error: layer: length or position {end} of input 'l' is out of range; it must be between 0 and 3")
    return node, zeros, weights


def main():
    held = Held(*sys.argv[1:3], opset=14, device=sys.argv[3] if len(sys.argv) > 3 else "cpu")
    if held.device != "cpu":
        layer(held, "GRU-input", "GRU", "bidirectional", as_input=True, states=False, linear_before_reset=1)
        layer(held, "LSTM-coupled", "LSTM", "reverse", input_forget=1, clip=0.5)
        layer(held, "RNN-Softplus", "RNN", functions=[("Softplus", 0, 0)])
        frozen(held)
        refuse_lengths(held)
        return held.end()
    for op in GATES:
        for direction in ("forward", "reverse", "bidirectional"):
            layer(held, f"{op}-{direction}", op, direction)
        layer(held, f"{op}-input", op, "bidirectional", as_input=True, states=False)
        layer(held, f"{op}-layout", op, "reverse", layout=1)
        layer(held, f"{op}-clip", op, "bidirectional", clip=0.5)
    layer(held, "GRU-linear", "GRU", "bidirectional", linear_before_reset=1)
    layer(held, "GRU-linear-clip", "GRU", "reverse", clip=0.25, linear_before_reset=1)
    layer(held, "LSTM-coupled", "LSTM", "bidirectional", input_forget=1)
    full = np.full(BATCH, STEPS, np.int32)
    for lengths in (LENGTHS, full):
        layer(held, f"LSTM-activations-{lengths[1]}", "LSTM", lengths=lengths,
              functions=[("HardSigmoid", 0.3, 0.4), ("ScaledTanh", 1.5, 0.5), ("Softsign", 0, 0)])
    layer(held, "GRU-activations", "GRU", "bidirectional",
          functions=[("Affine", 0.5, 0.25), ("Elu", 0.75, 0), ("Sigmoid", 0, 0), ("LeakyRelu", 0.1, 0)])
    for function in (("Relu", 0, 0), ("Softplus", 0, 0), ("ThresholdedRelu", 0.5, 0)):
        layer(held, f"RNN-{function[0]}", "RNN", functions=[function])
    frozen(held)
    node, zeros, weights = refuse_lengths(held)
    held.refuse("long", [node], *zeros, {**weights, "l": np.array([3, 4], np.int32)},
                "sequence_lens has the entry 4, expected 0 to 3, the input's steps")
    held.refuse("entries", [node], *zeros, {**weights, "l": np.array([3], np.int32)}, "expected 2 entries")
    bad = helper.make_node("RNN", ["x", "w", "r"], ["y"], hidden_size=2, activations=["Sine"])
    held.refuse("function", [bad], *zeros, weights, "has the entry 'Sine', expected Affine, Elu")
    return held.end()


if __name__ == "__main__":
    sys.exit(main())
