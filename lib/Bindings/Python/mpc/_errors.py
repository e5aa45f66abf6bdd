# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Exceptions, and warnings about models."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from . import _installation  # Every module of the package imports this one.
from ._text import printable


class Error(Exception):
    """A failure of mpc.

    `where` is the location (a file and node, an input; may be empty), `text` one sentence with the
    problem and a remedy, `notes` additional sentences, which tracebacks also show.
    """

    def __init__(self, where: str, text: str, notes: Sequence[str] = ()):
        super().__init__(f"{where}: {text}" if where else text)
        self.where, self.text, self.notes = where, text, tuple(notes)
        if hasattr(self, "add_note"):
            for note in self.notes:
                self.add_note(note)


    def __reduce__(self) -> tuple[Any, ...]:
        # Pickling: a worker's error is raised in the parent process.
        return type(self), (self.where, self.text, self.notes)


class InvalidArgument(Error, ValueError):
    """The model, the data, the policy or an argument is invalid."""


class NotFound(Error, FileNotFoundError):
    """A file or name does not exist, or a file cannot be read or written."""

    def __str__(self) -> str:
        return Exception.__str__(self)


class Unavailable(Error, RuntimeError):
    """This machine or build lacks a requirement."""


class ResourceExhausted(Error, MemoryError):
    """Out of memory."""


class Internal(Error, RuntimeError):
    """A bug in mpc."""


class ModelWarning(UserWarning):
    """A warning of a compile."""


_BY_CODE = {"invalid_argument": InvalidArgument, "not_found": NotFound, "unavailable": Unavailable,
            "resource_exhausted": ResourceExhausted, "internal": Internal}


# Flags of the program mpc in the compiler's messages, and what they are in Python.
_KEYWORDS = [
    (r"--dim or --batch", "dims= or batch="),
    (r"--set ([^\s=']+)=([\w.]+)", r'overrides={"\1": "\2"}'),
]


def message(text: str) -> str:
    """A message of the compiler, which may contain names from files, with keyword arguments of this package
    in place of flags of the program mpc."""
    for flag, keyword in _KEYWORDS:
        text = re.sub(flag, keyword, text)
    return printable(text)


def make(code: str, where: str, text: str, notes: Sequence[str]) -> Error:
    """Creates the exception for a status code of the C++ API."""
    return _BY_CODE[code](printable(where), message(text), [message(note) for note in notes])
