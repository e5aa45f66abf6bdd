# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Decoders: tokens and text, one sequence and several."""

import mpc
import numpy as np
import pytest

from conftest import INPUTS

MODEL = INPUTS / "decoder" / "model.onnx"
# Tokens that ONNX Runtime generates after 1,2,3,4,5 without a cache (test/Integration/generate.test).
GREEDY = [54, 35, 39, 59, 59, 59, 35, 39, 39, 23, 40, 13]


@pytest.fixture(scope="module")
def decoder():
    return mpc.Decoder(MODEL, policy="float32", capacity=64, chunk=8, slots=2)


class Letters:
    """A tokenizer whose tokens are letters from "0" on; é and similar letters take two."""

    class Encoding:
        def __init__(self, ids):
            self.ids = ids

    def encode(self, text):
        return self.Encoding([ord(letter) - ord("0") for letter in text])

    def decode(self, ids):
        return "".join(chr(ord("0") + token) for token in ids)


def test_writes_what_the_program_writes(decoder):
    assert list(decoder.generate([1, 2, 3, 4, 5], tokens=12)) == GREEDY
    assert list(decoder.generate(np.array([1, 2, 3, 4, 5]), tokens=12, end=23)) == GREEDY[:10]
    assert decoder.vocabulary == 61 and decoder.slots == 2 and decoder.capacity == 64
    assert "61 tokens" in repr(decoder)


def test_tokens_come_one_by_one(decoder):
    writing = decoder.generate([1, 2, 3, 4, 5], tokens=12)
    assert [next(writing), next(writing)] == GREEDY[:2]


def test_random_numbers_depend_on_the_seed(decoder):
    drawn = [list(decoder.generate([1], tokens=20, temperature=2.0, seed=seed)) for seed in (7, 7, 8)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert list(decoder.generate([1, 2, 3, 4, 5], tokens=12, temperature=2.0, top_k=1)) == GREEDY


def test_several_prompts_share_slots(decoder):
    prompts = [[1, 2, 3, 4, 5], [7, 8], [9], [1, 2, 3, 4, 5]]
    alone = [list(decoder.generate(prompt, tokens=12, end=40)) for prompt in prompts]
    assert decoder.generate_all(prompts, tokens=12, end=40) == alone
    assert decoder.generate_all([], tokens=12) == []


def test_sequences_fork_and_advance(decoder):
    first = decoder.start()
    logits = first.feed([1, 2, 3])
    assert logits.dtype == np.float32 and logits.shape == (61,) and first.length == 3
    second = first.fork()
    rows = decoder.advance([first, second], [4, 5])
    np.testing.assert_array_equal(second.fork().feed([6]), second.feed([6]))
    assert not np.array_equal(rows[0], rows[1])
    with pytest.raises(mpc.InvalidArgument, match="token 61 at position 0 is outside the vocabulary of 61"):
        first.feed([61])
    with pytest.raises(mpc.InvalidArgument, match="is the same as the one at index 0"):
        decoder.advance([first, first], [1, 2])


def test_text_goes_through_a_tokenizer():
    decoder = mpc.Decoder(MODEL, policy="float32", capacity=64, chunk=8, tokenizer=Letters())
    letters = "".join(chr(ord("0") + token) for token in GREEDY)
    pieces = list(decoder.generate("12345", tokens=12))
    assert "".join(pieces) == letters and len(pieces) == 12
    assert decoder.generate_all(["12345", [1, 2, 3, 4, 5]], tokens=12, end=40) == [letters[:10], GREEDY[:11]]


def test_unfinished_characters_wait():
    class Halves(Letters):
        def decode(self, ids):
            return "é" * (len(ids) // 2) + "\ufffd" * (len(ids) % 2)

    decoder = mpc.Decoder(MODEL, policy="float32", capacity=64, chunk=8, tokenizer=Halves())
    assert list(decoder.generate("12345", tokens=4)) == ["é", "é"]
    assert list(decoder.generate("12345", tokens=3)) == ["é", "\ufffd"]


def test_reads_tokenizer_files(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    words = {f"w{i}": i for i in range(61)}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="w0"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.save(str(tmp_path / "tokenizer.json"))
    decoder = mpc.Decoder(MODEL, policy="float32", capacity=64, chunk=8, tokenizer=tmp_path / "tokenizer.json")
    assert "".join(decoder.generate("w1 w2 w3 w4 w5", tokens=3)) == " w54 w35 w39"
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(mpc.InvalidArgument, match="bad.json: is not a tokenizer"):
        mpc.Decoder(MODEL, tokenizer=tmp_path / "bad.json")
    with pytest.raises(mpc.NotFound, match="none.json"):
        mpc.Decoder(MODEL, tokenizer=tmp_path / "none.json")


def test_says_what_is_wrong(decoder, cnn):
    with pytest.raises(mpc.InvalidArgument, match="no tokenizer"):
        list(decoder.generate("text"))
    with pytest.raises(mpc.InvalidArgument, match="top-p"):
        list(decoder.generate([1], top_p=2.0))
    with pytest.raises(mpc.InvalidArgument, match="a prompt of 1 tokens and 65 more need 65 rows of the KV cache, which has 64"):
        list(decoder.generate([1], tokens=65))
    with pytest.raises(mpc.InvalidArgument, match="input_ids"):
        mpc.Decoder(cnn[0])
    with pytest.raises(mpc.InvalidArgument, match="needs at least one token"):
        list(decoder.generate([]))
