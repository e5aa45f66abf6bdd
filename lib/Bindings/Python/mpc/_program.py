# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The package's program `mpc`, which generates reports (explain, check) as JSON."""

from __future__ import annotations

import contextlib
import json
import pathlib
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from . import _errors, _mpc
from ._source import to_numpy

_PATH = pathlib.Path(__file__).parent / "bin" / "mpc"
# Exit codes of success and of a failed check, which also is a report.
_DONE, _NOT_HELD = 0, 4


def run(command: str, source: _mpc.ModelSource, flags: Sequence[str]) -> dict[str, Any]:
    """Returns the document of `mpc COMMAND MODEL FLAGS --json`. Raises what the program reports."""
    with _model_file(source) as path:
        return _run(command, path, source.name, flags)


def write_page(command: str, source: _mpc.ModelSource, flags: Sequence[str], file: str) -> None:
    """Writes the page of `mpc COMMAND MODEL FLAGS --html FILE`. Raises what the program reports."""
    with _model_file(source) as path:
        if path == source.name:
            _run(command, path, source.name, [*flags, f"--html={file}"])
            return
        with tempfile.TemporaryDirectory(prefix=".mpc-", dir=pathlib.Path(file).absolute().parent) as folder:
            page = pathlib.Path(folder, "page.html")
            _run(command, path, source.name, [*flags, f"--html={page}"])
            # The page contains strings as JSON without '<'.
            texts = [json.dumps(text)[1:-1].replace("<", "\\u003c") for text in (path, source.name)]
            page.write_text(page.read_text(encoding="utf-8").replace(*texts), encoding="utf-8")
            page.replace(file)


def _run(command: str, path: str, name: str, flags: Sequence[str]) -> dict[str, Any]:
    if not _PATH.exists():
        raise _errors.Unavailable(str(_PATH), "is not there: this package was made without the program mpc")
    done = subprocess.run([str(_PATH), command, path, *flags, "--json", "--quiet"], capture_output=True, text=True,
                          check=False)
    # Replace the temporary path of an in-memory model by its name.
    said = done.stdout.replace(json.dumps(path)[1:-1], json.dumps(name)[1:-1])
    documents = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    if done.returncode in (_DONE, _NOT_HELD) and documents and "errors" not in documents[-1]:
        return dict(documents[-1])
    errors = documents[-1].get("errors", []) if documents else []
    if errors:
        first, notes = errors[0], [f"{e['where']}: {e['text']}" for e in errors[1:]]
        raise _errors.make(first["code"], first["where"], first["text"], notes)
    raise _errors.Internal(f"mpc {command}", f"ended with exit code {done.returncode}: {done.stderr.strip()}")


@contextlib.contextmanager
def _model_file(source: _mpc.ModelSource) -> Iterator[str]:
    """Path of the model, or of a copy that lives as long as the context."""
    if source.is_file:
        yield source.name
        return
    with tempfile.TemporaryDirectory(prefix="mpc-") as folder:
        path = pathlib.Path(folder, pathlib.PurePath(source.name).name)
        path.write_bytes(source.read())
        yield str(path)


@contextlib.contextmanager
def arrays_file(arrays: Mapping[str, Any]) -> Iterator[str]:
    """Path of an .npz file with `arrays` that lives as long as the context."""
    import numpy as np

    with tempfile.TemporaryDirectory(prefix="mpc-") as folder:
        path = pathlib.Path(folder, "inputs.npz")
        np.savez(path, **{name: to_numpy(array) for name, array in arrays.items()})
        yield str(path)
