# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Comparison by onnx_graphs.py of a Resize whose weights ONNX Runtime computes in f32.

usage: coarse_peer.py MPC_SMITH MPC      needs onnx and onnxruntime

Prints the outcomes of a cubic Resize by three and the ops after it: as it is, without the
bound of the peer's error, and with a peer whose cubic weights differ by 1e-3.
"""

import pathlib
import sys
import tempfile

import numpy as np

sys.path.insert(0, sys.argv[1])
import onnx_graphs  # noqa: E402  (finds its folder of ops)
from graph import FLOAT, Graph  # noqa: E402
from resample import resize_error  # noqa: E402

g = Graph(1)
g.opset = 19
x = g.input(FLOAT, (5, 5, 31, 1))
g.feeds[x.name] = np.random.default_rng(1).uniform(-3, 3, x.shape).astype(np.float32)
shape = (5, 5, 93, 3)
sizes = g.integers(*shape)
y = g.emit("Resize", [x, None, None, sizes], shape, -4.8, 4.8, mode="cubic",
           coordinate_transformation_mode="asymmetric")
g.emit("Neg", [y], shape, -4.8, 4.8)
model, _ = g.model()
bound = {y.name: (resize_error("cubic", 3, x.shape[2:]), shape)}


def outcomes(coarse, change=0.0):
    """Compares with a peer with cubic_coeff_a of -3/4 + change."""
    run = onnx_graphs.run_peer

    def run_changed(text, feeds):
        other = onnx_graphs.onnx.ModelProto.FromString(text)
        for node in other.graph.node:
            if node.op_type == "Resize":
                node.attribute.append(onnx_graphs.onnx.helper.make_attribute("cubic_coeff_a", -0.75 + change))
        return run(other.SerializeToString(), feeds)

    g.coarse = coarse
    onnx_graphs.run_peer = run_changed
    with tempfile.TemporaryDirectory() as folder:
        findings, _ = onnx_graphs.judge(g, model, [sys.argv[2]], pathlib.Path(folder))
    onnx_graphs.run_peer = run
    return [f"{outcome} under {policy}" for outcome, policy, _ in findings] or ["ok"]


print("as it is:", *outcomes(bound))
print("without the bound:", *outcomes({}))
print("other weights:", *outcomes(bound, change=1e-3))
