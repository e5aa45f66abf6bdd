# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Escaping of untrusted text, such as names from model files: one function per target language."""

from __future__ import annotations

import html as _html
import unicodedata


def printable(text: str) -> str:
    """Escapes `text` on one line for terminals and exceptions: control characters, line separators,
    invisible format characters and surrogates."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or unicodedata.category(c) == "Zs"
                   else f"\\x{ord(c):02x}" if c <= "\x7f" else c.encode("ascii", "backslashreplace").decode() for c in text)


def html(text: str) -> str:
    """Escapes `text` for an HTML element or a quoted attribute."""
    return _html.escape(printable(text))


def dot(*lines: str) -> str:
    """Quotes `lines` as a DOT string, whose labels interpret backslashes and entities."""
    marks = {"\\": "\\\\", '"': '\\"', "&": "&amp;", "<": "&lt;", ">": "&gt;"}
    return '"' + "\\n".join("".join(marks.get(c, c) for c in printable(line)) for line in lines) + '"'
