# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Each op of core ATen as the backend lowers it, checked against PyTorch in float64."""

import pathlib

import mpc
import pytest

torch = pytest.importorskip("torch")

import aten_samples  # noqa: E402
import mpc.torch  # noqa: E402
from mpc._graph import Graph  # noqa: E402

OPS = aten_samples.core_ops()
PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "Reference" / "Python.md"

# One op of a few hundred terms at most: that many roundings of float32.
BOUND = 300 * torch.finfo(torch.float32).eps


def close(found, wanted):
    if found.shape != wanted.shape or (found.dtype != wanted.dtype and not found.is_floating_point()):
        return False
    if not found.is_floating_point():
        return torch.equal(found, wanted)
    return torch.allclose(found.double(), wanted.double(), rtol=BOUND, atol=BOUND, equal_nan=True)


def test_every_core_op_has_samples():
    assert set(OPS) == set(aten_samples.SAMPLES)


@pytest.mark.parametrize("name", sorted(name for name, samples in aten_samples.SAMPLES.items() if samples))
def test_op(name):
    if name not in OPS:
        pytest.skip("this PyTorch has no such op")
    if why := aten_samples.lowers(name, OPS[name]):
        pytest.skip(f"runs in eager mode: {why}")
    for arguments, named in aten_samples.SAMPLES[name]:
        module, tensors = aten_samples.trace(OPS[name], arguments, named)
        text = []

        def compiler(made, _):
            text.append(made.text)
            return mpc.compile(made.text, policy="float32")._made

        found = Graph(module, compiler, pytest.fail)(tensors)
        wanted = OPS[name](*aten_samples.double(arguments), **aten_samples.double(named))
        wanted = [part for part in wanted if part is not None] if isinstance(wanted, (tuple, list)) else [wanted]
        assert text and len(found) >= len(wanted)
        if name.startswith("empty"):
            assert all(f.shape == w.shape for f, w in zip(found, wanted))
            continue
        assert all(close(f, w) for f, w in zip(found, wanted)), (arguments, named)


def table():
    """The page's table of supported ops."""
    eager = {name: why for name in sorted(OPS) if (why := aten_samples.lowers(name, OPS[name]))}
    lines = [f"Of the {len(OPS)} ops with PyTorch's core tag {len(OPS) - len(eager)} lower; {len(eager)} do not:", "",
             "| op | why |", "|---|---|"] + [f"| `{name}` | {why} |" for name, why in eager.items()]
    return "\n".join(lines), len(OPS) - len(eager)


def test_page_has_the_table():
    text, count = table()
    assert count >= 150
    begin, end = "<!-- core ATen: begin -->\n", "\n<!-- core ATen: end -->"
    assert PAGE.read_text().partition(begin)[2].partition(end)[0] == text
