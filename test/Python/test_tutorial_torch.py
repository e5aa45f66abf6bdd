# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The parts of docs/Python.md that start from a torch module; skipped without torch."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_training():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Dropout(0.1),
                                torch.nn.Linear(32, 3))
    images, labels = torch.randn(32, 1, 8, 8), torch.randint(0, 3, (32,))

    import mpc
    trainer = mpc.Trainer(model, images, policy="mixed_float16", optimizer="adamw", lr=0.01)
    for _ in range(20):
        trainer.step(images, labels)
    first = trainer.metrics()["loss"]
    model = trainer.sync()

    found = trainer.evaluate(images, labels)
    assert found["loss"] < first / 2 and found["accuracy"] > 0.9
    eager = torch.nn.functional.cross_entropy(model.eval()(images), labels).item()
    np.testing.assert_allclose(found["loss"], eager, atol=1e-2)
