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


# Sizes and metadata that the families' smallest models do not have.
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 16, "rope_theta": 500.0}
LONG = {"rope_type": "longrope", "rope_theta": 10000.0, "partial_rotary_factor": 0.5,
        "short_factor": [1.1, 1.2, 1.3, 1.4], "long_factor": [2.0, 3.0, 4.0, 5.0]}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 32}


def llama3_divisors(rotary=16):
    """What files of Llama 3.1 contain: the frequencies without scaling divided by those with it."""
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
    config = models.transformers.LlamaConfig(**models.SIZES, rope_parameters=LLAMA3)
    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")
    return 500.0 ** (-np.arange(0, rotary, 2) / rotary) / scaled.numpy().astype(np.float64)


VARIANTS = {
    "llama-biases-tied": dict(family="llama", attention_bias=True, mlp_bias=True, tie_word_embeddings=True),
    "llama-3.1": dict(family="llama", rope_parameters=LLAMA3, vectors={"rope_freqs.weight": llama3_divisors()}),
    "llama-linear": dict(family="llama", rope_parameters={"rope_type": "linear", "factor": 4.0, "rope_theta": 500.0},
                         metadata={"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}),
    "qwen2-yarn": dict(family="qwen2", rope_parameters=YARN,
                       metadata={"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
                                 "rope.scaling.original_context_length": 32}),
    "phi3-long": dict(family="phi3", rope_parameters=LONG, max_position_embeddings=256,
                      original_max_position_embeddings=128,
                      metadata={"rope.dimension_count": 8, "rope.scaling.type": "longrope",
                                "rope.scaling.original_context_length": 128,
                                "rope.scaling.attn_factor": float(np.sqrt(1 + np.log(2) / np.log(128)))},
                      vectors={f"rope_factors_{name}.weight": LONG[f"{name}_factor"] for name in ("short", "long")}),
    "gptneox-sequential": dict(family="gptneox", use_parallel_residual=False,
                               metadata={"use_parallel_residual": False}),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_variants(name, tmp_path):
    path = tmp_path / "model.gguf"
    check(models.make(path, **VARIANTS[name]), path)


def test_policies(tmp_path):
    path = tmp_path / "model.gguf"
    model = models.make(path, "llama", "Q4_0")
    check(model, path, "--policy", "mixed_bfloat16")


# A mixture as llama.cpp's Q4_K_M has it, and one for rows that are no multiples of 256.
@pytest.mark.parametrize("forms, width", [({"ffn_down.weight": "Q6_K", "output.weight": "Q6_K"}, 256),
                                          ({"ffn_down.weight": "Q5_0", "output.weight": "Q8_0"}, 64)])
def test_mixtures(forms, width, tmp_path):
    path = tmp_path / "model.gguf"
    model = models.make(path, "llama", "Q4_K" if width == 256 else "Q4_0", forms, hidden_size=width,
                        intermediate_size=width)
    check(model, path)


@pytest.mark.parametrize("form, bits", [("Q8_0", 8.5), ("Q4_0", 4.5), ("Q4_1", 5.0), ("Q4_K", 5.3125), ("Q6_K", 8.5625)])
def test_compiled_size(form, bits, tmp_path):
    """Weights are stored as the blocks' integers and scales; minima of the K formats take 32 bits."""
    path, compiled = tmp_path / "model.gguf", tmp_path / "model.mpcx"
    models.make(path, "llama", form, hidden_size=256, intermediate_size=512, vocab_size=1024)
    mpc("compile", path, "--dim", "batch_size=1", "--dim", "sequence_length=1", "-o", compiled)
    # Embedding and head, and per layer query and output, key and value, the MLP.
    weights = 2 * 1024 * 256 + 2 * (2 * 256 * 256 + 2 * 256 * 128 + 3 * 256 * 512)
    assert weights * bits / 8 < compiled.stat().st_size < weights * bits / 8 * 1.02 + 200_000
    inputs = tmp_path / "in.npz"
    np.savez(inputs, input_ids=[[7]], attention_mask=[[1]], position_ids=[[0]])
    logits = []
    for name, file in ("a.npz", path), ("b.npz", compiled):
        mpc("run", file, "--input", inputs, "--output", tmp_path / name)
        logits.append(np.load(tmp_path / name)["logits"])
    assert (logits[0] == logits[1]).all()


def test_tokens(tmp_path):
    path = tmp_path / "model.gguf"
    model = models.make(path, "llama", "Q8_0")
    prompt = [5, 17, 80, 9]
    with torch.no_grad():
        wanted = model.generate(torch.tensor([prompt]), max_new_tokens=40, do_sample=False)[0, len(prompt):].tolist()
    made = mpc("generate", path, "--prompt-ids", ",".join(map(str, prompt)), "--tokens", 40, "--quiet").splitlines()[0]
    assert [int(token) for token in made.split(",")] == wanted
