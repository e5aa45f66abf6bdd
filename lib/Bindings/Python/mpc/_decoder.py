# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Decoders: autoregressive text generation."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Union

from . import _mpc
from ._errors import InvalidArgument, NotFound, Unavailable
from ._function import _engine, choose
from ._policy import Policy, PolicyLike
from ._source import source

Prompt = Union[str, Sequence[int]]
# A tokenizer's output for an incomplete character.
_UNFINISHED = "\ufffd"


class Decoder:
    """A decoder with a KV cache: holds the weights once and serves any number of sequences.

    `model`: a path or bytes of an .onnx file with the inputs of Optimum's exports (docs/HowTo/Generate.md).
    `tokenizer`: the path of a `tokenizer.json`, read by the package `tokenizers`, or an object with
    `encode(text).ids` and `decode(ids)`; without one, prompts and results are tokens.

    `capacity`: KV-cache rows per sequence, its maximum length unless it is `endless`, for sliding-window
    models whose window is not larger. `chunk`: prompt tokens per prefill run. `slots`: maximum batch of
    sequences per step. `policy`, `overrides`, `device`, `threads` and `cache` are those of `mpc.compile`.

    Compiles in the constructor. Members release the GIL while they run; a decoder is thread-safe, a
    sequence is not. Raises `mpc.InvalidArgument` if the model has another signature, and what
    `mpc.compile` raises.
    """

    def __init__(self, model: Any, *, tokenizer: Any = None, policy: PolicyLike | None = None,
                 overrides: Mapping[str, str] | Iterable[tuple[str, str]] = (), device: str | None = None,
                 capacity: int = 512, chunk: int = 64, slots: int = 1, endless: bool = False,
                 threads: int = 0, cache: bool = True):
        _, options, self._policy = choose(policy, device, overrides, None, None, "strict", threads, cache)
        _, engine = _engine(device, threads)
        self._tokenizer = _read_tokenizer(tokenizer)
        read = source(model, ())
        self._name = read.name
        self._made = _mpc.decoder(engine, read, options, capacity, min(chunk, capacity), slots, endless)

    @property
    def policy(self) -> Policy:
        """The policy of the compile; for "auto" the selected one."""
        return self._policy

    @property
    def capacity(self) -> int:
        """KV-cache rows per sequence."""
        return self._made.capacity

    @property
    def slots(self) -> int:
        """Maximum number of sequences per call of `advance`."""
        return self._made.slots

    @property
    def vocabulary(self) -> int:
        """Vocabulary size."""
        return self._made.vocabulary

    def start(self) -> _mpc.Sequence:
        """Returns an empty sequence. Its `feed(tokens)` appends tokens and returns the logits after the last
        one, float32 [vocabulary]; `fork()` returns a copy; `length` is the number of tokens."""
        return self._made.start()

    def advance(self, sequences: Sequence[_mpc.Sequence], tokens: Sequence[int]) -> list[Any]:
        """Appends `tokens[i]` to `sequences[i]` in one run, which reads the weights once; returns the logits
        after each. Results are bit-identical to separate runs."""
        return self._made.advance(list(sequences), list(tokens))

    def generate(self, prompt: Prompt, *, tokens: int = 64, temperature: float = 0.0, top_k: int = 0,
                 top_p: float = 1.0, seed: int = 0, end: int | None = None) -> Iterator[Any]:
        """Generates text after `prompt`: yields each token as it is sampled, or, for a text prompt, each
        complete piece of text.

        Stops after `tokens` tokens, or at the token `end`, which is yielded as a token but not as text.
        `temperature` 0 is greedy decoding; otherwise samples with logits divided by it, from the `top_k`
        most likely tokens (0: all), of these the fewest with a total probability of `top_p`. Equal seeds
        give equal tokens, also as `mpc generate --seed`.
        """
        ids, sampler = self._encode(prompt), _mpc.sampler(temperature, top_k, top_p, seed)
        written = self._write(ids, sampler, tokens, end)
        return self._pieces(written, end) if isinstance(prompt, str) else written

    def generate_all(self, prompts: Sequence[Prompt], *, tokens: int = 64, temperature: float = 0.0,
                     top_k: int = 0, top_p: float = 1.0, seed: int = 0, end: int | None = None) -> list[Any]:
        """Returns what `generate` yields after each prompt, as a list of tokens or a text. Continuous
        batching: steps as many sequences as there are slots, and starts further ones as others end."""
        made = _mpc.sampler(temperature, top_k, top_p, seed)
        waiting = [(place, self._encode(prompt)) for place, prompt in enumerate(prompts)][::-1]
        found: list[list[int]] = [[] for _ in prompts]
        running: list[tuple[int, _mpc.Sequence, _mpc.Sampler]] = []
        while waiting or running:
            if waiting and len(running) < self.slots:
                place, ids = waiting.pop()
                sequence, sampler = self.start(), made.copy()
                found[place].append(sampler.draw(sequence.feed(ids)))
                running.append((place, sequence, sampler))
            else:
                rows = self.advance([sequence for _, sequence, _ in running], [found[place][-1] for place, _, _ in running])
                for (place, _, sampler), logits in zip(running, rows):
                    found[place].append(sampler.draw(logits))
            running = [each for each in running if found[each[0]][-1] != end and len(found[each[0]]) < tokens]
        return ["".join(self._pieces(iter(written), end)) if isinstance(prompt, str) else written
                for prompt, written in zip(prompts, found)]

    def _encode(self, prompt: Prompt) -> list[int]:
        if not isinstance(prompt, str):
            return [int(token) for token in prompt]
        if self._tokenizer is None:
            raise InvalidArgument(self._name, "was given text, but has no tokenizer; "
                                  "give mpc.Decoder its tokenizer.json")
        return list(self._tokenizer.encode(prompt).ids)

    def _write(self, ids: list[int], sampler: _mpc.Sampler, tokens: int, end: int | None) -> Iterator[int]:
        sequence, given = self.start(), ids
        for _ in range(tokens):
            given = [sampler.draw(sequence.feed(given))]
            yield given[0]
            if given[0] == end:
                return

    def _pieces(self, tokens: Iterator[int], end: int | None) -> Iterator[str]:
        """Text grows with its tokens, but the last token may be part of a character."""
        ids: list[int] = []
        shown = ""
        for token in tokens:
            if token == end:
                break
            ids.append(token)
            text = self._tokenizer.decode(ids)
            if text.startswith(shown) and len(text) > len(shown) and not text.endswith(_UNFINISHED):
                yield text[len(shown):]
                shown = text
        text = self._tokenizer.decode(ids) if ids else ""
        if len(text) > len(shown):
            yield text[len(shown):]

    def __repr__(self) -> str:
        return f"<mpc.Decoder({self._name}: {self.vocabulary} tokens, {self.capacity} rows) in {self._policy}>"


def _read_tokenizer(given: Any) -> Any:
    if not isinstance(given, (str, os.PathLike)):
        return given
    path = os.fspath(given)
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise Unavailable(path, "needs the package tokenizers, which is not installed: "
                          "pip install tokenizers") from None
    if not os.path.isfile(path):
        raise NotFound(path, "is no file")
    try:
        return Tokenizer.from_file(path)
    except Exception as error:  # noqa: BLE001 - the package raises Exception itself
        raise InvalidArgument(path, f"is not a tokenizer: {error}") from None
