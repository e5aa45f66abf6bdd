# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reports about compiled models: dictionaries that print as tables, in notebooks as HTML."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from . import _drawing, _text
from ._errors import Unavailable


def _text_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [[_text.printable(cell) for cell in line] for line in [columns, *rows]]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)


def _html_table(caption: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def line(tag: str, cells: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{_text.html(cell)}</{tag}>" for cell in cells) + "</tr>"

    return (f"<table><caption>{_text.html(caption)}</caption><thead>{line('th', columns)}</thead>"
            f"<tbody>{''.join(line('td', row) for row in rows)}</tbody></table>")


class Report(Mapping[str, Any]):
    """A JSON document of mpc, with fields `report["field"]`."""

    def __init__(self, document: Mapping[str, Any]):
        self._document = dict(document)

    def __getitem__(self, field: str) -> Any:
        return self._document[field]

    def __iter__(self) -> Iterator[str]:
        return iter(self._document)

    def __len__(self) -> int:
        return len(self._document)

    def to_json(self, indent: int | None = None) -> str:
        return json.dumps(self._document, indent=indent)

    def _title(self) -> str:
        raise NotImplementedError

    def _tables(self) -> list[tuple[str, list[str], list[list[str]]]]:
        raise NotImplementedError

    def __str__(self) -> str:
        parts = [_text.printable(self._title())]
        for caption, columns, rows in self._tables():
            if rows:
                parts.append(f"{caption}\n{_text_table(columns, rows)}")
        return "\n\n".join(parts)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        tables = "".join(_html_table(*table) for table in self._tables() if table[2])
        return f"<div><p>{_text.html(self._title())}</p>{tables}</div>"


class Explanation(Report):
    """The compute type of each op, and the reason: the document of `mpc explain --json`."""

    def __init__(self, document: Mapping[str, Any], write_page: Callable[[str], None] | None = None):
        super().__init__(document)
        self._write_page = write_page

    def __copy__(self) -> Explanation:
        return self

    def __deepcopy__(self, _: Any) -> Explanation:
        return self

    def __reduce__(self) -> Any:
        # Pickled without the model.
        return Explanation, (self._document,)

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Writes the report as one HTML page: the graph by type, error or time, with all decisions. Explains
        the model again. Raises `mpc.Unavailable` if Graphviz' program `dot` is not on the PATH, or if the
        explanation was pickled, which drops the model."""
        if self._write_page is None:
            raise Unavailable(str(self["model"]), "is not part of a pickled explanation; save the page where it "
                              "was explained")
        self._write_page(os.fspath(path))

    @property
    def ops(self) -> list[dict[str, Any]]:
        """For each op: `name`, `kind`, `layer`, `compute`, `results`, `rule`, `reason`, `kernel`, ..."""
        return list(self["ops"])

    @property
    def kernels(self) -> list[dict[str, Any]]:
        """The launches, in order: `name`, `kind`, `ops`, `bytes`, `flops`."""
        return list(self["kernels"])

    @property
    def warnings(self) -> list[dict[str, Any]]:
        return list(self["warnings"])

    @property
    def edges(self) -> list[dict[str, Any]]:
        """Data-flow edges: `from`, `to` (indices of `ops`, or names of inputs and results), `type` as read,
        `shape`. Weights have none."""
        return list(self["edges"])

    def dot(self, layer: str | None = None) -> str:
        """The graph in Graphviz' language: ops coloured by compute type, with a box around each kernel. With
        `layer`, a regular expression, only matching layers."""
        return _drawing.dot(self, layer)

    def svg(self, layer: str | None = None) -> str:
        """The graph rendered by Graphviz. Raises `mpc.Unavailable` if its program `dot` is not on the PATH.
        """
        return _drawing.svg(self.dot(layer))

    def _drawn(self) -> str:
        if len(self.ops) > _drawing.MOST_OPS:
            return _text.html(f"a graph of {len(self.ops)} ops is not drawn; .svg(layer=...) draws a layer")
        try:
            return f'<div style="overflow:auto;max-height:60em">{self.svg()}</div>'
        except Unavailable as reason:
            return _text.html(str(reason))

    def _repr_html_(self) -> str:
        return f"<div>{super()._repr_html_()}<div>{self._drawn()}</div></div>"

    def _title(self) -> str:
        return f"{self['model']}: policy {self['policy']}, target {self['target']}"

    def _tables(self) -> list[tuple[str, list[str], list[list[str]]]]:
        ops = [[op["name"], op["kind"], op["layer"] or "", _drawing.type_of(op), " ".join(op["storage"]), op["rule"] or "",
                op["reason"] or "", op["kernel"] or ""] for op in self.ops]
        kernels = [[k["name"], k["kind"], str(k["bytes"]), str(k["flops"]), " ".join(k["ops"])] for k in self.kernels]
        warnings = [[w["code"], w["op"] or "", w["text"]] for w in self.warnings]
        return [("ops", ["op", "kind", "layer", "compute", "stored", "rule", "reason", "kernel"], ops),
                ("kernels", ["kernel", "kind", "bytes", "flops", "ops"], kernels),
                ("warnings", ["code", "op", "text"], warnings)]


class CheckReport(Report):
    """Comparison of a compiled model with the float64 oracle: the document of `mpc check --json`.

    True if every output is within its tolerance.
    """

    @property
    def ok(self) -> bool:
        return bool(self["ok"])

    def __bool__(self) -> bool:
        return self.ok

    @property
    def outputs(self) -> list[dict[str, Any]]:
        """For each output: `name`, `shape`, `type`, `max_abs_error`, `rms_relative_error`, `tolerance`,
        `ok`."""
        return list(self["outputs"])

    @property
    def ops(self) -> list[dict[str, Any]]:
        """With `per_op`, the same for each op, worst first."""
        return list(self.get("ops", []))

    def _title(self) -> str:
        return f"{self['model']}: policy {self['policy']}: " + ("all checks held" if self.ok else "OVER TOLERANCE")

    def _tables(self) -> list[tuple[str, list[str], list[list[str]]]]:
        def number(value: Any) -> str:
            return "-" if value is None else f"{value:.2e}" if isinstance(value, (int, float)) else str(value)

        def row(entry: Mapping[str, Any]) -> list[str]:
            found = [number(entry.get(field)) for field in ("rms_relative_error", "tolerance", "max_abs_error")]
            return [entry["name"], *found, "ok" if entry["ok"] else "OVER TOLERANCE"]

        numbers = ["rms rel error", "tolerance", "max abs error", ""]
        return [("outputs", ["output", *numbers], [row(o) for o in self.outputs]),
                ("ops", ["op", *numbers], [row(o) for o in self.ops])]
