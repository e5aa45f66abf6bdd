# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the scripts and notebooks of docs/examples, each in a folder of its own; what needs a package
that is absent is skipped."""

import ast
import json
import os
import pathlib
import subprocess
import sys

import mpc
import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "docs" / "examples"
# Packages that an example needs, and a part of what it prints.
SCRIPTS = {
    "vit_bf16.py": (["torch"], "mixed_bfloat16"),
    "tune_bert.py": (["torch", "transformers", "onnxscript"], "rms error"),
    "resume_float16.py": (["torch"], "bit for bit"),
    "keras_policies.py": (["torch"], "mixed_float16 computes in float16 with variables in float32"),
    "jax_step.py": (["jax"], "parameters stay float32"),
    "decode_text.py": (["torch", "onnxscript"], "one two buckle my shoe"),
    "onnxruntime_session.py": (["onnx", "onnxruntime", "onnxruntime_ep_mpc"], "compiled ahead of time"),
    "two_ranks.py": (["torch"], "2 ranks, 48 updates"),
}
NOTEBOOKS = {"precision.ipynb": ["torch"], "loss_scale.ipynb": ["torch"]}
SERVERS = {"serve.py"}  # test/Python/test_batch.py calls it.
LAUNCHERS = {"two_ranks.py": ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]}
PROGRAMS = pathlib.Path(mpc.__file__).parent / "bin"


def need(packages):
    for package in packages:
        pytest.importorskip(package)


def test_every_example_is_listed():
    found = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".ipynb")}
    assert found == {*SCRIPTS, *NOTEBOOKS, *SERVERS}
    page = (EXAMPLES.parent / "WhichWayIn.md").read_text(encoding="utf-8")
    assert not [name for name in (*found, "run_mpcx.cpp") if f"(examples/{name})" not in page]


@pytest.mark.parametrize("name", SCRIPTS)
def test_script(name, tmp_path):
    packages, wanted = SCRIPTS[name]
    need(packages)
    path = os.pathsep.join([str(PROGRAMS), os.environ["PATH"]])
    done = subprocess.run([sys.executable, *LAUNCHERS.get(name, []), EXAMPLES / name], cwd=tmp_path, text=True,
                          capture_output=True, check=False, env={**os.environ, "PATH": path})
    assert done.returncode == 0, done.stdout + done.stderr
    assert wanted in done.stdout, done.stdout


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook(name, tmp_path, monkeypatch):
    need(NOTEBOOKS[name])
    monkeypatch.chdir(tmp_path)
    space = {}
    for cell in json.loads((EXAMPLES / name).read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            run_cell("".join(cell["source"]), space)


def run_cell(source, space):
    """Executes a cell and renders the value of its last expression, as a notebook does."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), space)
    if last is not None:
        value = eval(compile(ast.Expression(last.value), "cell", "eval"), space)
        html = getattr(value, "_repr_html_", None)
        assert repr(value) and (html is None or html().startswith("<"))
