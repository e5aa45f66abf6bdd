# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`torch.compile(backend="mpc")`: results and gradients against eager mode in float64."""

import copy
import subprocess
import sys
import types
import warnings

import mpc
import pytest

torch = pytest.importorskip("torch")

import mpc.torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
import torch_modules  # noqa: E402
from torch.utils._pytree import tree_leaves, tree_map  # noqa: E402

POLICIES = ("float32", "mixed_bfloat16", "mixed_float16")
# Largest relative error of one rounding in a layer.
UNIT = {"float32": 2.0 ** -24, "mixed_bfloat16": 2.0 ** -8, "mixed_float16": 2.0 ** -11}


def bound(policy, depth):
    """Bound of the error's norm relative to the result's. A layer rounds its operands, accumulates at
    most 128 terms in float32, and later layers may amplify the error by a factor of 4 (conditioning)."""
    return 4 * depth * (2 * UNIT[policy] + 128 ** 0.5 * UNIT["float32"])


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def texts(monkeypatch):
    """The texts that the backend compiles."""
    made, compile_source = [], mpc.torch._function.compile

    def compiled(source, **options):
        made.append(source.read().decode())
        return compile_source(source, **options)

    monkeypatch.setattr(mpc.torch._function, "compile", compiled)
    return made


def double(value):
    return tree_map(lambda v: v.double() if isinstance(v, torch.Tensor) and v.is_floating_point() else v, value)


def floats(value):
    return [v for v in tree_leaves(value) if isinstance(v, torch.Tensor) and v.is_floating_point()]


def step(module, arguments):
    """Results and gradients, by name, of one call."""
    arguments = tree_map(lambda v: v.detach().clone().requires_grad_() if v.is_floating_point() else v, arguments)
    torch.manual_seed(1)
    results = floats(module(*arguments))
    numbers = torch.Generator().manual_seed(2)
    tangents = [torch.randn(r.shape, generator=numbers).to(r.dtype) for r in results]
    torch.autograd.backward(results, tangents)
    found = {f"result {i}": r.detach() for i, r in enumerate(results)}
    found |= {f"argument {i}": a.grad for i, a in enumerate(floats(arguments)) if a.grad is not None}
    found |= {name: p.grad for name, p in module.named_parameters() if p.grad is not None}
    found |= {name: b for name, b in module.named_buffers() if b.is_floating_point()}
    return {name.replace("_orig_mod.", ""): value for name, value in found.items()}


def compare(found, wanted, limit):
    assert found.keys() == wanted.keys()
    # Gradients that nearly cancel are compared relative to the largest gradient.
    scale = max(float(w.norm()) for name, w in wanted.items() if not name.startswith("result"))
    for name, w in wanted.items():
        f = found[name]
        assert f.shape == w.shape and f.dtype == torch.float32, name
        size = float(w.norm()) if name.startswith("result") else max(float(w.norm()), 0.1 * scale)
        assert float((f.double() - w).norm()) <= limit * size, (name, float((f.double() - w).norm()) / size, limit)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", list(torch_modules.modules()))
def test_module(name, policy):
    module, arguments, depth = torch_modules.modules()[name]
    reference = copy.deepcopy(module).double()
    compiled = torch.compile(module, backend="mpc", options={"policy": policy})
    with warnings.catch_warnings():
        warnings.simplefilter("error", mpc.ModelWarning)
        found = step(compiled, arguments)
    compare(found, step(reference, double(arguments)), bound(policy, depth))


def test_example_of_the_page():
    model, criterion, x, y = torch.nn.Linear(4, 3), torch.nn.MSELoss(), torch.randn(5, 4), torch.randn(5, 3)
    wide = criterion(model(x), y)
    import mpc.torch
    model = torch.compile(model, backend="mpc", options={"policy": "mixed_bfloat16"})
    loss = criterion(model(x), y)
    loss.backward()
    assert abs(loss - wide) <= bound("mixed_bfloat16", 2) * wide and model.weight.grad.norm() > 0


@pytest.mark.parametrize("imports", ["torch", "mpc.torch, torch",
                                     "torch._dynamo; torch._dynamo.list_backends(); import mpc.torch"])
def test_framework_finds_the_backend_by_itself(imports):
    program = f"""import {imports}
with torch.no_grad():
    print(torch.compile(torch.abs, backend="mpc", options={{"policy": "float32"}})(-torch.ones(1)).item())
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "1.0\n"), done.stderr


def test_inference_runs_as_one_function(texts):
    module, arguments, _ = torch_modules.modules()["block"]
    compiled = torch.compile(module, backend="mpc", options={"policy": "float32"})
    with torch.no_grad():
        first, second = compiled(*arguments), compiled(*arguments)
    assert len(texts) == 1 and torch.equal(first, second)
    for op in ("mpc.attention", "mpc.layer_norm", "mpc.gelu", "mpc.matmul", 'mpc.layer = "attention/qkv"'):
        assert op in texts[0]


def test_training_keeps_backward_ops_whole(texts):
    module, arguments, _ = torch_modules.modules()["block"]
    step(torch.compile(module, backend="mpc", options={"policy": "float32"}), arguments)
    assert len(texts) == 2
    assert texts[1].count("mpc.norm_gradient") == 2 and texts[1].count("mpc.attention_gradient") == 1
    # The forward pass computes no statistics that only the backward one would read.
    assert "mpc.reduce" not in texts[0]


def test_a_cache_that_grows():
    model = torch_modules.Gpt().eval()
    reference = copy.deepcopy(model).double()
    compiled = torch.compile(model, backend="mpc", options={"policy": "float32"})
    tokens = torch.tensor([[1, 2, 3]])
    empty = [(torch.zeros(1, 4, 1, 4), torch.zeros(1, 4, 1, 4))] * 2
    with torch.no_grad():
        caches, expected, token = empty, double(empty), tokens
        for _ in range(5):
            y, caches = compiled(token[:, -1:], caches)
            w, expected = reference(token[:, -1:], expected)
            compare({"result": y, "cache": caches[1][0]}, {"result": w, "cache": expected[1][0]}, bound("float32", 16))
            token = y[:, -1:].argmax(-1)


def test_sizes_of_a_call():
    module = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.LayerNorm(6))
    reference = copy.deepcopy(module).double()
    compiled = torch.compile(module, backend="mpc", dynamic=True, options={"policy": "float32"})
    for rows in (3, 5, 9, 5):
        x = torch.randn(rows, 6)
        compare(step(compiled, (x,)), step(reference, (x.double(),)), bound("float32", 2) * 4)
        module.zero_grad()
        reference.zero_grad()


@pytest.mark.parametrize("policy", POLICIES)
def test_lstm(policy):
    """Dynamo leaves nn.LSTM to eager mode by default."""
    module = torch.nn.LSTM(4, 5, num_layers=2, batch_first=True)
    reference = copy.deepcopy(module).double()
    x = torch.randn(2, 4, 4)
    with torch._dynamo.config.patch(allow_rnn=True), warnings.catch_warnings():
        warnings.simplefilter("error", mpc.ModelWarning)
        found = step(torch.compile(module, backend="mpc", fullgraph=True, options={"policy": policy}), (x,))
    compare(found, step(reference, (x.double(),)), bound(policy, 16))


@pytest.mark.parametrize("bias", [True, False])
def test_lstm_in_inference_is_one_op_for_each_direction(texts, bias):
    module = torch.nn.LSTM(4, 5, num_layers=2, batch_first=True, bidirectional=True, bias=bias)
    states = torch.randn(4, 3, 5), torch.randn(4, 3, 5)
    x = torch.randn(3, 6, 4)
    with torch._dynamo.config.patch(allow_rnn=True), warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("error", mpc.ModelWarning)
        found = torch.compile(module, backend="mpc", fullgraph=True, options={"policy": "float32"})(x, states)
    wanted = copy.deepcopy(module).double()(x.double(), double(states))
    (text,) = texts
    assert text.count("mpc.lstm") == 4 and text.count("direction(reverse)") == 2
    for f, w in zip(floats(found), floats(wanted)):
        assert f.shape == w.shape and (f - w).norm() <= bound("float32", 24) * w.norm()


def test_overrides_name_modules():
    module = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)).requires_grad_(False)
    x, narrow = torch.randn(8, 64), {"policy": "mixed_bfloat16"}
    overrides = {"layer:0": "float32", "layer:1": "float32"}
    wide = torch.compile(module, backend="mpc", options={**narrow, "overrides": overrides})
    wanted = copy.deepcopy(module).double()(x.double())
    error = (wide(x) - wanted).norm() / wanted.norm()
    torch._dynamo.reset()
    coarse = (torch.compile(module, backend="mpc", options=narrow)(x) - wanted).norm() / wanted.norm()
    assert error < bound("float32", 2) < coarse < bound("mixed_bfloat16", 2)


class _Halves(torch.nn.Module):
    """Two layers, each of which is a graph of its own or between two functions of mpc."""

    def __init__(self, between):
        super().__init__()
        self.one, self.two, self._between = torch.nn.Linear(64, 64), torch.nn.Linear(64, 64), between

    def forward(self, x):
        x = self._between(self.one(x))
        return self.two(x)


def _break(x):
    torch._dynamo.graph_break()
    return x


def _step(module, x, options):
    """A result and the gradients of a loss of it."""
    torch._dynamo.reset()
    module.zero_grad()
    y = torch.compile(module, backend="mpc", options=options)(x)
    y.square().sum().backward()
    return [part.double() for part in (y.detach(), *[p.grad for p in module.parameters() if p.requires_grad])]


# The ops between the layers of the second module have low-precision gradients of their own.
@pytest.mark.parametrize("between, parts", [(_break, 5), (lambda x: torch.fft.irfft(torch.fft.rfft(x), n=64), 1)])
@pytest.mark.filterwarnings("ignore::mpc.ModelWarning")
def test_an_override_is_of_some_of_the_graphs(between, parts):
    """An override applies to the forward and the backward graph, and before and after a graph break."""
    module, x, narrow = _Halves(between), torch.randn(8, 64), {"policy": "mixed_bfloat16"}
    wide = copy.deepcopy(module).double()
    y = wide(x.double())
    y.square().sum().backward()
    wanted = [y.detach(), *[p.grad for p in wide.parameters()]][:parts]

    def error(overrides):
        found = _step(module, x, {**narrow, "overrides": overrides})
        return max(((f - w).norm() / w.norm()).item() for f, w in zip(found, wanted))

    assert error({"layer:one": "float32", "layer:t.o": "float32"}) < bound("float32", 4) < 1e-4 < error({})
    assert error({"layer:two": "float32"}) > 1e-4


def test_an_override_of_a_layer_without_gradients():
    module = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64))
    module[0].requires_grad_(False)
    with warnings.catch_warnings():
        warnings.simplefilter("error", mpc.ModelWarning)
        found = _step(module, torch.randn(8, 64), {"policy": "mixed_bfloat16", "overrides": {"layer:0": "float32"}})
    assert len(found) == 3 and all(part.isfinite().all() for part in found)


def test_an_override_that_matches_no_op_is_reported():
    options = {"policy": "mixed_bfloat16", "overrides": {"layer:1": "float32", "layer:tail": "float32", "op:conv": "float32"}}
    module, x = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh()), torch.randn(8, 64)
    with pytest.warns(mpc.ModelWarning) as told:
        _step(module, x, options)
    assert [str(w.message) for w in told] == ["override 'layer:tail=float32' matches no op of a graph that PyTorch made"]
    # The policy that "auto" resolves to has overrides, too.
    assert _step(module, x, {"policy": "auto", "overrides": {"layer:0": "float32"}})
    with pytest.raises(Exception, match="unknown key 'layers'"):
        _step(module, x, {"policy": "mixed_bfloat16", "overrides": {"layers:0": "float32"}})


def test_dropout_matches_eager_mode():
    module = torch.nn.Dropout(0.5)
    compiled = torch.compile(module, backend="mpc", options={"policy": "float32"})
    x = torch.ones(64)
    torch.manual_seed(3)
    wanted = module(x)
    torch.manual_seed(3)
    assert torch.equal(compiled(x), wanted)


def test_random_ops_do_not_split_a_graph(texts):
    """Random numbers are generated before the graph, in eager mode's order and memory formats."""
    module = torch.nn.Sequential(torch.nn.Conv2d(2, 4, 3), torch.nn.Dropout2d(0.25), torch.nn.Dropout(0.3), torch.nn.ReLU(),
                                 torch.nn.Flatten(), torch.nn.Linear(64, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 3))
    module = module.to(memory_format=torch.channels_last)
    x = torch.randn(3, 2, 6, 6).to(memory_format=torch.channels_last)
    wanted = step(module, (x,))
    module.zero_grad()
    found = step(torch.compile(module, backend="mpc", options={"policy": "float32"}), (x,))
    compare(found, double(wanted), bound("float32", 6))
    assert len(texts) == 2


def test_random_numbers_of_data_keep_their_position():
    def function(x):
        chances = torch.sigmoid(x)
        return torch.bernoulli(chances) * 2 + F.dropout(x, 0.5) + torch.rand(8)

    x = torch.randn(8)
    compiled = torch.compile(function, backend="mpc", options={"policy": "float32"})
    torch.manual_seed(5)
    wanted = function(x)
    torch.manual_seed(5)
    assert torch.allclose(compiled(x), wanted)


def test_unsupported_ops_run_in_eager_mode_and_are_reported():
    module = torch_modules.Apply(lambda m, x: torch.fft.rfft(x @ m.w).abs() @ m.w[:, :2][:3], w=torch.randn(4, 4))
    reference = copy.deepcopy(module).double()
    compiled = torch.compile(module, backend="mpc", options={"policy": "float32"})
    x = torch.randn(5, 4)
    with pytest.warns(mpc.ModelWarning, match=r"in eager mode run aten\._fft_r2c\.default"), torch.no_grad():
        y = compiled(x)
    w = reference(x.double())
    assert (y - w).norm() < bound("float32", 4) * w.norm()


def test_arrays_keep_their_layout(monkeypatch):
    """Views of parameters and results, which are copied where they have gaps or another order."""
    module = torch_modules.Apply(lambda m, x: torch.cat([(x @ m.w.t()).split(8, 1)[1].tanh(), x[:, :8]], 1) @ m.v.t(),
                                 w=torch.randn(16, 32), v=torch.randn(5, 16))
    seen = []
    compile_text = mpc.torch._function.compile

    def compiled(*arguments, **options):
        made = compile_text(*arguments, **options)._made
        return types.SimpleNamespace(_made=lambda *arrays: seen.extend(arrays) or made(*arrays))

    monkeypatch.setattr(mpc.torch._function, "compile", compiled)
    reference, x = copy.deepcopy(module).double(), torch.randn(4, 32)
    found = step(torch.compile(module, backend="mpc", options={"policy": "float32"}), (x,))
    compare(found, step(reference, (x.double(),)), bound("float32", 3))
    # A slice of the argument has gaps in the forward pass alone.
    assert seen and all(array.is_contiguous() for array in seen)
    assert {array.data_ptr() for array in seen} >= {p.data_ptr() for p in module.parameters()}


def test_channels_last():
    module = torch.nn.Sequential(torch.nn.Conv2d(8, 16, 3), torch.nn.ReLU(), torch.nn.Conv2d(16, 4, 3))
    module = module.to(memory_format=torch.channels_last)
    x = torch.randn(2, 8, 9, 10).to(memory_format=torch.channels_last)
    reference = copy.deepcopy(module).double()
    found = step(torch.compile(module, backend="mpc", options={"policy": "float32"}), (x,))
    compare(found, step(reference, (x.double(),)), bound("float32", 3))


def test_autocast_regions_stay_narrow():
    module = torch.nn.Linear(32, 8)

    def function(x):
        with torch.autocast("cpu", torch.bfloat16):
            return module(x)

    x = torch.randn(4, 32)
    with torch.no_grad():
        y = torch.compile(function, backend="mpc", options={"policy": "float32"})(x)
        wanted = module(x)
    assert y.dtype == torch.bfloat16
    error = (y - wanted).norm() / wanted.norm()
    assert 2.0 ** -14 < error < bound("mixed_bfloat16", 1)


def test_a_region_without_autocast_inside_of_one_stays_wide():
    module = torch.nn.Linear(64, 64)

    def wide(x):
        with torch.autocast("cpu", enabled=False):
            return x.float() @ module.weight.float().T

    def both(x):
        with torch.autocast("cpu", torch.bfloat16):
            return wide(x) + module(x)

    def gradients(function, x):
        module.zero_grad()
        x = x.clone().requires_grad_()
        function(x).float().square().sum().backward()
        return module.weight.grad.clone(), x.grad.float()

    x = torch.randn(4, 64, dtype=torch.bfloat16)
    for function, limit in ((wide, 1e-5), (both, bound("mixed_bfloat16", 1))):
        compiled = torch.compile(function, backend="mpc", fullgraph=True, options={"policy": "float32"})
        for f, w in zip((compiled(x), *gradients(compiled, x)), (function(x), *gradients(function, x))):
            assert f.dtype == w.dtype and (f - w).norm() <= limit * w.norm()


def angles(positions, frequencies):
    with torch.autocast("cpu", enabled=False):
        return (frequencies[None, :, None].float() @ positions[:, None, :].float()).transpose(1, 2).cos()


@pytest.mark.parametrize("policy", ("float32", "mixed_bfloat16"))
def test_angles_of_late_positions(policy):
    arguments = torch.arange(65536, 65560)[None], 1 / 10000 ** (torch.arange(0, 16, 2) / 16)
    with torch.autocast("cpu", torch.bfloat16):
        found = torch.compile(angles, backend="mpc", options={"policy": policy})(*arguments)
        assert (found - angles(*arguments)).abs().max() <= 5e-3


def rotate(q, c, s):
    return q * c + torch.cat((-q[..., q.shape[-1] // 2:], q[..., :q.shape[-1] // 2]), -1) * s


def ties(x):
    s = x / 7 ** 0.5
    return (s == s.amax(-1, keepdim=True)).sum(-1)


@pytest.mark.parametrize("function, arguments", [
    (lambda x: x - x.bfloat16().float(), [(64,)]),
    (lambda x, y: torch.where(x > 0, x, torch.full_like(x, -3.0)).half() + y, [(64,), (64,)]),
    (lambda x: rotate(x.bfloat16(), x[0].bfloat16(), x[1].bfloat16()), [(2, 2, 7, 16)]),
    (lambda x: ties(x.bfloat16()), [(16, 300)]),
    (lambda x: 448.0 / torch.clamp(x.bfloat16().abs().max(), min=1e-12), [(16, 64)])])
def test_roundings_of_the_model_are_eager_modes(function, arguments):
    arguments = [torch.randn(shape) for shape in arguments]
    found, wanted = torch.compile(function, backend="mpc", fullgraph=True, options={"policy": "float32"})(*arguments), function(*arguments)
    assert found.dtype == wanted.dtype and torch.equal(found, wanted)


def triangle(x, mask, w, out):
    """Triangle update of molecule models: float32 matmuls of gated halves of 16-bit tensors."""
    a, b = (torch.layer_norm(x, x.shape[-1:]) @ w * mask.unsqueeze(-1)).float().chunk(2, -1)
    return torch.layer_norm(torch.einsum("bikd,bjkd->bijd", a, b).to(x.dtype), x.shape[-1:]) @ out


def test_a_triangle_of_bfloat16_errs_as_eager_mode():
    arguments = torch.randn(1, 12, 12, 32), (torch.rand(1, 12, 12) > 0.1).float(), torch.randn(32, 64) / 6, torch.randn(32, 32) / 6
    wanted = triangle(*double(arguments[:1]), arguments[1].double(), *(a.double() for a in arguments[2:]))
    narrow = [a.bfloat16() for a in arguments]
    found = torch.compile(triangle, backend="mpc", options={"policy": "float32"})(*narrow)
    assert (found - wanted).norm() <= 1.3 * (triangle(*narrow) - wanted).norm()


@pytest.mark.parametrize("labels", ([0, 1, -100, 2, 3, -100, 4, 0], [-100] * 8))
def test_a_cross_entropy_of_ignored_labels(labels):
    x, weight = torch.randn(8, 6), torch.randn(6, 5, requires_grad=True)

    def loss(weight):
        return F.cross_entropy(x @ weight, torch.tensor(labels), ignore_index=-100, label_smoothing=0.1)

    results = []
    for function in (torch.compile(loss, backend="mpc", options={"policy": "float32"}), loss):
        weight.grad = None
        value = function(weight)
        value.backward()
        results.append((value.detach(), weight.grad))
    for f, w in zip(*results):
        torch.testing.assert_close(f, w, rtol=1e-5, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("function", [
    lambda x, i: F.embedding(i, x), lambda x, i: x.index_select(0, i), lambda x, i: x.gather(0, i[:, None]),
    lambda x, i: x[i], lambda x, i: x[i, 0 * i]])
def test_an_index_out_of_range_is_an_error(function):
    compiled = torch.compile(function, backend="mpc", options={"policy": "float32"})
    x, within = torch.randn(5, 3), torch.tensor([0, 4])
    assert torch.equal(compiled(x, within), function(x, within))
    with pytest.raises(mpc.InvalidArgument, match="index 5 .*is outside an extent of 5"):
        compiled(x, within + 1)


def test_strides_and_aliases_of_results():
    def function(x):
        y = x.t() + 1
        return y, y[1:], x[:, 1], y.view_as(y).expand(2, 3, 4)

    x = torch.randn(4, 3)
    found, wanted = torch.compile(function, backend="mpc", options={"policy": "float32"})(x), function(x)
    for f, w in zip(found, wanted):
        assert torch.equal(f, w) and f.stride() == w.stride()
    found[0].zero_()
    assert not found[1].any() and found[2].data_ptr() == x[:, 1].data_ptr()


def test_arguments_are_shared_and_results_are_new():
    compiled = torch.compile(lambda x: (x.clone(), x.view(-1), x), backend="mpc", options={"policy": "float32"})
    x = torch.randn(3, 4)
    copied, viewed, same = compiled(x)
    assert copied.data_ptr() != x.data_ptr() and viewed.data_ptr() == x.data_ptr() and same is x
    copied.zero_()
    assert x.abs().sum() > 0


def test_whole_numbers_and_booleans():
    def function(i, m):
        return i // 3 + (i % 5) * 2, (i > 2) & m, torch.where(m, i, -i).sum()

    i, m = torch.arange(-6, 6), torch.arange(12) % 2 == 0
    found = torch.compile(function, backend="mpc", options={"policy": "mixed_bfloat16"})(i, m)
    assert all(torch.equal(f, w) and f.dtype == w.dtype for f, w in zip(found, function(i, m)))


def test_interpreter_exit_is_clean():
    text = """import torch, mpc.torch
compiled = torch.compile(torch.nn.Linear(4, 4), backend="mpc", options={"policy": "float32"})
compiled(torch.ones(1, 4)).sum().backward()
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", text], capture_output=True, text=True)
    assert done.returncode == 0 and "leaked" not in done.stderr


def test_the_interpreter_ends_cleanly():
    """Dynamo's caches and options outlive the mpc module."""
    program = ("import mpc, mpc.torch, torch\n"
               "f = mpc.compile(torch.nn.ReLU(), torch.ones(2), policy='float32')\n"
               "def work(x):\n"
               "    return f(x.sin()) + 1\n"
               "for policy in ('float32', 'mixed_bfloat16'):\n"
               "    c = torch.compile(work, backend='mpc', options={'policy': mpc.Policy(policy)})\n"
               "    c(torch.ones(2))\n"
               "print('done')\n")
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout == "done\n" and "leaked" not in done.stderr, done.stderr
