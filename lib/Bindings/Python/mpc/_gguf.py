# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tokenizers, end tokens and chat templates in the metadata of GGUF files
(https://github.com/ggml-org/ggml/blob/master/docs/gguf.md)."""

from __future__ import annotations

import mmap
import struct
from typing import Any

from ._errors import InvalidArgument, NotFound, Unavailable
from ._text import printable

# Regular expressions that split text into words before byte pairs are merged, by `tokenizer.ggml.pre`: those of
# Llama 3 and Qwen 2 differ in the digits of a number. None: that of GPT-2.
_WORDS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
_SPLITS: dict[str, str | None] = {
    "default": None, "gpt-2": None, "gpt2": None, "llama-bpe": _WORDS % "{1,3}", "llama3": _WORDS % "{1,3}",
    "qwen2": _WORDS % "", "deepseek-r1-qwen": _WORDS % "",
}
# Values of `tokenizer.ggml.token_type`.
_CONTROL, _USER_DEFINED = 3, 4
# Bounds of vocabularies for SentencePiece, whose merges mpc computes: the length of a token, in characters, and the
# number of merges.
_LONGEST_TOKEN, _MOST_MERGES = 256, 2_000_000


# struct's format of each type of value, by its number.
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_MOST_NESTED = 4


class Metadata:
    """Keys and values of a GGUF file, without its tensors. Raises `mpc.InvalidArgument` if the file is malformed."""

    def __init__(self, path: str):
        self._path, self._at = path, 0
        self._values: dict[str, Any] = {}
        try:
            with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                self._read(data)
        except OSError as error:
            raise NotFound(path, f"cannot be read: {error.strerror}") from None
        except (ValueError, struct.error) as error:
            if isinstance(error, InvalidArgument):
                raise
            raise InvalidArgument(path, f"is not a GGUF file, or ends early: {printable(str(error))}") from None

    def _read(self, data: mmap.mmap) -> None:
        magic, version, _, count = self._take(data, "4sIQQ")
        if magic != b"GGUF" or version not in (2, 3):
            raise ValueError(f"it starts with {magic!r} and version {version}, expected b'GGUF' and version 2 or 3")
        for _ in range(count):
            key = self._string(data)
            self._values[key] = self._value(data, self._take(data, "I")[0])

    def _take(self, data: mmap.mmap, form: str) -> tuple[Any, ...]:
        values = struct.unpack_from("<" + form, data, self._at)
        self._at += struct.calcsize("<" + form)
        return values

    def _string(self, data: mmap.mmap) -> str:
        length = self._take(data, "Q")[0]
        if length > len(data) - self._at:
            raise ValueError(f"a text of {length} bytes at byte {self._at} of {len(data)}")
        self._at += length
        return data[self._at - length:self._at].decode(errors="surrogateescape")

    def _value(self, data: mmap.mmap, kind: int, depth: int = 0) -> Any:
        if kind in _NUMBERS:
            return self._take(data, _NUMBERS[kind])[0]
        if kind == _STRING:
            return self._string(data)
        if kind != _ARRAY or depth > _MOST_NESTED:
            raise ValueError(f"a value of the type {kind} at byte {self._at}")
        of, count = self._take(data, "IQ")
        # Every element has at least a byte, so that a count beyond the file is refused before it takes memory.
        if count > len(data) - self._at:
            raise ValueError(f"an array of {count} values at byte {self._at} of {len(data)}")
        if of in _NUMBERS:
            return list(self._take(data, f"{count}{_NUMBERS[of]}"))
        return [self._value(data, of, depth + 1) for _ in range(count)]

    def get(self, key: str, kind: type, default: Any = None) -> Any:
        """The value of a key, which must be of type `kind`."""
        value = self._values.get(key, default)
        if value is not default and type(value) is not kind:
            raise InvalidArgument(self._path, f"has a {type(value).__name__} as '{key}', expected a {kind.__name__}")
        return value

    def token(self, key: str) -> int | None:
        """The token of a key such as "bos"."""
        found: int | None = self.get(f"tokenizer.ggml.{key}_token_id", int)
        return found


def special_tokens(metadata: Metadata) -> dict[str, str]:
    """Texts of special tokens by the names that chat templates use."""
    tokens = metadata.get("tokenizer.ggml.tokens", list, [])
    found = {}
    for key, name in (("bos", "bos_token"), ("eos", "eos_token"), ("unknown", "unk_token"), ("padding", "pad_token")):
        token = metadata.token(key)
        if token is not None and 0 <= token < len(tokens):
            found[name] = str(tokens[token])
    return found


def ends(metadata: Metadata) -> tuple[int, ...]:
    """Tokens that end a text: of the text, of a turn of a conversation, of a message."""
    found = (metadata.token(key) for key in ("eos", "eot", "eom"))
    return tuple(dict.fromkeys(token for token in found if token is not None))


def capacity(metadata: Metadata) -> int | None:
    """Maximum length of a sequence, in tokens."""
    found: int | None = metadata.get(f"{metadata.get('general.architecture', str, '')}.context_length", int)
    return found


def tokenizer(metadata: Metadata, path: str) -> Any:
    """Returns a `tokenizers.Tokenizer`, or None if the file has no tokens. Raises `mpc.InvalidArgument` for a kind
    that mpc does not know."""
    tokens = metadata.get("tokenizer.ggml.tokens", list)
    if tokens is None:
        return None
    try:
        import tokenizers
    except ImportError:
        raise Unavailable(path, "needs the package tokenizers, which is not installed: "
                          "pip install tokenizers") from None
    kind = metadata.get("tokenizer.ggml.model", str, "")
    if kind not in ("gpt2", "llama"):
        raise InvalidArgument(path, f"has a tokenizer of the kind '{printable(kind)}', but mpc reads 'gpt2' and "
                              "'llama'; give mpc.Decoder a tokenizer.json")
    types = metadata.get("tokenizer.ggml.token_type", list, [1] * len(tokens))
    vocabulary = {token: i for i, token in enumerate(tokens)}
    if len(types) != len(tokens) or len(vocabulary) != len(tokens):
        raise InvalidArgument(path, f"has {len(tokens)} tokens of {len(vocabulary)} texts and {len(types)} types")
    try:
        made = (_byte_level if kind == "gpt2" else _sentence_piece)(tokenizers, metadata, path, tokens, vocabulary)
        for special in (False, True):
            added = [tokenizers.AddedToken(token, special=special, normalized=False) for token, of in zip(tokens, types)
                     if of == (_CONTROL if special else _USER_DEFINED)]
            (made.add_special_tokens if special else made.add_tokens)(added)
        first = metadata.token("bos")
        if first is not None and metadata.get("tokenizer.ggml.add_bos_token", bool, kind == "llama"):
            made.post_processor = tokenizers.processors.TemplateProcessing(
                single=f"{tokens[first]}:0 $A:0", pair=f"{tokens[first]}:0 $A:0 $B:1",
                special_tokens=[(tokens[first], first)])
    except (InvalidArgument, Unavailable):
        raise
    except Exception as error:  # noqa: BLE001 - the package raises Exception itself
        raise InvalidArgument(path, f"has a malformed tokenizer: {printable(str(error))}") from None
    return made


def _byte_level(tokenizers: Any, metadata: Metadata, path: str, tokens: list[str], vocabulary: dict[str, int]) -> Any:
    """Byte-pair encoding of UTF-8 bytes, as in GPT-2."""
    split = metadata.get("tokenizer.ggml.pre", str, "default")
    if split not in _SPLITS:
        raise InvalidArgument(path, f"splits text as '{printable(split)}', but mpc knows " + ", ".join(_SPLITS)
                              + "; give mpc.Decoder a tokenizer.json")
    merges = [tuple(merge.split(" ", 1)) for merge in metadata.get("tokenizer.ggml.merges", list, [])]
    # Llama 3 takes a word that is a token as it is.
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, merges,
                                                      ignore_merges=split in ("llama-bpe", "llama3")))
    pieces, pattern = tokenizers.pre_tokenizers, _SPLITS[split]
    if pattern is None:
        made.pre_tokenizer = pieces.ByteLevel(add_prefix_space=False, use_regex=True)
    else:
        made.pre_tokenizer = pieces.Sequence([pieces.Split(tokenizers.Regex(pattern), "isolated"),
                                              pieces.ByteLevel(add_prefix_space=False, use_regex=False)])
    if pattern == _SPLITS["qwen2"]:
        made.normalizer = tokenizers.normalizers.NFC()
    made.decoder = tokenizers.decoders.ByteLevel()
    return made


def _sentence_piece(tokenizers: Any, metadata: Metadata, path: str, tokens: list[str],
                    vocabulary: dict[str, int]) -> Any:
    """Byte-pair encoding of SentencePiece: merges the pair whose token has the largest score; characters without a
    token become bytes."""
    scores = metadata.get("tokenizer.ggml.scores", list, [])
    if len(scores) != len(tokens):
        raise InvalidArgument(path, f"has {len(tokens)} tokens and {len(scores)} scores")
    longest = max(map(len, tokens), default=0)
    if longest > _LONGEST_TOKEN:
        raise InvalidArgument(path, f"has a token of {longest} characters, but mpc reads tokens of at most "
                              f"{_LONGEST_TOKEN}; give mpc.Decoder a tokenizer.json")
    # Each merge as the token that it makes, and the length of the first part.
    merges: list[tuple[int, int]] = []
    for i, token in enumerate(tokens):
        merges += [(i, at) for at in range(1, len(token)) if token[:at] in vocabulary and token[at:] in vocabulary]
        if len(merges) > _MOST_MERGES:
            raise InvalidArgument(path, f"has more than {_MOST_MERGES} pairs of tokens that make a token, which no "
                                  "vocabulary has; give mpc.Decoder a tokenizer.json")
    merges.sort(key=lambda merge: -scores[merge[0]])
    unknown = metadata.token("unknown")
    made = tokenizers.Tokenizer(tokenizers.models.BPE(
        vocabulary, [(tokens[i][:at], tokens[i][at:]) for i, at in merges],
        unk_token=tokens[0 if unknown is None else unknown], fuse_unk=True, byte_fallback=True))
    has_space = metadata.get("tokenizer.ggml.add_space_prefix", bool, True)
    spaces = tokenizers.normalizers.Replace(" ", "▁")
    made.normalizer = tokenizers.normalizers.Sequence(
        [*([tokenizers.normalizers.Prepend("▁")] if has_space else []), spaces])
    decoders = tokenizers.decoders
    made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                      *([decoders.Strip(" ", 1, 0)] if has_space else [])])
    return made
