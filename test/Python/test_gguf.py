# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""GGUF files: logits and tokens of models that transformers evaluates in float64 with the dequantized weights."""

import json
import subprocess

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("gguf")

import gguf_models as models  # noqa: E402


def mpc(*arguments):
    """Runs the program; returns its standard output."""
    done = subprocess.run(["mpc", *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def check(model, path, *flags):
    """Checks the logits of two texts against transformers, with the tolerance for the policy that `mpc check` has."""
    ids = np.random.default_rng(1).integers(3, models.VOCABULARY, (2, 21))
    positions = np.tile(np.arange(ids.shape[1]), (2, 1))
    with torch.no_grad():
        wanted = model(torch.from_numpy(ids)).logits.numpy()
    inputs, outputs = path.with_suffix(".in.npz"), path.with_suffix(".out.npz")
    np.savez(inputs, input_ids=ids, attention_mask=np.ones_like(ids), position_ids=positions)
    report = json.loads(mpc("check", path, "--input", inputs, "--json", *flags))
    mpc("run", path, "--input", inputs, "--output", outputs, *flags)
    error = np.load(outputs)["logits"] - wanted
    tolerance = next(each["tolerance"] for each in report["outputs"] if each["name"] == "logits")
    assert np.sqrt(np.mean(error ** 2) / np.mean(wanted ** 2)) <= tolerance


@pytest.mark.parametrize("family", models.FAMILIES)
def test_families(family, tmp_path):
    path = tmp_path / "model.gguf"
    model = models.make(path, family)
    check(model, path)


# Rows of the K formats are multiples of 256.
@pytest.mark.parametrize("form", ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", *models.K_FORMATS])
def test_formats(form, tmp_path):
    path = tmp_path / "model.gguf"
    model = models.make(path, "llama", form, hidden_size=256, intermediate_size=256)
    check(model, path)


def test_tokens(tmp_path):
    path = tmp_path / "model.gguf"
    model = models.make(path, "llama", "Q8_0")
    prompt = [5, 17, 80, 9]
    with torch.no_grad():
        wanted = model.generate(torch.tensor([prompt]), max_new_tokens=40, do_sample=False)[0, len(prompt):].tolist()
    made = mpc("generate", path, "--prompt-ids", ",".join(map(str, prompt)), "--tokens", 40, "--quiet").splitlines()[0]
    assert [int(token) for token in made.split(",")] == wanted
