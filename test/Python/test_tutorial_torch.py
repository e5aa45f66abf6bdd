# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The tutorial of docs/Tutorials/Python.md, in its order; skipped without torch."""

import pathlib
import shutil
import subprocess

import numpy as np
import pytest

torch = pytest.importorskip("torch")

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_tutorial(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)

    import mpc
    import torch.nn as nn
    model = nn.Sequential(nn.Conv2d(1, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(),
                          nn.Linear(576, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 3)).eval()
    images, labels = torch.randn(32, 1, 8, 8), torch.randint(0, 3, (32,))

    fast = mpc.compile(model, images, policy="mixed_bfloat16")
    scores = fast(images)
    times = fast.bench(images, seconds=0.2)

    verdict = fast.check(images)
    worst = fast.check(images, per_op=True).ops[0]

    report = fast.explain()
    policy = mpc.Policy("mixed_bfloat16", overrides={"layer:7": "float32"})
    fast = mpc.compile(model, images, policy=policy)

    trainer = mpc.Trainer(model.train(), images, policy="mixed_float16", optimizer="adamw", lr=0.01)
    for _ in range(20):
        trainer.step(images, labels)
    found = trainer.evaluate(images, labels)
    model = trainer.sync().eval()

    mpc.compile(model, images, policy=policy).save("model.mpcx", targets=["cpu:avx2", "cpu:avx512"])
    trained = mpc.load("model.mpcx")(images)

    assert isinstance(scores, torch.Tensor) and times["runs"] >= 3
    assert verdict and 0 < verdict.outputs[0]["max_abs_error"] < 0.05
    assert worst["rms_relative_error"] > 1e-4
    assert {op["compute"] for op in report.ops if op["layer"] == "7"} == {"bf16", "f32"}
    assert {op["compute"] for op in fast.explain().ops if op["layer"] == "7"} == {"f32"}
    assert found["accuracy"] > 0.9 and not model.training
    np.testing.assert_allclose(trained, model(images).detach(), atol=0.1)
    assert_loads_in_cpp(mpc)


def assert_loads_in_cpp(mpc):
    """The program of the page prints the same as Python: the sum of the outputs for images of zeros."""
    library = pathlib.Path(mpc.__file__).parents[2] / "lib"
    compiler = shutil.which("clang++-22") or shutil.which("c++")
    if compiler is None or not (library / "libmpc_runtime.so").exists():
        pytest.skip("needs a C++ compiler and the build's libraries")
    source = ROOT / "test" / "Integration" / "Inputs" / "Host" / "load.cpp"
    subprocess.run([compiler, "-std=c++20", f"-I{ROOT / 'include'}", source, "-o", "load", f"-L{library}",
                    "-lmpc_runtime", f"-Wl,-rpath,{library}"], check=True)
    said = subprocess.run(["./load", "model.mpcx"], capture_output=True, text=True, check=True).stdout
    wanted = float(mpc.load("model.mpcx")(np.zeros((32, 1, 8, 8), np.float32)).sum())
    assert float(said.split("sum")[1]) == pytest.approx(wanted, abs=2e-3)
