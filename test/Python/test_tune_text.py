# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A policy that `mpc tune --text` chooses has the measured divergence when its decoder runs."""

import json
import pathlib
import subprocess

import mpc
import numpy as np

from conftest import INPUTS

MODEL = INPUTS / "decoder" / "model.onnx"
WINDOW = 16


def log_probabilities(policy, windows):
    """After each token of each window, by steps of the decoder."""
    decoder = mpc.Decoder(MODEL, policy=policy, capacity=WINDOW, chunk=2)
    rows = []
    for window in windows:
        sequence = decoder.start()
        rows.append([np.asarray(sequence.feed([int(token)]), np.float64) for token in window])
    logits = np.array(rows)
    logits -= logits.max(-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def test_the_decoder_diverges_as_measured(tmp_path):
    ids = np.random.default_rng(0).integers(0, 61, (4, WINDOW))
    np.save(tmp_path / "ids.npy", ids)
    program = pathlib.Path(mpc.__file__).parent / "bin" / "mpc"
    done = subprocess.run([program, "tune", MODEL, "--text", tmp_path / "ids.npy", "--window", str(WINDOW),
                           "--budget", "kl 4e-5", "--types", "int8", "-o", tmp_path / "tuned.json", "--json"],
                          capture_output=True, text=True, check=True)
    text = json.loads(done.stdout)["text"]
    formats = {layer["weights"] for layer in text["layers"]}
    assert formats == {"float32", "int8"}
    wide, tuned = (log_probabilities(policy, ids) for policy in ("float32", str(tmp_path / "tuned.json")))
    divergence = (np.exp(wide) * (wide - tuned)).sum(-1).mean()
    assert 0 < text["kl"] <= 4e-5
    np.testing.assert_allclose(divergence, text["kl"], rtol=0.02)
    for rows, name in ((wide, "float32_perplexity"), (tuned, "perplexity")):
        scored = np.take_along_axis(rows[:, :-1], ids[:, 1:, None], -1)
        np.testing.assert_allclose(np.exp(-scored.mean()), text[name], rtol=1e-4)
