# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Failures as exceptions, and warnings about models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._text import printable


class Error(Exception):
    """A failure of mpc.

    `where` is the place (a file and node, an input; may be empty), `text` one sentence about what
    is wrong and what to do, `notes` further sentences, which tracebacks show too.
    """

    def __init__(self, where: str, text: str, notes: Sequence[str] = ()):
        super().__init__(f"{where}: {text}" if where else text)
        self.where, self.text, self.notes = where, text, tuple(notes)
        if hasattr(self, "add_note"):
            for note in self.notes:
                self.add_note(note)


    def __reduce__(self) -> tuple[Any, ...]:
        # A worker's error comes back to the process that started it.
        return type(self), (self.where, self.text, self.notes)


class InvalidArgument(Error, ValueError):
    """The model, the data, the policy or an argument is wrong."""


class NotFound(Error, FileNotFoundError):
    """A file or a named thing does not exist or cannot be read or written."""

    def __str__(self) -> str:
        return Exception.__str__(self)


class Unavailable(Error, RuntimeError):
    """This machine or this build lacks what was asked for."""


class ResourceExhausted(Error, MemoryError):
    """Memory was refused."""


class Internal(Error, RuntimeError):
    """A bug of mpc."""


class ModelWarning(UserWarning):
    """What a compile warns of."""


_BY_CODE = {"invalid_argument": InvalidArgument, "not_found": NotFound, "unavailable": Unavailable,
            "resource_exhausted": ResourceExhausted, "internal": Internal}


def make(code: str, where: str, text: str, notes: Sequence[str]) -> Error:
    """The exception for a status code of the C++ API, whose texts may hold names from files."""
    return _BY_CODE[code](printable(where), printable(text), [printable(note) for note in notes])
