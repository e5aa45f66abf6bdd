# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Decoders: autoregressive text generation."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Unpack

from . import _mpc, _pretrained
from ._batch import Batch, Request
from ._errors import InvalidArgument
from ._function import _engine, choose
from ._policy import Policy, PolicyLike
from ._prompts import Message, Prompt, PromptEncoder, read_tokenizer
from ._sampling import Options, Sampling
from ._source import source


class Decoder:
    """A decoder with a KV cache: holds the weights once and serves any number of sequences.

    `model`: the path of a Hugging Face folder or GGUF file, or the path or bytes of an .onnx file with the inputs of
    Optimum's exports (docs/HowTo/Generate.md). `from_pretrained` also reads its tokenizer and defaults.
    `tokenizer`: the path of a `tokenizer.json`, read by the package `tokenizers`, or an object with
    `encode(text).ids` and `decode(ids)` of consecutive tokens; without one, prompts and results are tokens.
    `chat_template`: a function of messages (mappings with "role" and "content") to text. `defaults`: options of
    `generate` to use where a call does not give them.

    `capacity`: KV-cache rows per sequence, its maximum length unless it is `endless`, for sliding-window
    models whose window is not larger. `chunk`: prompt tokens per prefill run. `slots`: maximum batch of
    sequences per step. `policy`, `overrides`, `device`, `threads` and `cache` are those of `mpc.compile`.

    Compiles in the constructor. Members release the GIL while they run; a decoder is thread-safe, a
    sequence is not. Raises `mpc.InvalidArgument` if the model has another signature, and what
    `mpc.compile` raises.
    """

    def __init__(self, model: Any, *, tokenizer: Any = None, chat_template: Callable[..., str] | None = None,
                 defaults: Mapping[str, Any] | None = None, policy: PolicyLike | None = None,
                 overrides: Mapping[str, str] | Iterable[tuple[str, str]] = (), device: str | None = None,
                 capacity: int = 512, chunk: int = 64, slots: int = 1, endless: bool = False,
                 threads: int = 0, cache: bool = True):
        _, options, self._policy = choose(policy, device, overrides, None, None, "strict", threads, cache)
        _, engine = _engine(device, threads)
        read = source(model, ())
        self._name = read.name
        self._encoder = PromptEncoder(self._name, read_tokenizer(tokenizer), chat_template,
                                      "give mpc.Decoder its tokenizer.json")
        self._defaults = Sampling().with_options(defaults or {})
        self._chunk, self._endless = min(chunk, capacity), endless
        self._made = _mpc.decoder(engine, read, options, capacity, self._chunk, slots, endless)

    @classmethod
    def from_pretrained(cls, path: str | os.PathLike[str], *, capacity: int | None = None, **options: Any) -> Decoder:
        """Opens the model of a folder that `save_pretrained` of transformers has written, or of an .onnx or .gguf file,
        with its tokenizer, chat template, end tokens and sampling defaults.

        Reads `tokenizer.json`, the chat template of `chat_template.jinja` or `tokenizer_config.json` (needs the package
        jinja2), and `generation_config.json`, whose sampling options apply if `do_sample` is true; for an .onnx file
        those beside it, for a .gguf file its metadata. A folder without weights in .safetensors files is the file
        `model.onnx` in it.

        `capacity` is by default the model's maximum length, at most 2048. `options` are those of the constructor,
        which replace what the folder has; `defaults` replace single ones. Raises `mpc.NotFound` if there is no model, `mpc.InvalidArgument` if a file
        is malformed.
        """
        found = _pretrained.read(path)
        found.defaults.update(options.pop("defaults", None) or {})
        return cls(found.model, capacity=capacity or found.capacity, **{**found.options(), **options})

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

    @property
    def tokenizer(self) -> Any:
        """The tokenizer; None without one."""
        return self._encoder.tokenizer

    def start(self) -> _mpc.Sequence:
        """Returns an empty sequence. Its `feed(tokens)` appends tokens and returns the logits after the last
        one, float32 [vocabulary]; `fork(length)` returns a copy of its first tokens, by default of all; `length` is
        the number of tokens."""
        return self._made.start()

    def advance(self, sequences: Sequence[_mpc.Sequence], tokens: Sequence[int]) -> list[Any]:
        """Appends `tokens[i]` to `sequences[i]` in one run, which reads the weights once; returns the logits
        after each. Results are bit-identical to separate runs."""
        return self._made.advance(list(sequences), list(tokens))

    def apply_chat_template(self, messages: Sequence[Message], *, add_generation_prompt: bool = True,
                            **variables: Any) -> str:
        """Returns the text of messages, to see what `generate(messages)` feeds. `variables` are those of the template,
        such as `tools` or `documents`. Raises `mpc.InvalidArgument` if there is no template or it fails."""
        return self._encoder.render(messages, add_generation_prompt=add_generation_prompt, **variables)

    def generate(self, prompt: Prompt, **options: Unpack[Options]) -> Iterator[Any]:
        """Generates text after `prompt`: yields each token as it is sampled after a prompt of tokens, or each
        complete piece of text after a text or a list of messages, which is answered by the chat template.

        Stops after `tokens` tokens (default 64, or as many as fit; None: as many as fit), after a token of `end` (one
        or several), which is yielded as a token but not as text, and before the first of the strings `stop`.
        `temperature` 0 is greedy decoding (default); otherwise samples with logits divided by it, from the `top_k`
        most likely tokens (0: all), of these the fewest with a total probability of `top_p`, of these the ones with at
        least `min_p` of the largest probability. `repetition_penalty` reduces the logits of tokens in the text. Equal
        seeds give equal tokens, also as `mpc generate --seed`. `variables` are those of the chat template.

        Raises `mpc.InvalidArgument` if an option is invalid or the sequence does not fit into the KV cache.
        """
        batch = self.batch(prefixes=0)
        return _pieces(batch, batch.submit(prompt, **options))

    def generate_all(self, prompts: Sequence[Prompt], **options: Unpack[Options]) -> list[Any]:
        """Returns what `generate` yields after each prompt, as a list of tokens or a text. Continuous
        batching: steps as many sequences as there are slots, and starts further ones as others end."""
        batch = self._batch(self.slots, prefixes=min(4, self.slots), fills_first=True)
        requests = [batch.submit(prompt, **options) for prompt in prompts]
        for _ in batch:
            pass
        return [request.result() for request in requests]

    def batch(self, slots: int | None = None, *, prefixes: int = 4) -> Batch:
        """Returns a batch for requests that come and go, at most `slots` at a time (default and maximum: those of the
        decoder). `prefixes`: number of finished sequences whose KV cache is kept for prompts with the same start."""
        most = self.slots
        if slots is not None and not 1 <= slots <= most:
            raise InvalidArgument(self._name, f"was given {slots} slots for a batch, but has from 1 to the {most} that "
                                  "the decoder was opened with; open it with more slots")
        if prefixes < 0:
            raise InvalidArgument("prefixes", f"is {prefixes}, but must be 0 or more")
        return self._batch(slots or most, prefixes)

    def _batch(self, slots: int, prefixes: int, fills_first: bool = False) -> Batch:
        return Batch(self._made, self._encoder, self._defaults, name=self._name, chunk=self._chunk, slots=slots,
                     prefixes=prefixes, endless=self._endless, fills_first=fills_first)

    def __repr__(self) -> str:
        return f"<mpc.Decoder({self._name}: {self.vocabulary} tokens, {self.capacity} rows) in {self._policy}>"


def _pieces(batch: Batch, request: Request) -> Iterator[Any]:
    """Steps until the batch's only request is finished."""
    for _, piece in batch:
        if piece is not None:
            yield piece
    if request.error is not None:
        raise request.error
