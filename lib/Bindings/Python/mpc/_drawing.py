# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Graph drawing of `mpc explain`: ops coloured by type, with a box around each kernel."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from typing import Any

from . import _text
from ._errors import Unavailable

# Colours of a type: fill of an op that computes in it, and line of a value.
_COLOURS = {"f64": ("#d9d2e9", "#674ea7"), "f32": ("#cfe2f3", "#1f5fa8"), "tf32": ("#d0e0e3", "#1f5fa8"),
            "f16": ("#fce5cd", "#c46200"), "bf16": ("#d9ead3", "#38761d"), "f8": ("#f4cccc", "#a61c00"),
            "i": ("#eeeeee", "#666666")}
# Maximum number of ops; layout of more is too slow for a notebook.
MOST_OPS = 400
_SECONDS = 30


def _colours(kind: str) -> tuple[str, str]:
    return next((pair for begin, pair in _COLOURS.items() if kind.startswith(begin)), _COLOURS["i"])


def _attributes(**values: str) -> str:
    return "[" + ", ".join(f"{key}={value}" for key, value in values.items()) + "]"


def type_of(op: Mapping[str, Any]) -> str:
    """Compute type of an op, with its accumulator type if that differs."""
    compute, accumulate = op["compute"] or "", op["accumulate"]
    return f"{compute}+{accumulate}" if accumulate and accumulate != compute else compute


def dot(document: Mapping[str, Any], layer: str | None = None) -> str:
    """The graph in Graphviz' language; with `layer`, a regular expression, only its ops and their inputs and
    outputs."""
    ops, kernels = document["ops"], {}
    chosen = {i for i, op in enumerate(ops) if layer is None or re.fullmatch(layer, op["layer"] or "")}
    for i in sorted(chosen):
        # Launches of the same code have the same name.
        kernels.setdefault(ops[i]["launch"], []).append(i)
    lines = ["digraph mpc {", '  graph [fontname="sans-serif", fontsize=10, style=rounded, color="#999999", labeljust=l, ranksep=0.3];',
             '  node [fontname="sans-serif", fontsize=10, shape=box, style="filled,rounded"];',
             '  edge [fontname="sans-serif", fontsize=9];']

    def node(i: int) -> str:
        op = ops[i]
        fill, line = _colours(op["compute"] or "")
        told = ": ".join(filter(None, [op["rule"], op["reason"]]))
        return f"o{i} " + _attributes(label=_text.dot(op["name"], f"{op['kind']} {type_of(op)}"), tooltip=_text.dot(told),
                                      fillcolor=f'"{fill}"', color=f'"{line}"') + ";"

    for number, (launch, members) in enumerate(kernels.items()):
        if launch is None:
            lines += [f"  {node(i)}" for i in members]
        else:
            lines += [f"  subgraph cluster{number} {{", f"    label={_text.dot(ops[members[0]]['kernel'])};",
                      *(f"    {node(i)}" for i in members), "  }"]
    ends: dict[Any, str] = {}
    drawn: dict[str, None] = {}
    for edge in document["edges"]:
        if not chosen & {edge["from"], edge["to"]}:
            continue
        named = []
        for side in ("from", "to"):
            end = edge[side]
            if end in chosen:
                named.append(f"o{end}")
                continue
            if (side, end) not in ends:
                ends[side, end] = f"e{len(ends)}"
                text = ops[end]["name"] if isinstance(end, int) else end
                lines.append(f"  {ends[side, end]} " + _attributes(label=_text.dot(text), shape="plaintext",
                                                                  style='""') + ";")
            named.append(ends[side, end])
        source = ops[edge["from"]] if isinstance(edge["from"], int) else None
        said = edge["type"] if source is None else "to " + edge["type"] if edge["type"] not in source["results"] else ""
        shown = "x".join(map(str, edge["shape"]))
        drawn[f"  {' -> '.join(named)} "
              + _attributes(color=f'"{_colours(edge["type"])[1]}"', tooltip=_text.dot(f"{shown} {edge['type']}"),
                            **({"label": _text.dot(said)} if said else {})) + ";"] = None
    return "\n".join([*lines, *drawn, "}", ""])


def svg(text: str) -> str:
    """Renders Graphviz text as SVG. Raises `mpc.Unavailable` if the program `dot` is missing."""
    program = shutil.which("dot")
    if program is None:
        raise Unavailable("the graph", "is drawn by Graphviz: install it (apt install graphviz), so that dot is found")
    try:
        done = subprocess.run([program, "-Tsvg"], input=text, capture_output=True, text=True, encoding="utf-8",
                              timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise Unavailable("the graph", f"is not laid out within {_SECONDS} s; draw a layer of it") from None
    if done.returncode:
        raise Unavailable("the graph", f"is not drawn: dot says {done.stderr.strip()}")
    return done.stdout[done.stdout.index("<svg"):]
