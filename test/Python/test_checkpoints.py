# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Hugging Face folders: each architecture with random weights against transformers in float64."""

import json
import pathlib
import shutil

import mpc
import numpy as np
import pytest
torch = pytest.importorskip("torch")

transformers = pytest.importorskip("transformers")
pytest.importorskip("safetensors")
transformers.logging.set_verbosity_error()

SIZES = dict(vocab_size=97, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=48,
             max_position_embeddings=128, bos_token_id=None, eos_token_id=None, pad_token_id=0)
GROUPED = dict(SIZES, num_key_value_heads=2)
WINDOWED = dict(GROUPED, sliding_window=7)


def rope(kind, **parameters):
    return {"rope_parameters": dict(rope_type=kind, rope_theta=10000.0, **parameters)}


# Class, configuration. Windows are shorter than the texts.
DECODERS = {
    "llama": ("Llama", GROUPED),
    "llama-biases-tied": ("Llama", dict(GROUPED, attention_bias=True, mlp_bias=True, tie_word_embeddings=True)),
    "llama-rope-llama3": ("Llama", dict(GROUPED, **rope(
        "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16))),
    "llama-rope-yarn": ("Llama", dict(GROUPED, **rope("yarn", factor=4.0, original_max_position_embeddings=32))),
    "llama-rope-linear": ("Llama", dict(GROUPED, **rope("linear", factor=4.0))),
    "llama-rope-dynamic": ("Llama", dict(GROUPED, **rope("dynamic", factor=4.0))),
    "mistral": ("Mistral", WINDOWED),
    "qwen2": ("Qwen2", dict(WINDOWED, use_sliding_window=True, max_window_layers=1)),
    "qwen3": ("Qwen3", dict(GROUPED, head_dim=16)),
    "gemma2": ("Gemma2", dict(WINDOWED, head_dim=16, query_pre_attn_scalar=20, attn_logit_softcapping=5.0,
                              final_logit_softcapping=3.0)),
    "gemma3": ("Gemma3", dict(WINDOWED, num_hidden_layers=7, head_dim=16)),
    "phi3": ("Phi3", dict(GROUPED, **rope("default", partial_rotary_factor=0.5))),
    "phi3-longrope": ("Phi3", dict(GROUPED, max_position_embeddings=256, original_max_position_embeddings=128, **rope(
        "longrope", short_factor=[1.1, 1.2, 1.3, 1.4], long_factor=[2.0, 3.0, 4.0, 5.0]))),
    "gpt2": ("GPT2", dict(vocab_size=97, n_embd=32, n_layer=3, n_head=4, n_positions=128, bos_token_id=None,
                          eos_token_id=None)),
    "gpt-neox": ("GPTNeoX", dict(SIZES, **rope("default", partial_rotary_factor=0.25))),
    "gpt-neox-sequential": ("GPTNeoX", dict(SIZES, use_parallel_residual=False)),
}
ENCODERS = {f"{family}-{head}": (family, head, configuration)
            for family, configuration in {
                "Bert": SIZES,
                "Roberta": dict(SIZES, type_vocab_size=1, pad_token_id=1),
                "ModernBert": dict(SIZES, local_attention=6, classifier_pooling="mean", cls_token_id=1,
                                   sep_token_id=2)}.items()
            for head in ("Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification")}


def random_model(kind, configuration, dtype=torch.float32):
    """A model of the class `kind` whose weights, norms and biases are random numbers of `dtype`."""
    name = kind.removesuffix("ForCausalLM") if kind.endswith("ForCausalLM") else kind.split("For")[0].removesuffix("Model")
    config = {"Gemma3": "Gemma3Text"}.get(name, name.removesuffix("LMHead"))
    torch.manual_seed(1)
    config = getattr(transformers, config + "Config")(**configuration)
    config._attn_implementation = "eager"
    model = getattr(transformers, kind)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.3)
            else:
                parameter.add_(0.2 * torch.randn_like(parameter))
    return model.to(dtype)


def decoder_class(family):
    return "GPT2LMHeadModel" if family == "GPT2" else family + "ForCausalLM"


@pytest.fixture(scope="module")
def decoders(tmp_path_factory):
    """Models and their folders by name, saved once."""
    made = {}

    def get(name):
        if name not in made:
            family, configuration = DECODERS[name]
            folder = tmp_path_factory.mktemp(name)
            model = random_model(decoder_class(family), configuration)
            model.save_pretrained(folder)
            made[name] = model, folder
        return made[name]

    return get


def tokens(batch, length, seed=3):
    return torch.randint(3, 97, (batch, length), generator=torch.Generator().manual_seed(seed))


def exact(model, **inputs):
    """Results in float64."""
    reference = type(model)(model.config).eval().double()
    reference.load_state_dict(model.double().state_dict())
    model.float()
    with torch.no_grad():
        return reference(**inputs)


def rms(values):
    return float(np.sqrt(np.mean(np.square(np.asarray(values, np.float64)))))


def judge(function, inputs, name, found, wanted):
    """Compares with the tolerance of mpc's own check on the same inputs."""
    rows = {row["name"]: row for row in function.check(**inputs)["outputs"]}
    assert rows[name]["ok"]
    wanted = np.asarray(wanted)
    assert found.shape == wanted.shape
    error = rms(found - wanted) / rms(wanted)
    assert error <= rows[name]["tolerance"], f"{error} exceeds {rows[name]['tolerance']}"


def numpy(inputs):
    return {name: array.numpy() for name, array in inputs.items()}


def results(function, **inputs):
    found = function(**inputs)
    return dict(zip(function.outputs, found if isinstance(found, tuple) else (found,)))


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_is_transformers(decoders, name, policy):
    """Three texts of different lengths, padded at the left, first without caches and then with them."""
    model, folder = decoders(name)
    ids, starts, first = tokens(3, 20), [0, 5, 9], 12
    mask = torch.ones_like(ids)
    for row, start in enumerate(starts):
        mask[row, :start] = 0
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    wanted = [exact(model, input_ids=ids[row:row + 1, start:]).logits[0] for row, start in enumerate(starts)]
    function = mpc.compile(folder, policy=policy)

    def compare(inputs, found, begin, end):
        shown = mask[:, begin:end].bool().numpy()
        exact_rows = torch.cat([row[max(begin - start, 0):end - start] for row, start in zip(wanted, starts)])
        judge(function, inputs, "logits", found[shown], exact_rows)

    inputs = numpy(dict(input_ids=ids, attention_mask=mask, position_ids=positions))
    compare(inputs, results(function, **inputs)["logits"], 0, 20)
    part = numpy(dict(input_ids=ids[:, :first], attention_mask=mask[:, :first], position_ids=positions[:, :first]))
    found = results(function, **part)
    rest = numpy(dict(input_ids=ids[:, first:], attention_mask=mask, position_ids=positions[:, first:]))
    rest.update({"past_key_values" + key.removeprefix("present"): value for key, value in found.items()
                 if key != "logits"})
    compare(rest, results(function, **rest)["logits"], first, 20)


@pytest.mark.parametrize("name", DECODERS)
def test_greedy_tokens_are_transformers(decoders, name):
    model, folder = decoders(name)
    prompt = tokens(1, 5)
    wanted = model.generate(prompt, max_new_tokens=64, do_sample=False)[0, 5:].tolist()
    decoder = mpc.Decoder(folder, policy="float32", capacity=128, chunk=8)
    assert list(decoder.generate(prompt[0].tolist(), tokens=64)) == wanted


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("name", ENCODERS)
def test_an_encoder_is_transformers(tmp_path, name, policy):
    family, head, configuration = ENCODERS[name]
    if "Classification" in head:
        configuration = dict(configuration, num_labels=5)
    model = random_model(family + head, configuration)
    model.save_pretrained(tmp_path)
    ids = tokens(3, 20)
    mask = torch.ones_like(ids)
    mask[1, -5:] = 0
    mask[2, -9:] = 0
    if family == "Roberta":
        ids[mask == 0] = 1
    inputs = dict(input_ids=ids, attention_mask=mask)
    if family == "Bert":
        inputs["token_type_ids"] = tokens(3, 20) % 2
    # Each text alone, without padding.
    wanted = [exact(model, **{name: array[row:row + 1, :mask[row].sum()] for name, array in inputs.items()})
              for row in range(3)]
    function = mpc.compile(tmp_path, policy=policy)
    found = results(function, **numpy(inputs))
    assert list(found) == {"Model": ["last_hidden_state", "pooler_output"][:1 if family == "ModernBert" else 2]}.get(
        head, ["logits"])
    for output, values in found.items():
        shown = mask.bool().numpy() if values.ndim == 3 else slice(None)
        judge(function, numpy(inputs), output, values[shown],
              torch.cat([each[output][0] if values.ndim == 3 else each[output] for each in wanted]))


# Configurations as transformers 4 wrote them.
OLD = {
    "llama-rope-llama3": dict(rope_parameters=None, rope_theta=10000.0, rope_scaling=dict(
        rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=16)),
    "llama-rope-linear": dict(rope_parameters=None, rope_scaling=dict(type="linear", factor=4.0), torch_dtype="float32",
                              dtype=None),
    "qwen2": dict(rope_parameters=None, layer_types=None, rope_theta=10000.0),
    "gemma2": dict(rope_parameters=None, layer_types=None, hidden_act="gelu_pytorch_tanh"),
    "gemma3": dict(rope_parameters=None, layer_types=None, rope_theta=1000000.0, rope_local_base_freq=10000.0,
                   sliding_window_pattern=6, _sliding_window_pattern=None),
    "phi3": dict(rope_parameters=None, rope_theta=10000.0, partial_rotary_factor=0.5, rope_scaling=None),
    "gpt-neox": dict(rope_parameters=None, rotary_pct=0.25, rotary_emb_base=10000),
}


def edited(folder, to, **changes):
    """A copy of a model's folder with other keys in config.json; None removes a key."""
    shutil.copytree(folder, to, dirs_exist_ok=True)
    config = json.loads((to / "config.json").read_text())
    config.update(changes)
    (to / "config.json").write_text(json.dumps({key: value for key, value in config.items() if value is not None}))
    return to


def run(folder):
    ids = tokens(1, 12)
    inputs = numpy(dict(input_ids=ids, attention_mask=torch.ones_like(ids), position_ids=torch.arange(12)[None]))
    return results(mpc.compile(folder, policy="float32"), **inputs)["logits"]


@pytest.mark.parametrize("name", OLD)
def test_old_configurations_are_the_same_models(decoders, tmp_path, name):
    _, folder = decoders(name)
    np.testing.assert_array_equal(run(folder), run(edited(folder, tmp_path, **OLD[name])))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_weights_keep_their_values(tmp_path, dtype):
    """Stored in 16 bits, computed in float32: the same bits as from the upconverted weights."""
    model = random_model("LlamaForCausalLM", GROUPED, dtype)
    model.save_pretrained(tmp_path / "narrow")
    model.float().save_pretrained(tmp_path / "wide")
    np.testing.assert_array_equal(run(tmp_path / "narrow"), run(tmp_path / "wide"))


def test_shards_and_links_are_the_same_model(decoders, tmp_path):
    model, folder = decoders("llama")
    wanted = run(folder)
    model.save_pretrained(tmp_path / "shards", max_shard_size="20KB")
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 3
    np.testing.assert_array_equal(run(tmp_path / "shards"), wanted)
    # The layout of Hugging Face's download cache.
    blobs, snapshot = tmp_path / "cache" / "blobs", tmp_path / "cache" / "snapshots" / "1"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    for file in folder.iterdir():
        shutil.copy(file, blobs / f"digest-{file.name}")
        (snapshot / file.name).symlink_to(f"../../blobs/digest-{file.name}")
    np.testing.assert_array_equal(run(snapshot), wanted)
    (snapshot / "model.safetensors").unlink()
    (snapshot / "model.safetensors").symlink_to(folder / "model.safetensors")
    with pytest.raises(mpc.InvalidArgument, match="is a symbolic link"):
        run(snapshot)


def test_changed_weights_are_compiled_again(tmp_path):
    model = random_model("LlamaForCausalLM", GROUPED)
    model.save_pretrained(tmp_path)
    before = run(tmp_path)
    with torch.no_grad():
        model.lm_head.weight.mul_(2)
    model.save_pretrained(tmp_path)
    np.testing.assert_array_equal(run(tmp_path), 2 * before)


def test_the_prefix_of_the_base_model_may_be_missing(decoders, tmp_path):
    """The first checkpoint of GPT-2 has none, and saved masks."""
    from safetensors.torch import load_file, save_file
    _, folder = decoders("gpt2")
    wanted = run(folder)
    edited(folder, tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    weights = {name.removeprefix("transformer."): weight for name, weight in weights.items()}
    weights["h.0.attn.bias"] = torch.ones(1, 1, 128, 128)
    save_file(weights, tmp_path / "model.safetensors")
    np.testing.assert_array_equal(run(tmp_path), wanted)


@pytest.mark.parametrize("name, embedding, head", [
    ("llama-biases-tied", "model.embed_tokens.weight", "lm_head.weight"),
    ("gpt2", "transformer.wte.weight", "lm_head.weight"),
])
def test_a_different_head_is_not_tied(decoders, tmp_path, name, embedding, head):
    """transformers ties tensors only if they are equal or one is missing."""
    from safetensors.torch import load_file, save_file
    model, folder = decoders(name)
    edited(folder, tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    assert head not in weights
    for factor in (1, 2):
        save_file(weights | {head: factor * weights[embedding]}, tmp_path / "model.safetensors", {"format": "pt"})
        np.testing.assert_array_equal(run(tmp_path), factor * run(folder))
        loaded = type(model).from_pretrained(tmp_path)
        assert torch.equal(loaded.lm_head.weight, factor * weights[embedding])


def test_an_untied_masked_head_has_its_own_bias(tmp_path):
    model = random_model("BertForMaskedLM", dict(SIZES, tie_word_embeddings=False))
    model.save_pretrained(tmp_path)
    assert not torch.equal(model.cls.predictions.bias, model.cls.predictions.decoder.bias)
    inputs = dict(input_ids=tokens(1, 12), attention_mask=torch.ones(1, 12, dtype=torch.int64),
                  token_type_ids=torch.zeros(1, 12, dtype=torch.int64))
    function = mpc.compile(tmp_path, policy="float32")
    judge(function, numpy(inputs), "logits", results(function, **numpy(inputs))["logits"],
          exact(model, **inputs).logits)


@pytest.mark.parametrize("changes, text", [
    (dict(architectures=["FooForCausalLM"]), "architecture 'FooForCausalLM', which is not supported.*LlamaForCausalLM"),
    (dict(architectures=None), "no key 'architectures'"),
    (dict(num_hidden_layers=10 ** 9), "key 'num_hidden_layers' is 1000000000, expected an integer from 1 to 1024"),
    (dict(hidden_size="wide"), "key 'hidden_size' is \"wide\""),
    (dict(hidden_act="mish"), "key 'hidden_act' is \"mish\""),
    (dict(attention_multiplier=2.0), "key 'attention_multiplier' with the value 2.0 is not known"),
    (dict(quantization_config={"bits": 4}), "key 'quantization_config' describes quantized weights"),
    (dict(rope_parameters=dict(rope_type="mrope")), "key 'rope_parameters.rope_type' is \"mrope\""),
    (dict(num_key_value_heads=3), "key 'num_key_value_heads' is 3, which does not divide the 4 heads"),
    (dict(num_hidden_layers=4), "tensor 'model.layers.3.input_layernorm.weight' is missing"),
    (dict(num_hidden_layers=2), "tensor 'model.layers.2..*' is not part of a LlamaForCausalLM"),
    (dict(intermediate_size=50), r"has the shape \[48,32\], but the configuration needs \[50,32\]"),
    (dict(attention_bias=True), "tensor 'model.layers.0.self_attn.q_proj.bias' is missing"),
])
def test_wrong_configurations_are_refused(decoders, tmp_path, changes, text):
    _, folder = decoders("llama")
    with pytest.raises(mpc.InvalidArgument, match=text):
        run(edited(folder, tmp_path, **changes))


def test_texts_beyond_a_scaled_length_are_refused(decoders, tmp_path):
    _, folder = decoders("llama-rope-dynamic")
    edited(folder, tmp_path, max_position_embeddings=8)
    with pytest.raises(mpc.InvalidArgument, match="8"):
        run(tmp_path)
    decoder = mpc.Decoder(tmp_path, policy="float32", capacity=64)
    with pytest.raises(mpc.InvalidArgument, match="8"):
        list(decoder.generate([5, 6, 7], tokens=20))


def test_wrong_inputs_are_refused(decoders, tmp_path):
    _, folder = decoders("llama")
    ids = tokens(2, 6).numpy()
    with pytest.raises(mpc.InvalidArgument, match="input 'position_ids' has the shape"):
        mpc.compile(folder)(ids, np.ones_like(ids), np.arange(6)[None])
    with pytest.raises(mpc.InvalidArgument, match="input 'attention_mask' has the shape"):
        mpc.compile(folder)(ids, np.ones_like(ids)[:, :4], ids)
    with pytest.raises(mpc.NotFound, match="is a folder without config.json"):
        mpc.compile(pathlib.Path(tmp_path))
