# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prompts as tokens: token ids, text through a tokenizer, and messages through a chat template."""

from __future__ import annotations

import operator
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Union

from ._errors import InvalidArgument, NotFound, Unavailable
from ._text import printable
from ._text_stream import TextStream

Message = Mapping[str, Any]
Prompt = Union[str, Sequence[int], Sequence[Message]]


def is_chat(prompt: Prompt) -> bool:
    """Returns true for messages."""
    return isinstance(prompt, Sequence) and len(prompt) > 0 and isinstance(prompt[0], Mapping)


def is_text(prompt: Prompt) -> bool:
    """Returns true for prompts that are continued by text: text and messages."""
    return isinstance(prompt, str) or is_chat(prompt)


class PromptEncoder:
    """Tokenizer and chat template of a model; either may be None. Thread-safe if the tokenizer is."""

    def __init__(self, name: str, tokenizer: Any, template: Callable[..., str] | None, missing: str):
        # `missing` completes the error of a text without a tokenizer.
        self._name, self._missing = name, missing
        self.tokenizer, self.template = tokenizer, template

    def encode(self, prompt: Prompt, variables: Mapping[str, Any] | None = None) -> list[int]:
        """Returns the tokens of a prompt."""
        if is_chat(prompt):
            text = self.render(prompt, **self._named(variables))
            # The template writes the special tokens.
            return list(self.checked_tokenizer().encode(self._checked(text), add_special_tokens=False).ids)
        if variables:
            raise InvalidArgument("variables", "are those of a chat template, but the prompt is no list of messages")
        if isinstance(prompt, str):
            return list(self.checked_tokenizer().encode(self._checked(prompt)).ids)
        try:
            return [operator.index(token) for token in prompt]  # type: ignore[arg-type]
        except TypeError as error:
            raise InvalidArgument("prompt", f"must be a text, token ids or messages: {error}") from None

    @staticmethod
    def _named(variables: Mapping[str, Any] | None) -> dict[str, Any]:
        """Checks variables of the chat template."""
        if variables is None:
            return {}
        if not isinstance(variables, Mapping) or not all(isinstance(name, str) for name in variables):
            raise InvalidArgument("variables", "must be a mapping from the names of variables to their values")
        if "messages" in variables:
            raise InvalidArgument("variables", "have the name 'messages', which is that of the prompt in a template")
        return dict(variables)

    def _checked(self, text: str) -> str:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidArgument(self._name, "was given text that is not Unicode at character "
                                  f"{error.start}: '{printable(text[error.start])}'") from None
        return text

    def render(self, messages: Any, /, **variables: Any) -> str:
        """Returns the text of messages by the chat template."""
        if self.template is None:
            raise InvalidArgument(self._name, "was given messages, but has no chat template; give a text, or give "
                                  "mpc.Decoder a chat_template")
        return self.template(messages, **variables)

    def stream(self, prompt: Prompt, ids: Sequence[int], stops: Sequence[str]) -> TextStream | None:
        """Returns the converter of generated tokens to text, or None for tokens after tokens."""
        if not is_text(prompt) and not stops:
            return None
        # An answer is a text of its own, other text continues the prompt.
        return TextStream(self.checked_tokenizer().decode, ids if isinstance(prompt, str) else (), stops)

    def checked_tokenizer(self) -> Any:
        """Returns the tokenizer. Raises `mpc.InvalidArgument` if there is none."""
        if self.tokenizer is None:
            raise InvalidArgument(self._name, f"was given text or stop strings, but has no tokenizer; {self._missing}")
        return self.tokenizer


def read_tokenizer(given: Any) -> Any:
    """Reads a `tokenizer.json` if `given` is a path."""
    if not isinstance(given, (str, os.PathLike)):
        return given
    path = os.fspath(given)
    if not os.path.isfile(path):
        raise NotFound(path, "is no file")
    try:
        data = pathlib.Path(path).read_bytes()
    except OSError as error:
        raise NotFound(path, f"cannot be read: {error.strerror}") from None
    return parse_tokenizer(path, data)


def parse_tokenizer(path: str, data: bytes) -> Any:
    """Returns the tokenizer of the bytes of the `tokenizer.json` at `path`."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise Unavailable(path, "needs the package tokenizers, which is not installed: "
                          "pip install tokenizers") from None
    try:
        return Tokenizer.from_buffer(data)
    except Exception as error:  # noqa: BLE001 - the package raises Exception itself
        raise InvalidArgument(path, f"is not a tokenizer: {printable(str(error))}") from None
