# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Chat templates: messages to text by a model's Jinja template, in the environment of transformers."""

from __future__ import annotations

import datetime
import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from ._errors import InvalidArgument, Unavailable
from ._text import printable

# Jinja versions before have known escapes from the sandbox.
_OLDEST_JINJA = (3, 1, 6)


class ChatTemplate:
    """A function of messages to text.

    `templates` are Jinja texts by name; "tool_use" is for calls with tools, "default" for others. `special` are the
    texts of special tokens by name ("bos_token"). `where` names the file in errors. Templates run in Jinja's sandbox,
    which keeps them from files and from Python's objects, but bounds neither time nor memory. Thread-safe.
    """

    def __init__(self, where: str, templates: Mapping[str, str], special: Mapping[str, str]):
        self._where, self._templates, self._special = where, dict(templates), dict(special)

    def __call__(self, messages: Sequence[Mapping[str, Any]], /, *, add_generation_prompt: bool = True,
                 **variables: Any) -> str:
        """Returns the text of the messages, by default with the start of the answer. Raises `mpc.InvalidArgument` if
        the template refuses them."""
        name = "tool_use" if variables.get("tools") and "tool_use" in self._templates else "default"
        if name not in self._templates:
            raise InvalidArgument(self._where, "has no default chat template, only " + ", ".join(
                printable(f"'{known}'") for known in self._templates))
        try:
            given = {"tools": None, "documents": None, **self._special, **_plain(variables),
                     "messages": _plain(messages), "add_generation_prompt": add_generation_prompt}
            return str(self._compiled(name).render(given))
        except (InvalidArgument, Unavailable):
            raise
        except Exception as error:  # noqa: BLE001 - a template may raise anything
            raise InvalidArgument(self._where, f"fails on these messages: {printable(str(error))}") from None

    @functools.cache  # noqa: B019 - a template lives as long as its decoder
    def _compiled(self, name: str) -> Any:
        return _environment().from_string(self._templates[name])


def _plain(value: Any) -> Any:
    """Copies plain data, the only kind that a template may see."""
    if value is None or type(value) in (str, int, float, bool):
        return value
    if isinstance(value, Mapping):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, str):
        return str.__str__(value)
    raise InvalidArgument("messages", f"have a {type(value).__name__}, but must be texts, numbers, lists and mappings")


@functools.cache
def _environment() -> Any:
    try:
        import jinja2
        import jinja2.ext
        import jinja2.sandbox
        version = tuple(int(part) for part in jinja2.__version__.split(".")[:3])
    except ImportError:
        version = ()
    if version < _OLDEST_JINJA:
        raise Unavailable("", "chat templates need the package jinja2, version 3.1.6 or newer: "
                          "pip install --upgrade jinja2")

    class Generation(jinja2.ext.Extension):
        """`{% generation %}` marks answers for training; they are rendered as they are."""
        tags = {"generation"}

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return jinja2.nodes.Scope(body, lineno=line)

    def refuse(message: str) -> None:
        raise jinja2.exceptions.TemplateError(message)

    def tojson(value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None,
               sort_keys: bool = False) -> str:
        # Jinja's own filter escapes HTML.
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    made = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = refuse
    made.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    return made
