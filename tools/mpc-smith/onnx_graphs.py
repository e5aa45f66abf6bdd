#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fuzzes `mpc check` with random ONNX models.

  tools/mpc-smith/onnx_graphs.py --seeds 0..999 [--jobs 2] [--minutes 60] [--failures FOLDER]

Each model is checked under float32, mixed_bfloat16 and mixed_float16: importer,
float64 interpreter and compiled code; under float32 also against ONNX Runtime.
A graph that neither can run is replaced; one that ONNX Runtime rejects is checked
without it. Prints a line per failure and stores its model and inputs in FOLDER.
Exit code 1 on any failure.
"""

import pathlib
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "onnx_ops"))
sys.dont_write_bytecode = True

import onnx  # noqa: E402
import onnxruntime  # noqa: E402

import attention  # noqa: E402
import campaign  # noqa: E402
import elementwise  # noqa: E402
import layers  # noqa: E402
import movement  # noqa: E402
import quantized  # noqa: E402
from graph import Graph, Skip  # noqa: E402


SATURATING = {"ConvInteger", "MatMulInteger", "QLinearConv", "QLinearMatMul"}


def draw(seed):
    g = Graph(seed)
    families = [elementwise.OPS, movement.OPS, layers.OPS, attention.OPS]
    weights = [g.random.choice([1, 2, 4]) for _ in families]
    # A chain is many nodes; half of the graphs have some.
    families.append(quantized.OPS)
    weights.append(g.random.choice([0, 0, 1, 4]))
    wanted = g.random.choice([3, 6, 10, 16, 24])
    tries = 0
    while len(g.nodes) < wanted and tries < 200:
        tries += 1
        state = len(g.nodes), len(g.initializers), len(g.values), len(g.inputs), dict(g.feeds)
        try:
            g.random.choice(g.random.choices(families, weights)[0])(g)
        except Skip:
            nodes, initializers, values, inputs, g.feeds = state
            del g.nodes[nodes:], g.initializers[initializers:], g.values[values:], g.inputs[inputs:]
            read = {name for node in g.nodes for name in node.input}
            for value in g.values:
                value.used = value.name in read
    return g


def run_peer(model, feeds):
    """ONNX Runtime's results, or why it has none."""
    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    # Some of its graph optimizations change results.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        return dict(zip(names, session.run(names, feeds))), ""
    except Exception as error:  # its exceptions have no common base class but this
        return None, str(error).splitlines()[0]


def saturates(g):
    """Whether ONNX Runtime is wrong here: on a core without VNNI, its products of bytes saturate sums of two
    in 16 bits (its mode that does not is an optimization, and those are off)."""
    has_unit = "vnni" in pathlib.Path("/proc/cpuinfo").read_text()
    return not has_unit and any(node.op_type in SATURATING for node in g.nodes)


def peer_errors(model, coarse, feeds, found):
    """The rms relative error of each output due to results that the peer computes inaccurately.

    `coarse` holds an error bound for each such result; its elements are perturbed by it, up, down and at random, and
    the change of the outputs is measured.
    """
    moved = {name: 0.0 for name in found}
    for draw in range(4):
        trial, numbers = onnx.ModelProto(), np.random.default_rng(draw)
        trial.CopyFrom(model)
        del trial.graph.node[:]
        for node in model.graph.node:
            name = next((name for name in node.output if name in coarse), None)
            trial.graph.node.append(node)
            if name is None:
                continue
            bound, shape = coarse[name]
            signs = numbers.choice([-1.0, 1.0], shape) if draw > 1 else np.full(shape, 1.0 - 2 * draw)
            trial.graph.node[-1].output[list(node.output).index(name)] = name + "/exact"
            trial.graph.initializer.append(onnx.numpy_helper.from_array((bound * signs).astype(np.float32),
                                                                       name + "/error"))
            trial.graph.node.append(onnx.helper.make_node("Add", [name + "/exact", name + "/error"], [name]))
        others, why = run_peer(trial.SerializeToString(), feeds)
        if others is None:
            raise RuntimeError(why)
        for name, array in found.items():
            if array.dtype == np.float32 and array.size:
                wanted = array.astype(np.float64)
                size = np.sqrt(np.mean(wanted**2)) or 1.0
                moved[name] = max(moved[name], float(np.sqrt(np.mean((others[name] - wanted)**2)) / size))
    return moved


def judge(g, model, mpc, folder):
    """(findings, why ONNX Runtime has no answer) of a model, whose files are written to `folder`."""
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    np.savez(folder / "inputs.npz", **g.feeds)
    found, why = (None, "saturates") if saturates(g) else run_peer(path.read_bytes(), g.feeds)
    errors = {}
    if found is not None:
        np.savez(folder / "expected.npz", **found)
        made = {name for node in g.nodes for name in node.output}
        coarse = {name: bound for name, bound in g.coarse.items() if name in made}
        errors = peer_errors(model, coarse, g.feeds, found) if coarse else {}
    return campaign.check(mpc, folder, path.name, bool(g.feeds), found is not None, peer_errors=errors), why


def run_seed(task):
    seed, mpc, failures = task
    try:
        g = draw(seed)
        model, _ = g.model()
    except Exception as error:
        return seed, [("drawer", "", repr(error))], [], ""
    if not model.graph.output:
        return seed, [], [], "empty"
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        findings, peer = judge(g, model, mpc, folder)
        if findings and failures:
            campaign.keep(folder, failures, seed, findings, peer)
    return seed, findings, [node.op_type for node in g.nodes], peer


if __name__ == "__main__":
    sys.exit(campaign.main(__doc__.splitlines()[0], run_seed, "ONNX Runtime"))
