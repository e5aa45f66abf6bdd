# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The program of docs/Tutorials/Python.md, in its order."""

import os
import pathlib

import numpy as np

MODEL = pathlib.Path(__file__).resolve().parents[1] / "Inputs" / "mnist-cnn"


def test_the_page(tmp_path, monkeypatch):
    os.symlink(MODEL / "model.onnx", tmp_path / "model.onnx")
    os.symlink(MODEL / "inputs.npz", tmp_path / "inputs.npz")
    monkeypatch.chdir(tmp_path)

    import mpc
    import numpy as np
    images = np.load("inputs.npz")["image"]
    classify = mpc.compile("model.onnx", policy="float32")
    wide = classify(images)

    narrow = mpc.compile("model.onnx", images, policy="mixed_bfloat16")
    error = np.abs(narrow(images) - wide).max()
    times = narrow.bench(images, seconds=0.2)

    mixed = mpc.compile("model.onnx", images, policy="mixed_bfloat16", overrides={"layer:0/conv2": "float32"})
    types = mixed.layers

    report = mixed.explain()
    verdict = mixed.check(images)

    narrow.save("model.mpcx", targets=["cpu:avx2", "cpu:avx512"])
    again = mpc.load("model.mpcx")(images)

    assert 0 < error < 2e-2 and times["runs"] >= 3
    assert types["0/conv2"] == "f32" and types["0/conv1"] == "bf16"
    assert {op["compute"] for op in report.ops if op["layer"] == "0/conv2"} == {"f32"} and verdict
    np.testing.assert_allclose(again, wide, atol=2e-2)
