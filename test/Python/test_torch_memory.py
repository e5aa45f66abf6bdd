# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ops that depend on a tensor's storage, with tensors in every layout, in the backend and in eager mode."""

import warnings

import mpc
import pytest

torch = pytest.importorskip("torch")

import mpc.torch  # noqa: E402

# A 2 x 3 x 4 x 5 tensor in several layouts, computed inside the graph from a row-major value x.
LAYOUTS = {
    "row-major": lambda x: x, "transposed": lambda x: x.reshape(5, 4, 3, 2).permute(3, 2, 1, 0),
    "swapped": lambda x: x.reshape(2, 4, 3, 5).transpose(1, 2),
    "channels last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "part": lambda x: torch.cat([x, x + 1], 3)[..., 2:7], "step": lambda x: torch.cat([x, x + 1], 3)[..., ::2],
    "behind": lambda x: torch.cat([x, x + 1])[2:], "expanded": lambda x: x[:1].expand(2, 3, 4, 5),
    "expanded inside": lambda x: x[:, :, :1].expand(2, 3, 4, 5),
    "unsafe view": lambda x: torch.ops.aten._unsafe_view(x.permute(0, 2, 3, 1).contiguous(), [2, 3, 4, 5]),
    "unfolded": lambda x: x.reshape(-1)[:24].reshape(2, 3, 4).unfold(2, 1, 1).expand(2, 3, 4, 5),
}
OPS = {
    "as_strided": lambda v: v.as_strided((3, 4), (4, 1)),
    "as_strided of columns": lambda v: v.as_strided((4, 3), (1, 5)),
    "as_strided that overlaps": lambda v: v.as_strided((3, 4), (2, 1)),
    "as_strided from": lambda v: v.as_strided((2, 3), (3, 2), 7),
    "as_strided at own offset": lambda v: torch.as_strided(v, (2, 3), (3, 2), v.storage_offset()),
    "as_strided of a view": lambda v: v.flatten()[3:].as_strided((2, 2), (3, 1)),
    "as_strided of a slice": lambda v: v[1:, 1:].as_strided((2, 3), (5, 1)),
    "as_strided of a select": lambda v: v.select(1, 2).as_strided((5,), (2,)),
    "as_strided twice": lambda v: v.as_strided((3, 4), (4, 1)).t().as_strided((2, 5), (5, 1)),
    "as_strided of a transpose": lambda v: v.transpose(1, 3).as_strided((3, 4), (4, 1)),
    "as_strided of a clone": lambda v: v.clone().as_strided((3, 4), (4, 1)),
    "as_strided of a channels last clone": lambda v: v.clone(memory_format=torch.channels_last).as_strided((3, 4), (4, 1)),
    "as_strided of a sum": lambda v: (v + 1).as_strided((3, 4), (4, 1)),
    "as_strided of contiguous": lambda v: v.contiguous().as_strided((3, 4), (4, 1)),
    "as_strided_scatter": lambda v: torch.as_strided_scatter(v, v[0, 0, :2, :3], (2, 3), (9, 2), v.storage_offset() + 1),
    "as_strided_scatter, read": lambda v: torch.as_strided_scatter(v.clone(), v[0, 0, :2, :3], (2, 3), (9, 2), 1).as_strided((5, 5), (5, 1)),
    "written as_strided": lambda v: v.clone().as_strided((3, 4), (4, 1)).fill_(7.0) + 1,
    "view": lambda v: v.contiguous().view(6, 20),
    "reshape": lambda v: v.reshape(4, 30),
    "flatten": lambda v: v.flatten(1),
    "diagonal": lambda v: v.diagonal(1, 1, 3),
    "diagonal_scatter": lambda v: torch.diagonal_scatter(v, v[:, 0].mT[..., :3], 0, 1, 2),
    "unfold": lambda v: v.unfold(3, 2, 1),
    "unfold of an inner one": lambda v: v.unfold(1, 2, 1),
    "narrow": lambda v: v.narrow(1, 1, 2),
    "set_": lambda v: torch.empty(0).set_(v) + 1,
    "unsafe": lambda v: torch.ops.aten._unsafe_view(v.contiguous(), [3, 40]),
    "chunk": lambda v: v.chunk(2, 2)[1],
    "empty_like": lambda v: torch.empty_like(v).fill_(2.0),
    "new_empty_strided": lambda v: v.new_empty_strided((2, 3), (1, 2)).fill_(2.0),
    "to channels last": lambda v: v.to(memory_format=torch.channels_last),
    "contiguous": lambda v: v.contiguous(),
    "copy": lambda v: torch.empty(5, 4, 3, 2).permute(3, 2, 1, 0).copy_(v),
}


def run(forms, *arguments):
    """Results of functions in the backend and in eager mode, in one graph."""
    torch._dynamo.reset()
    compiled = torch.compile(lambda *given: [form(*given) for form in forms], backend="mpc", options={"policy": "float32"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mpc.ModelWarning)
        found = compiled(*arguments)
    return zip(found, [form(*arguments) for form in forms], strict=True)


def values():
    return torch.arange(120.0).reshape(2, 3, 4, 5)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_inside_of_a_graph(layout):
    forms = [lambda x, op=op: op(LAYOUTS[layout](x * 2)) + 1 for op in OPS.values()]
    for name, (found, wanted) in zip(OPS, run(forms, values())):
        assert torch.equal(found, wanted), name


@pytest.mark.parametrize("layout", ["transposed", "part", "behind", "expanded", "channels last"])
def test_of_arguments(layout):
    for name, (found, wanted) in zip(OPS, run(OPS.values(), LAYOUTS[layout](values()))):
        assert torch.equal(found, wanted), name


def test_strides_of_results():
    x = values()
    forms = [lambda x, layout=layout: layout(x * 2) for layout in LAYOUTS.values()] + [LAYOUTS["transposed"]]
    for found, wanted in run(forms, x):
        assert torch.equal(found, wanted) and found.stride() == wanted.stride()


def test_gradients():
    without = ("set_", "empty_like", "new_empty", "written", "copy", "as_strided_scatter")
    names = [name for name in OPS if not name.startswith(without)]
    for layout in ("transposed", "behind"):
        def total(x, layout=layout):
            return sum((OPS[name](LAYOUTS[layout](x * 2)).sin() * (i + 1)).sum() for i, name in enumerate(names))

        torch._dynamo.reset()
        gradients = []
        for function in (total, torch.compile(total, backend="mpc", options={"policy": "float32"})):
            x = (values() / 50).requires_grad_()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", mpc.ModelWarning)
                function(x).backward()
            gradients.append(x.grad)
        assert torch.allclose(*gradients, rtol=1e-4, atol=1e-4), layout


def test_a_view_of_what_the_graph_knows_is_lowered():
    """A view of storage outside of the graph runs in eager mode, with a warning."""
    inside = torch.compile(lambda x: (x * 2).transpose(0, 3).as_strided((3, 4), (4, 1)), backend="mpc", options={"policy": "float32"})
    outside = torch.compile(lambda x: x.as_strided((3, 4), (4, 1)) + 1, backend="mpc", options={"policy": "float32"})
    x = values()
    with warnings.catch_warnings():
        warnings.simplefilter("error", mpc.ModelWarning)
        assert torch.equal(inside(x), (x * 2).flatten()[:12].reshape(3, 4))
    with pytest.warns(mpc.ModelWarning, match="elements 0 to 11 of a storage of which only 0 to 4 are known"):
        assert torch.equal(outside(x[0, 0, 0]), x.flatten()[:12].reshape(3, 4) + 1)


def test_an_offset_that_changes_between_calls():
    """No guard of the framework checks where in its storage an argument begins."""
    x, function = values().flatten(), lambda v: v.as_strided((2, 3), (3, 1), 4) + 1
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="mpc", options={"policy": "float32"})
    for given in (x[:60], x[60:], x[3:63], x[:60]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", mpc.ModelWarning)
            assert torch.equal(compiled(given), function(given))


def test_longformer():
    transformers = pytest.importorskip("transformers")
    config = transformers.LongformerConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        attention_window=[4], max_position_embeddings=40, pad_token_id=0)
    torch.manual_seed(0)
    model = transformers.LongformerModel(config).eval()
    tokens = torch.randint(1, 50, (2, 16))
    torch._dynamo.reset()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = torch.compile(model, backend="mpc", options={"policy": "float32"})(tokens).last_hidden_state
        assert (found - model(tokens).last_hidden_state).abs().max() <= 1e-5
