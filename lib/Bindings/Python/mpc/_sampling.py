# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Options of text generation: the number of tokens, sampling, and where a text ends."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypedDict, Union

from . import _mpc
from ._errors import InvalidArgument

# Largest and smallest normal float32 numbers.
_LARGEST_FLOAT, _LEAST_FLOAT = (2 - 2.0 ** -23) * 2.0 ** 127, 2.0 ** -126


class Options(TypedDict, total=False):
    """Keyword arguments of `generate`, `generate_all` and `submit`. What is not given is the decoder's default."""

    tokens: Union[int, None]  # Maximum number of generated tokens; None: as many as the KV cache has rows for.
    temperature: float  # Divisor of the logits; 0: greedy decoding.
    top_k: int  # Number of most likely tokens to sample from; 0: all.
    top_p: float  # Samples from the fewest tokens with this total probability.
    min_p: float  # Samples from tokens with this share of the largest probability.
    repetition_penalty: float  # Divides positive and multiplies negative logits of tokens in the text; 1: none.
    seed: int
    end: Union[int, Iterable[int], None]  # Tokens that end a text; None: the decoder's default.
    stop: Union[str, Iterable[str]]  # Strings that end a text and are not part of it.
    variables: Mapping[str, Any]  # Variables of the chat template, such as `tools`.


@dataclass(frozen=True)
class Sampling:
    """Options with their defaults."""
    tokens: int | None = 64
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int = 0
    end: tuple[int, ...] = ()
    stop: tuple[str, ...] = ()

    def with_options(self, options: Mapping[str, Any]) -> Sampling:
        """Returns the options with those in `options` replaced. Raises `mpc.InvalidArgument` if a number of tokens,
        a seed, an end token, a stop string or a repetition penalty is invalid, `TypeError` for an unknown name."""
        given, known = dict(options), [field.name for field in fields(self)]
        for name in given:
            if name not in known:
                raise TypeError(f"'{name}' is no option of text generation; options are {', '.join(known)}")
        if given.get("tokens") is not None:
            given["tokens"] = operator.index(given["tokens"])
            if given["tokens"] < 1:
                raise InvalidArgument("tokens", f"is {given['tokens']}, but must be 1 or more, or None for as many as "
                                      "fit into the KV cache")
        for name, bits in (("seed", 64), ("top_k", 63)):
            if name in given:
                given[name] = operator.index(given[name])
                if not 0 <= given[name] < 1 << bits:
                    raise InvalidArgument(name, f"is {given[name]}, but must be from 0 to {(1 << bits) - 1}")
        penalty = given.get("repetition_penalty", 1.0)
        # Logits are divided by it in float32; others check that it is above 0.
        if penalty > _LARGEST_FLOAT or 0 < penalty < _LEAST_FLOAT:
            raise InvalidArgument("repetition_penalty", f"is {penalty}, but must be a normal float32 number above 0")
        end = given.pop("end", None)
        if end is not None:
            given["end"] = tuple(operator.index(token) for token in (end if isinstance(end, Iterable) else (end,)))
        if "stop" in given:
            stop = given["stop"] or ()
            given["stop"] = (stop,) if isinstance(stop, str) else tuple(stop)
            for text in given["stop"]:
                if not isinstance(text, str) or not text:
                    raise InvalidArgument("stop", f"has {text!r}, but must be texts of at least one character")
        return replace(self, **given)

    def sampler(self, prompt: Sequence[int]) -> _mpc.Sampler:
        """Returns a sampler of the tokens after `prompt`."""
        made = _mpc.sampler(self.temperature, self.top_k, self.top_p, self.seed, self.min_p, self.repetition_penalty)
        if self.repetition_penalty != 1:
            made.observe(prompt)
        return made
