# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A model in ONNX Runtime that mpc compiles, ahead of time too. Needs onnx and onnxruntime.

usage: python onnxruntime_session.py
"""
import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

import onnxruntime_ep_mpc as plugin

# A model: two dense layers, with a dynamic batch.
random = np.random.default_rng(0)
weights = {"w": random.standard_normal((64, 256), np.float32), "v": random.standard_normal((256, 10), np.float32)}
onnx.save(helper.make_model(helper.make_graph(
    [helper.make_node("MatMul", ["x", "w"], ["t"], "first"), helper.make_node("Relu", ["t"], ["u"]),
     helper.make_node("MatMul", ["u", "v"], ["y"], "second")], "mlp",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 64])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 10])],
    [numpy_helper.from_array(array, name) for name, array in weights.items()]),
    ir_version=9, opset_imports=[helper.make_opsetid("", 18)]), "model.onnx")

# Once per process.
ort.register_execution_provider_library("mpc", plugin.get_library_path())
devices = [device for device in ort.get_ep_devices() if device.ep_name == plugin.get_ep_name()]


def open_session(path, entries={}, **options):
    settings = ort.SessionOptions()
    settings.add_provider_for_devices(devices, options)
    for key, value in entries.items():
        settings.add_session_config_entry(key, value)
    return ort.InferenceSession(path, settings)


x = random.standard_normal((4, 64), np.float32)
exact = np.maximum(x.astype(float) @ weights["w"], 0) @ weights["v"]
for policy in ("float32", "mixed_bfloat16"):
    result = open_session("model.onnx", policy=policy).run(None, {"x": x})[0]
    error = np.sqrt(np.mean((result - exact) ** 2) / np.mean(exact ** 2))
    print(f"{policy:15} relative error {error:.0e}")
    assert error < 1e-2

# Ahead of time: a model with the machine code for a batch of 4 in it.
open_session("model.onnx", {"ep.context_enable": "1", "ep.context_file_path": "compiled.onnx"}, dims="batch=4")
session = open_session("compiled.onnx", trusted="1")
assert np.allclose(session.run(None, {"x": x})[0], exact, rtol=1e-3, atol=1e-2)
print("compiled ahead of time")
