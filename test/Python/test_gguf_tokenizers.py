# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tokenizers in GGUF files, compared with those that they were made of."""

import json
import struct

import mpc
import pytest
from mpc import _pretrained

gguf = pytest.importorskip("gguf")
tokenizers = pytest.importorskip("tokenizers")

TEXT = "The naïve café's tower (1234567) – 東京タワー 🙂👩‍👩‍👧, it'll be\n\n  100% fine;\tdon't  you THINK so?\r\n" * 4
TEXTS = [TEXT, "", " ", "hello  world", "a\n\n\nb", "e\u0301", "x" * 50, "\x00\x7f", "<|end|>the<|end|> tower",
         "12 345 6789"]
TEMPLATE = "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")


def write(path, tensors=None, **values):
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(96)
    for name, value in values.items():
        getattr(writer, f"add_{name}")(value)
    for name, value in (tensors or {}).items():
        writer.add_tensor(name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def byte_level(kind):
    """A trained tokenizer of bytes, as in transformers."""
    pieces = tokenizers.pre_tokenizers
    made = tokenizers.Tokenizer(tokenizers.models.BPE(ignore_merges=kind == "llama-bpe"))
    if kind == "gpt-2":
        made.pre_tokenizer = pieces.ByteLevel(add_prefix_space=False)
    else:
        pattern = LLAMA3 if kind == "llama-bpe" else LLAMA3.replace("{1,3}", "")
        made.pre_tokenizer = pieces.Sequence([pieces.Split(tokenizers.Regex(pattern), "isolated"),
                                              pieces.ByteLevel(add_prefix_space=False, use_regex=False)])
    if kind == "qwen2":
        made.normalizer = tokenizers.normalizers.NFC()
    made.decoder = tokenizers.decoders.ByteLevel()
    made.train_from_iterator([TEXT], tokenizers.trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<|begin|>", "<|end|>"], initial_alphabet=pieces.ByteLevel.alphabet()))
    return made


@pytest.mark.parametrize("kind", ["gpt-2", "llama-bpe", "qwen2"])
def test_byte_level_tokenizers(kind, tmp_path):
    wanted = byte_level(kind)
    vocabulary = sorted(wanted.get_vocab(), key=wanted.get_vocab().get)
    merges = [merge if isinstance(merge, str) else " ".join(merge)
              for merge in json.loads(wanted.to_str())["model"]["merges"]]
    path = write(tmp_path / "model.gguf", tokenizer_model="gpt2", tokenizer_pre=kind, token_list=vocabulary,
                 token_types=[3, 3] + [1] * (len(vocabulary) - 2), token_merges=merges, bos_token_id=0, eos_token_id=1,
                 eot_token_id=5, chat_template=TEMPLATE, add_bos_token=kind == "llama-bpe")
    found = _pretrained.read(path)
    assert found.capacity == 96 and found.defaults == {"end": (1, 5)}
    first = [0] if kind == "llama-bpe" else []
    for text in TEXTS:
        ids = found.tokenizer.encode(text).ids
        assert ids == first + wanted.encode(text).ids
        assert found.tokenizer.decode(ids) == wanted.decode(ids)
    assert found.chat_template([{"role": "user", "content": "hi"}]) == "<|begin|>hi"


def test_sentence_piece_tokenizers(tmp_path):
    sentencepiece = pytest.importorskip("sentencepiece")
    (tmp_path / "text").write_text(TEXT, encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "text"), model_prefix=str(tmp_path / "m"), model_type="bpe", vocab_size=400,
        byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
        user_defined_symbols=["<|end|>"], hard_vocab_limit=False, minloglevel=2)
    wanted = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "m.model"))
    numbers = range(wanted.vocab_size())

    def kind(i):
        return 2 if wanted.is_unknown(i) else 3 if wanted.is_control(i) else 6 if wanted.is_byte(i) else (
            4 if wanted.id_to_piece(i) == "<|end|>" else 1)

    path = write(tmp_path / "model.gguf", tokenizer_model="llama", token_list=[wanted.id_to_piece(i) for i in numbers],
                 token_scores=[wanted.get_score(i) for i in numbers], token_types=[kind(i) for i in numbers],
                 bos_token_id=wanted.bos_id(), eos_token_id=wanted.eos_id(), unk_token_id=wanted.unk_id())
    found = _pretrained.read(path)
    for text in TEXTS:
        if "<|end|>" in text or not text:
            continue  # A space is put before the text after an added token.
        ids = found.tokenizer.encode(text).ids
        assert ids == [wanted.bos_id(), *wanted.encode(text)], text
        assert found.tokenizer.decode(ids) == wanted.decode(ids[1:])


def test_text_is_that_of_transformers(tmp_path):
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    torch.manual_seed(0)
    made = byte_level("llama-bpe")
    vocabulary = sorted(made.get_vocab(), key=made.get_vocab().get)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=len(vocabulary), hidden_size=48, intermediate_size=96, num_hidden_layers=2, num_attention_heads=6,
        num_key_value_heads=2, max_position_embeddings=96, initializer_range=0.3, bos_token_id=0, eos_token_id=1,
        pad_token_id=0)).eval()
    merges = [" ".join(merge) for merge in json.loads(made.to_str())["model"]["merges"]]
    tensors = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
    for i in range(2):
        for name, of in {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
                         "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
                         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}.items():
            tensors[f"blk.{i}.{name}"] = f"model.layers.{i}.{of}"
    weights = model.state_dict()

    def stored(name, of):
        weight = weights[f"{of}.weight"]
        if name.endswith(("attn_q", "attn_k")):
            # GGUF rotates adjacent pairs where transformers rotates halves.
            weight = weight.reshape(-1, 2, 4, 48).transpose(1, 2).reshape(weight.shape)
        return weight.numpy()

    path = write(tmp_path / "model.gguf", {f"{name}.weight": stored(name, of) for name, of in tensors.items()},
                 vocab_size=len(vocabulary), embedding_length=48, block_count=2, feed_forward_length=96, head_count=6,
                 head_count_kv=2, layer_norm_rms_eps=model.config.rms_norm_eps, rope_freq_base=10000.0,
                 rope_dimension_count=8, tokenizer_model="gpt2", tokenizer_pre="llama-bpe", token_list=vocabulary,
                 token_types=[3, 3] + [1] * (len(vocabulary) - 2), token_merges=merges, bos_token_id=0, eos_token_id=1,
                 add_bos_token=True, chat_template=TEMPLATE)
    decoder = mpc.Decoder.from_pretrained(path, policy="float32", chunk=16)

    def continued(ids):
        given = torch.tensor([ids])
        made = model.generate(given, attention_mask=torch.ones_like(given), max_new_tokens=40, do_sample=False)
        return made[0, len(ids):].tolist()

    for text in ("the tower", "hi", "東京"):
        ids = [0, *made.encode(text).ids]
        wanted = continued(ids)
        assert list(decoder.generate(ids, tokens=40)) == wanted
        assert text + "".join(decoder.generate(text, tokens=40)) == made.decode(ids + wanted)
        # The template writes the first token.
        assert "".join(decoder.generate([{"role": "user", "content": text}], tokens=40)) == made.decode(wanted)


@pytest.mark.parametrize("values, error", [
    ({"tokenizer_model": "rwkv", "token_list": ["a"]}, "of the kind 'rwkv', but mpc reads 'gpt2' and 'llama'"),
    ({"tokenizer_model": "gpt2", "tokenizer_pre": "tekken", "token_list": ["a"]}, "splits text as 'tekken'"),
    ({"tokenizer_model": "gpt2", "token_list": ["a", "a"]}, "has 2 tokens of 1 texts"),
    ({"tokenizer_model": "gpt2", "token_list": ["a"], "token_types": [1, 1]}, "and 2 types"),
    ({"tokenizer_model": "gpt2", "token_list": ["a"], "token_merges": ["b c"]}, "has a malformed tokenizer"),
    ({"tokenizer_model": "gpt2", "token_list": ["a"], "bos_token_id": 7, "add_bos_token": True}, "malformed tokenizer"),
    ({"tokenizer_model": "llama", "token_list": ["a"]}, "has 1 tokens and 0 scores"),
    ({"tokenizer_model": "llama", "token_list": ["a", "a" * 300], "token_scores": [0.0, 0.0]},
     "has a token of 300 characters, but mpc reads tokens of at most 256"),
])
def test_malformed_tokenizers_are_refused(values, error, tmp_path):
    with pytest.raises(mpc.InvalidArgument, match=error):
        _pretrained.read(write(tmp_path / "model.gguf", **values))


def test_merges_are_bounded(tmp_path, monkeypatch):
    values = {"tokenizer_model": "llama", "token_list": ["a" * i for i in range(1, 9)], "token_scores": [0.0] * 8}
    path = write(tmp_path / "model.gguf", **values)
    # A token of n letters has n - 1 merges.
    monkeypatch.setattr(mpc._gguf, "_MOST_MERGES", 28)
    assert _pretrained.read(path).tokenizer is not None
    monkeypatch.setattr(mpc._gguf, "_MOST_MERGES", 27)
    with pytest.raises(mpc.InvalidArgument, match="has more than 27 pairs of tokens that make a token"):
        _pretrained.read(path)


def value(kind, *data):
    """A file with one key."""
    return b"GGUF" + struct.pack("<IQQQ1sI", 3, 0, 1, 1, b"k", kind) + b"".join(data)


@pytest.mark.parametrize("data, error", [
    (b"", "mmap an empty file"), (b"GGUF", "buffer"), (b"GGUX" + b"\x03" * 60, "starts with b'GGUX'"),
    (b"GGUF" + b"\x01" * 64, "and version 16843009"), (b"GGUF" + struct.pack("<IQQ", 3, 0, 2 ** 63), "buffer"),
    (value(8, struct.pack("<Q", 2 ** 62), b"a"), "a text of 4611686018427387904 bytes"), (value(99), "the type 99"),
    (value(9, struct.pack("<IQ", 0, 2 ** 60), b"a"), "an array of 1152921504606846976 values"),
    (value(9, struct.pack("<IQ", 12, 40), b"a" * 50), "buffer"), (value(9, struct.pack("<IQ", 9, 1) * 9), "the type 9"),
])
def test_malformed_files_are_refused(data, error, tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    with pytest.raises(mpc.InvalidArgument, match="model.gguf: is not a GGUF file, or ends early: ") as found:
        _pretrained.read(path)
    assert error in str(found.value)


def test_files_without_tokens_have_no_tokenizer(tmp_path):
    path = write(tmp_path / "model.gguf")
    assert _pretrained.read(path).tokenizer is None
    # Every prefix is a file that ends early.
    whole = path.read_bytes()
    for length in range(0, len(whole) - 36, 7):
        path.write_bytes(whole[:length])
        with pytest.raises(mpc.InvalidArgument):
            _pretrained.read(path)
