# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Untrusted text, such as names from model files, in other languages: one function for each."""

from __future__ import annotations

import html as _html
import unicodedata


def printable(text: str) -> str:
    """`text` on one line for terminals and exceptions: control characters, line separators, invisible
    format characters and surrogates become escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or unicodedata.category(c) == "Zs"
                   else f"\\x{ord(c):02x}" if c <= "\x7f" else c.encode("ascii", "backslashreplace").decode() for c in text)


def html(text: str) -> str:
    """`text` as text of an HTML element or of a quoted attribute."""
    return _html.escape(printable(text))


def dot(*lines: str) -> str:
    """A string of DOT, which reads backslashes and entities in labels, with `lines`."""
    marks = {"\\": "\\\\", '"': '\\"', "&": "&amp;", "<": "&lt;", ">": "&gt;"}
    return '"' + "\\n".join("".join(marks.get(c, c) for c in printable(line)) for line in lines) + '"'
