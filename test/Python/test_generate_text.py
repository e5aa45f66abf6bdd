# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Text around decoders: incremental detokenization, stop strings, chat templates, model folders, the program."""

import json
import os
import pathlib
import pty
import random
import signal
import subprocess
import sys
import time

import mpc
import pytest
from mpc._chat_template import ChatTemplate
from mpc._text_stream import TextStream

from conftest import INPUTS

MODEL = INPUTS / "decoder" / "model.onnx"
TEXT = "The naïve café – 東京タワー 🙂👩‍👩‍👧 naïve; the tower, the café's tower. " * 3
TEMPLATE = """{% for message in messages %}
{% if message.role == 'tool' %}{{ raise_exception('no tools here') }}{% endif %}
    {%- if loop.first and message.role != 'system' %}w1 {% endif %}
{% generation %}{{ message['content'] | trim }} {% endgeneration %}
{%- if loop.last %}{% break %}{% endif %}
{% endfor %}
{% if tools %}{{ tools | tojson }}{% endif %}{{ bos_token }}{% if add_generation_prompt %} w2{% endif %}"""
MESSAGES = [{"role": "system", "content": " w3 w4"}, {"role": "user", "content": "w5 <w6>"}]


def byte_level(tokenizers):
    """Tokens of bytes, so that characters consist of several."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.train_from_iterator([TEXT], tokenizers.trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<s>"], initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet()))
    return made


def metaspace(tokenizers):
    """Words with their leading space as in Llama 2, and bytes of other characters."""
    letters = [chr(code) for code in range(33, 127)]
    words = ["<unk>", "<s>", *(f"<0x{byte:02X}>" for byte in range(256)), *letters, "▁"]
    made = tokenizers.Tokenizer(tokenizers.models.BPE(
        {word: i for i, word in enumerate(words)}, [], byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    decoders = tokenizers.decoders
    made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                      decoders.Strip(" ", 1, 0)])
    made.add_special_tokens(["<s>"])
    return made


def word_piece(tokenizers):
    words = ["[UNK]", "the", "tower", "##s", "it", "'", "s", ".", ","]
    made = tokenizers.Tokenizer(tokenizers.models.WordPiece({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    made.decoder = tokenizers.decoders.WordPiece()
    return made


@pytest.mark.parametrize("make", [byte_level, metaspace, word_piece])
def test_pieces_are_the_text(make):
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = make(tokenizers)
    text = "the towers , it ' s the tower ." * 4 if make is word_piece else TEXT
    ids = tokenizer.encode(text).ids
    for start in range(0, len(ids), 5):
        whole = tokenizer.decode(ids[start:])
        if make is metaspace and whole.startswith("\ufffd"):
            continue  # Its decoder takes a run of bytes that begins inside of a character as invalid as a whole.
        stream = TextStream(tokenizer.decode)
        pieces = [stream.push(token) for token in ids[start:]]
        if make is not word_piece:
            # A text may begin inside of a character, but its pieces are whole ones.
            assert not any("\ufffd" in piece for piece in pieces[16:])
        assert "".join(pieces) + stream.finish() == whole
        assert sum(map(bool, pieces)) > len(ids[start:]) // 4 - 2
    # The text after a prompt is the rest of the text.
    for count in (1, 7, 30):
        before = tokenizer.decode(ids[:count])
        if before.endswith("\ufffd") or not tokenizer.decode(ids).startswith(before):
            continue
        stream = TextStream(tokenizer.decode, ids[:count])
        assert before + "".join(map(stream.push, ids[count:])) + stream.finish() == tokenizer.decode(ids)


def test_detokenization_takes_linear_time():
    decoded = []

    class Bytes:
        def decode(self, ids):
            decoded.append(len(ids))
            return bytes(ids).decode(errors="replace")

    numbers = random.Random(0)
    for tokens in ([0x41] * 1000, [0x80] * 1000, [0xE6, 0x9D, 0xB1] * 300, [numbers.randrange(256) for _ in range(1000)]):
        decoded.clear()
        stream = TextStream(Bytes().decode)
        text = "".join(map(stream.push, tokens)) + stream.finish()
        assert max(decoded) <= 24 and sum(decoded) < 24 * len(tokens)
        assert text == Bytes().decode(tokens)


def test_special_tokens_have_no_text():
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = metaspace(tokenizers)
    ids = tokenizer.encode("a b").ids
    between = [ids[0], *[1] * 40, *ids[1:]]
    stream = TextStream(tokenizer.decode)
    assert "".join(map(stream.push, between)) + stream.finish() == tokenizer.decode(between) == "a b"


@pytest.mark.parametrize("stops, text, wanted", [
    (["ab"], "xxabyy", "xx"), (["abc", "b"], "xabc", "xa"), (["aab"], "aaab", "a"), (["end"], "the en", "the en"),
    (["end"], "the ennd end.", "the ennd "), (["a", "ba"], "cba", "c"), (["\n\n"], "one\ntwo\n\nthree", "one\ntwo"),
])
def test_stop_strings_are_never_shown(stops, text, wanted):
    for length in (1, 2, 3):
        parts = [text[i:i + length] for i in range(0, len(text), length)]
        stream = TextStream(lambda ids, parts=parts: "".join(parts[i] for i in ids), stops=stops)
        found = ""
        for token in range(len(parts)):
            found += stream.push(token)
            assert wanted.startswith(found)
            if stream.stopped:
                break
        assert (found + stream.finish(), stream.stopped) == (wanted, wanted != text)


@pytest.fixture
def folder(tmp_path):
    """A folder with a decoder of 61 words and the files of transformers."""
    pytest.importorskip("jinja2")
    tokenizers = pytest.importorskip("tokenizers")
    words = {f"w{i}": i for i in range(58)} | {"<w6>": 58, "</s>": 59, "<s>": 60}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="w0"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    made.add_special_tokens(["<s>", "</s>"])
    made.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "model.onnx").symlink_to(MODEL)
    write(tmp_path / "config.json", {"max_position_embeddings": 64, "eos_token_id": 3})
    write(tmp_path / "tokenizer_config.json", {"bos_token": "<s>", "eos_token": {"__type": "AddedToken", "content": "</s>"},
                                               "chat_template": TEMPLATE, "tokenizer_class": "PreTrainedTokenizerFast"})
    write(tmp_path / "generation_config.json", {"eos_token_id": [23, 40]})
    return tmp_path


def write(path, values):
    path.write_text(json.dumps(values), encoding="utf-8")


def open_folder(folder, **options):
    return mpc.Decoder.from_pretrained(folder, policy="float32", chunk=8, **options)


def test_folders_have_tokenizer_ends_and_template(folder):
    decoder = open_folder(folder)
    assert decoder.capacity == 64 and decoder.tokenizer.token_to_id("w7") == 7
    assert list(decoder.generate([1, 2, 3, 4, 5])) == [54, 35, 39, 59, 59, 59, 35, 39, 39, 23]
    # The special token 59 has no text, the end token 23 is none of the text.
    assert "".join(decoder.generate("w1 w2 w3 w4 w5")) == " w54 w35 w39 w35 w39 w39"
    assert "".join(decoder.generate("w1 w2 w3 w4 w5", end=(), tokens=12)).endswith("w23 w40 w13")
    assert "".join(decoder.generate("w1 w2 w3 w4 w5", stop=[" w35 w39 w39", "w77"])) == " w54 w35 w39"
    text = decoder.apply_chat_template(MESSAGES)
    assert text == "w3 w4 w5 <w6> <s> w2"
    ids = [3, 4, 5, 58, 60, 2]
    answer = decoder.tokenizer.decode([t for t in decoder.generate(ids, tokens=9) if t not in (23, 40)])
    assert "".join(decoder.generate(MESSAGES, tokens=9)) == answer
    # Options of the call replace those of the folder.
    replaced = open_folder(folder, defaults={"end": 39}, capacity=32)
    assert list(replaced.generate([1, 2, 3, 4, 5])) == [54, 35, 39] and replaced.capacity == 32
    added = open_folder(folder, defaults={"tokens": 4})
    assert list(added.generate([1, 2, 3, 4, 5])) == [54, 35, 39, 59]
    assert list(added.generate([1, 2, 3, 4, 5], tokens=None))[-1] == 23


def test_sampling_defaults_are_those_of_the_folder(folder):
    write(folder / "generation_config.json", {"do_sample": True, "temperature": 2.0, "top_k": 7, "min_p": 0.01,
                                              "eos_token_id": 23})
    decoder = open_folder(folder)
    wanted = list(decoder.generate([1], temperature=2.0, top_k=7, top_p=1.0, min_p=0.01, seed=3, tokens=40))
    assert list(decoder.generate([1], seed=3, tokens=40)) == wanted
    assert list(decoder.generate([1], seed=3, tokens=40, temperature=0)) != wanted
    # Without do_sample numbers of sampling have no effect.
    write(folder / "generation_config.json", {"temperature": 2.0, "top_k": 7, "repetition_penalty": 1.3})
    penalized = list(open_folder(folder).generate([1, 2, 3, 4, 5], tokens=12))
    assert penalized == list(mpc.Decoder(MODEL, policy="float32", capacity=64, chunk=8, defaults={"end": 3}).generate(
        [1, 2, 3, 4, 5], tokens=12, repetition_penalty=1.3))
    assert len(set(penalized)) > len(set([54, 35, 39, 59, 59, 59, 35, 39, 39, 23, 40, 13]))
    # The end token of config.json.
    assert list(open_folder(folder).generate([1, 2, 3, 4, 5], tokens=40, end=())) != []
    write(folder / "generation_config.json", {"num_beams": 4, "no_repeat_ngram_size": 0})
    with pytest.warns(mpc.ModelWarning, match="mpc has no 'num_beams'"):
        open_folder(folder)


@pytest.mark.parametrize("name, text, error", [
    ("generation_config.json", "{", "generation_config.json: is not JSON"),
    ("generation_config.json", "[" * 100000, "generation_config.json: is not JSON"),
    ("generation_config.json", "[1]", "generation_config.json: has a list where an object is expected"),
    ("generation_config.json", '{"eos_token_id": "</s>"}', 'has "</s>" as \'eos_token_id\', expected a number'),
    ("generation_config.json", '{"do_sample": true, "top_k": -1}', "has -1 as 'top_k'"),
    ("generation_config.json", '{"do_sample": true, "top_p": "\\u001b[1m"}', "as 'top_p', expected a finite number"),
    ("config.json", '{"max_position_embeddings": true}', "has true as 'max_position_embeddings'"),
    ("tokenizer.json", "{}", "tokenizer.json: is not a tokenizer"),
    ("tokenizer_config.json", '{"chat_template": [{"name": 1}]}', "has a 'chat_template' that is neither"),
    ("tokenizer_config.json", '{"chat_template": [1]}', "has a int where an object is expected"),
    ("tokenizer_config.json", '{"chat_template": [{"name": [1], "template": ""}]}', "has a 'chat_template' that is"),
    ("tokenizer_config.json", '{"chat_template": 1}', "has a 'chat_template' that is neither"),
    ("generation_config.json", '{"repetition_penalty": 1' + "0" * 400 + "}", "'repetition_penalty', expected a finite"),
    ("generation_config.json", '{"repetition_penalty": NaN}', "NaN as 'repetition_penalty', expected a finite number"),
    ("generation_config.json", '{"repetition_penalty": 1e300}', "repetition_penalty: is 1e+300, but must be a normal"),
    ("generation_config.json", '{"do_sample": true, "top_p": 2}', "generation_config.json: has an invalid option: "),
    ("generation_config.json", '{"do_sample": true, "top_k": 1' + "0" * 20 + "}", "top_k: is 1"),
])
def test_malformed_files_are_refused(folder, name, text, error):
    (folder / name).write_text(text, encoding="utf-8")
    with pytest.raises(mpc.InvalidArgument) as found:
        open_folder(folder)
    assert error in str(found.value) and str(found.value).isprintable()


def test_folders_without_a_model_are_refused(tmp_path):
    with pytest.raises(mpc.NotFound, match="none: is no file or folder"):
        mpc.Decoder.from_pretrained(tmp_path / "none")
    with pytest.raises(mpc.NotFound, match="owner/model: is no file or folder; hf download owner/model --local-dir"):
        mpc.Decoder.from_pretrained("owner/model")
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(mpc.NotFound, match="neither weights in .safetensors files nor model.onnx; save_pretrained"):
        mpc.Decoder.from_pretrained(tmp_path)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja",
                                  "generation_config.json"])
def test_files_outside_of_the_folder_are_refused(folder, name):
    # The hub's cache has links to files that are named by their contents.
    snapshot = folder / "snapshots" / "1"
    snapshot.mkdir(parents=True)
    (folder / "blobs").mkdir()
    for each in folder.glob("*.json"):
        each.rename(folder / "blobs" / each.name)
        (snapshot / each.name).symlink_to(f"../../blobs/{each.name}")
    (snapshot / "model.onnx").symlink_to(MODEL)
    assert open_folder(snapshot).apply_chat_template(MESSAGES) == "w3 w4 w5 <w6> <s> w2"
    (folder / "outside").write_text("{}")
    (folder / "blobs" / "other").symlink_to("../outside")
    for target in ("../../outside", "/dev/zero", "../../blobs/../outside", "../../blobs/.."):
        (snapshot / name).unlink(missing_ok=True)
        (snapshot / name).symlink_to(target)
        with pytest.raises(mpc.InvalidArgument, match=f"{name}: is a symbolic link to '{target}', but only links to"):
            open_folder(snapshot)
    for target in ("other", "none"):
        (snapshot / name).unlink()
        (snapshot / name).symlink_to(f"../../blobs/{target}")
        with pytest.raises(mpc.NotFound, match=f"{name}: cannot be read: "):
            open_folder(snapshot)
    (snapshot / name).unlink()
    os.mkfifo(snapshot / name)
    with pytest.raises(mpc.InvalidArgument, match=f"{name}: is not a regular file"):
        open_folder(snapshot)


def test_files_beside_a_model_are_read(folder):
    assert open_folder(folder / "model.onnx").tokenizer is not None
    for name in ("tokenizer.json", "tokenizer_config.json", "config.json", "generation_config.json"):
        (folder / name).unlink()
    decoder = open_folder(folder, capacity=64)
    assert len(list(decoder.generate([1, 2, 3, 4, 5], tokens=12))) == 12
    with pytest.raises(mpc.InvalidArgument, match="has no tokenizer"):
        decoder.generate("w1")
    with pytest.raises(mpc.InvalidArgument, match="has no chat template"):
        decoder.generate(MESSAGES)


# ---------------------------------------------------------------- chat templates

def test_templates_render_as_in_transformers(folder):
    transformers = pytest.importorskip("transformers")
    decoder, tokenizer = open_folder(folder), transformers.AutoTokenizer.from_pretrained(folder)
    tools = [{"type": "function", "function": {"name": "f<é>", "parameters": {"type": "object"}}}]
    conversations = [MESSAGES, MESSAGES[1:], [*MESSAGES, {"role": "assistant", "content": "w7\n"}]]
    for messages in conversations:
        for options in ({}, {"add_generation_prompt": False}, {"tools": tools}):
            wanted = tokenizer.apply_chat_template(
                messages, tokenize=False, **{"add_generation_prompt": True, **options})
            assert decoder.apply_chat_template(messages, **options) == wanted
    # Files of a tokenizer that transformers saves.
    (folder / "saved").mkdir()
    tokenizer.save_pretrained(folder / "saved")
    (folder / "saved" / "model.onnx").symlink_to(MODEL)
    assert open_folder(folder / "saved").apply_chat_template(MESSAGES) == decoder.apply_chat_template(MESSAGES)
    assert (folder / "saved" / "chat_template.jinja").exists()


def test_templates_choose_by_tools():
    pytest.importorskip("jinja2")
    template = ChatTemplate("t", {"default": "plain", "tool_use": "{{ tools[0].name }}"}, {})
    assert (template([]), template([], tools=[{"name": "f"}])) == ("plain", "f")
    with pytest.raises(mpc.InvalidArgument, match="t: has no default chat template, only 'rag'"):
        ChatTemplate("t", {"rag": ""}, {})([])


def test_templates_see_plain_data():
    pytest.importorskip("jinja2")
    assert ChatTemplate("t", {"default": "{{ strftime_now('%Y') }}"}, {})([]) >= "2024"
    for text, error in (
            ("{{ raise_exception('roles \x1b alternate') }}", "roles .x1b alternate"), ("{% if %}", "Expected an expression"),
            ("{{ messages.__class__.__mro__ }}", "unsafe"), ("{{ 1 / 0 }}", "zero"),
            ("{{ messages.append(1) }}", "unsafe"), ("{% for i in range(10**7) %}{% endfor %}", "[Rr]ange")):
        with pytest.raises(mpc.InvalidArgument, match=error) as found:
            ChatTemplate("t", {"default": text}, {})([{"role": "user", "content": "x"}])
        assert str(found.value).startswith("t: fails on these messages: ") and str(found.value).isprintable()
    assert ChatTemplate("t", {"default": "{{ self is defined }} {{ name }}"}, {})([], self=1, name=2) == "True 2"
    with pytest.raises(mpc.InvalidArgument, match="messages: have a object"):
        ChatTemplate("t", {"default": "{{ messages[0].content }}"}, {})([{"role": "user", "content": object()}])


# ---------------------------------------------------------------- compared with transformers

@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    """A folder with a random Llama of 101 words, its model and its tokenizer."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    folder = tmp_path_factory.mktemp("llama")
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=300, hidden_size=48, intermediate_size=96, num_hidden_layers=3, num_attention_heads=6,
        num_key_value_heads=2, max_position_embeddings=256, initializer_range=0.3, bos_token_id=0, eos_token_id=None,
        pad_token_id=0)).eval()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=byte_level(tokenizers), bos_token="<s>",
                                                     chat_template="{{ bos_token }}{{ messages[0].content }}:")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder, model, tokenizer


def continued(model, ids, **options):
    """Tokens that transformers generates after `ids` by greedy search."""
    import torch

    given = torch.tensor([ids])
    return model.generate(given, attention_mask=torch.ones_like(given), do_sample=False, **options)[0, len(ids):].tolist()


def test_greedy_search_is_that_of_transformers(llama):
    folder, model, tokenizer = llama
    decoder = mpc.Decoder.from_pretrained(folder, policy="float32", chunk=16, slots=4)
    assert decoder.capacity == 256
    prompts = [tokenizer(text)["input_ids"] for text in ("the tower", TEXT, "🙂", "naïve; the café's tower.")]
    wanted = [continued(model, ids, max_new_tokens=64) for ids in prompts]
    assert [list(decoder.generate(ids)) for ids in prompts] == decoder.generate_all(prompts) == wanted
    penalized = [continued(model, ids, max_new_tokens=64, repetition_penalty=1.3) for ids in prompts]
    assert decoder.generate_all(prompts, repetition_penalty=1.3) == penalized != wanted
    ends = [wanted[0][20], wanted[1][33]]
    ended = [continued(model, ids, max_new_tokens=64, eos_token_id=ends) for ids in prompts]
    assert decoder.generate_all(prompts, end=ends) == ended != wanted
    # Text, and the answer to a message.
    whole = tokenizer.decode([*prompts[3], *wanted[3]], skip_special_tokens=True)
    assert "naïve; the café's tower." + "".join(decoder.generate("naïve; the café's tower.")) == whole
    messages = [{"role": "user", "content": "the tower"}]
    ids = tokenizer.apply_chat_template(messages, return_dict=False)
    assert "".join(decoder.generate(messages)) == tokenizer.decode(continued(model, ids, max_new_tokens=64),
                                                                   skip_special_tokens=True)


def test_generation_configurations_are_those_of_transformers(llama):
    folder, model, _ = llama
    model.generation_config.eos_token_id, model.generation_config.repetition_penalty = [5, 9], 1.2
    model.generation_config.save_pretrained(folder)
    try:
        decoder = mpc.Decoder.from_pretrained(folder, policy="float32", chunk=16)
        for first in range(1, 9):
            assert list(decoder.generate([first, 2], tokens=64)) == continued(model, [first, 2], max_new_tokens=64)
    finally:
        model.generation_config.eos_token_id = model.generation_config.repetition_penalty = None
        model.generation_config.save_pretrained(folder)


@pytest.mark.parametrize("options", [{"top_k": 5}, {"top_p": 0.7}, {"min_p": 0.1}, {"top_k": 20, "top_p": 0.9},
                                     {"top_k": 30, "top_p": 0.95, "min_p": 0.03}])
def test_sampling_keeps_the_tokens_of_transformers(options):
    import numpy as np

    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    logits = np.random.default_rng(3).standard_normal(60, np.float32) * 3
    warpers = [transformers.TemperatureLogitsWarper(1.5)]
    for name, kind in (("top_k", "TopK"), ("top_p", "TopP"), ("min_p", "MinP")):
        if name in options:
            warpers.append(getattr(transformers, f"{kind}LogitsWarper")(options[name]))
    scores = transformers.LogitsProcessorList(warpers)(torch.zeros(1, 1, dtype=torch.long), torch.tensor(logits)[None])
    chances = scores.softmax(-1)[0].numpy()
    sampler = mpc._mpc.sampler(1.5, options.get("top_k", 0), options.get("top_p", 1.0), 7, options.get("min_p", 0.0), 1.0)
    counts = np.bincount([sampler.draw(logits) for _ in range(20000)], minlength=60)
    assert set(np.nonzero(counts)[0]) == set(np.nonzero(chances)[0])
    # Five standard deviations of a binomial distribution.
    assert (np.abs(counts - 20000 * chances) <= 5 * np.sqrt(20000 * chances * (1 - chances))).all()


# ---------------------------------------------------------------- the program

def program(*arguments, given=None):
    done = subprocess.run([sys.executable, "-m", "mpc.generate", *map(str, arguments)], input=given, capture_output=True,
                          text=True, check=False, timeout=300)
    return done.returncode, done.stdout, done.stderr


def test_the_program_streams_text(folder):
    common = ["--policy", "float32", "--chunk", 8, "--tokens", 12]
    code, text, told = program(folder, "--prompt", "w1 w2 w3 w4 w5", *common)
    assert (code, text) == (0, " w54 w35 w39 w35 w39 w39\n"), told
    assert told.startswith("prompt of 5 tokens: first token after ") and "10 tokens; ended by the model" in told
    assert program(folder, *common, "--quiet", given="w1 w2 w3 w4 w5") == (0, text, "")
    code, _, told = program(folder, "--prompt", "w1 \udcff", *common)
    assert (code, told) == (1, f"error: {folder}/model.onnx: was given text that is not Unicode at character 3: "
                            "'\\udcff'\n")
    code, stopped, told = program(folder, "--prompt", "w1 w2 w3 w4 w5", "--stop", " w39", *common)
    assert (code, stopped) == (0, " w54 w35\n") and "ended by --stop" in told
    code, answer, _ = program(folder, "--prompt", "w5 <w6>", "--system", "w3 w4", *common)
    assert (code, answer) == (0, "".join(open_folder(folder).generate(MESSAGES, tokens=12)) + "\n")


@pytest.mark.parametrize("arguments, error", [
    (["none", "--prompt", "x"], "none: is no file or folder"),
    ([MODEL, "--prompt", "x"], "has no tokenizer; give it by --tokenizer"),
    ([MODEL, "--prompt", "x", "--temperature", "-1"], "temperature is -1"),
    ([MODEL, "--prompt", "x", "--tokens", "0"], "tokens: is 0, but must be 1 or more"),
    ([MODEL, "--prompt", "x", "--chat"], "has no chat template"),
    ([MODEL, "--prompt", "x", "--cache", str(10 ** 18)], "--cache: is 1000000000000000000, but must be from 2 to"),
    ([MODEL, "--prompt", "x", "--cache", "0"], "--cache: is 0, but must be from 2 to"),
    ([MODEL, "--prompt", "x", "--seed", "-1"], "seed: is -1, but must be from 0 to 18446744073709551615"),
    ([MODEL, "--prompt", "x", "--top-k", str(2 ** 64)], "top_k: is 18446744073709551616"),
    ([MODEL, "--prompt", "x", "--set", "softmax"], "--set: is 'softmax', expected NAME=TYPE"),
])
def test_the_program_fails_in_a_sentence(arguments, error):
    code, text, told = program(*arguments)
    assert code == 1 and text == "" and told.startswith("error: ") and error in told and told.count("\n") == 1


def test_the_program_says_what_it_cannot_do(folder):
    common = ["--policy", "float32", "--chunk", 8]
    if os.path.exists("/dev/full"):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([sys.executable, "-m", "mpc.generate", folder, "--prompt", "w1", *map(str, common)],
                                  stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=300)
        assert (done.returncode, done.stderr) == (1, "error: stdout: No space left on device\n")
    code, _, told = program(folder, "--prompt", "w1 " * 60, "--tokens", 8, "--quiet", *common)
    assert (code, told) == (0, f"warning: {folder}: a prompt of 60 tokens and 8 more exceed the model's maximum length "
                            "of 64 tokens\n")
    code, _, told = program(folder, "--prompt", "w1", "--tokens", 10 ** 18, *common)
    assert code == 1 and told.startswith("error: --tokens and --chunk: need ") and told.count("\n") == 1


class Terminal:
    """A program whose stdin and stdout are a terminal."""

    def __init__(self, *arguments):
        self._side, other = pty.openpty()
        self.process = subprocess.Popen([sys.executable, "-m", "mpc.generate", *map(str, arguments)], stdin=other,
                                        stdout=other, stderr=subprocess.PIPE, close_fds=True, start_new_session=True)
        os.close(other)
        self.text = ""

    def until(self, wanted, seconds=120):
        end = time.monotonic() + seconds
        while wanted not in self.text and time.monotonic() < end:
            try:
                self.text += os.read(self._side, 4096).decode()
            except OSError:
                break
        assert wanted in self.text, (self.text, self.process.stderr.read() if self.process.poll() else "")
        found, self.text = self.text.split(wanted, 1)
        return found

    def type(self, text):
        os.write(self._side, text.encode())

    def end(self):
        self.process.wait(60)
        told = self.process.stderr.read().decode()
        self.process.stderr.close()
        os.close(self._side)
        return self.process.returncode, told


def test_conversations(folder):
    terminal = Terminal(folder, "--policy", "float32", "--chunk", 8, "--tokens", 6)
    terminal.until("> ")
    terminal.type("w5\n")
    first = terminal.until("> ")
    terminal.type("w5 " * 80 + "\n")
    terminal.until("> ")
    terminal.type("/new\n")
    terminal.until("> ")
    terminal.type("w5\n")
    assert terminal.until("> ") == first and first.count("w") > 2
    terminal.type("\x04")
    code, told = terminal.end()
    assert code == 0 and "first token after" in told and told.count("error: ") == 1 and "rows of the KV cache" in told


def test_ctrl_c_ends_an_answer(folder):
    endless = pathlib.Path(folder) / "endless.py"
    endless.write_text("""
import sys
from mpc import _mpc
from mpc.generate import main
draw = _mpc.Sampler.draw
import mpc._batch, time
class Slow(mpc._batch.Batch):
    def step(self):
        time.sleep(0.2)
        return super().step()
import mpc._decoder
mpc._decoder.Batch = Slow
sys.exit(main())
""", encoding="utf-8")
    process = subprocess.Popen([sys.executable, endless, folder, "--prompt", "w1 w2 w3 w4 w5", "--policy", "float32",
                                "--chunk", "8", "--tokens", "50", "--temperature", "3"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    begun = process.stdout.read(3)
    process.send_signal(signal.SIGINT)
    rest, told = process.communicate(timeout=60)
    assert process.returncode == 130 and (begun + rest).endswith("\n"), told
    assert "interrupted" in told and "Traceback" not in told
