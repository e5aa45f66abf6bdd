# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Parameters as constants of `torch.compile(backend="mpc")` in inference: one compile until they change."""

import copy

import mpc
import pytest

torch = pytest.importorskip("torch")

import mpc.torch  # noqa: E402

POLICIES = {"float32": 2.0 ** -20, "mixed_bfloat16": 2.0 ** -5}


class Compiles:
    """A compiled module whose compiles are counted and whose results are compared with eager mode in float64."""

    def __init__(self, module, policy, monkeypatch):
        torch._dynamo.reset()
        self.module, self.policy, self.sources = module, policy, []
        compile_source = mpc.torch._function.compile

        def compiled(source, **options):
            self.sources.append((source.read().decode(), options.get("cache", True)))
            return compile_source(source, **options)

        monkeypatch.setattr(mpc.torch._function, "compile", compiled)
        self.function = torch.compile(module, backend="mpc", options={"policy": policy})

    def call(self, x):
        with torch.no_grad():
            found = self.function(x)
            wanted = copy.deepcopy(self.module).double()(x.double())
        assert (found.double() - wanted).norm() <= POLICIES[self.policy] * wanted.norm()
        return len(self.sources)


@pytest.fixture(params=POLICIES)
def compiles(request, monkeypatch):
    yield lambda module: Compiles(module.eval(), request.param, monkeypatch)
    torch._dynamo.reset()


def net():
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Flatten(),
                                 torch.nn.Linear(8 * 16, 32), torch.nn.GELU(), torch.nn.Linear(32, 5))
    with torch.no_grad():
        module[1].running_mean.normal_()
        module[1].running_var.uniform_(0.5, 2)
    return module


def other(module):
    """The state of another such module."""
    torch.manual_seed(1)
    return {name: value + torch.randn(value.shape) / 8 if value.is_floating_point() and "var" not in name else value
            for name, value in module.state_dict().items()}


def swap(module, values):
    """As a moving average of the weights is put in place: by `.data`."""
    for name, parameter in module.named_parameters():
        parameter.data, values[name] = values[name], parameter.data


def copy_data(module, values):
    """The same by copies, which no version counter sees."""
    for name, parameter in module.named_parameters():
        parameter.data.copy_(values[name])


def in_place(module, _):
    with torch.no_grad():
        module[4].weight.mul_(0.5)


def step(module, _):
    with torch.enable_grad():
        optimizer = torch.optim.AdamW(module.parameters(), lr=0.1)
        module(torch.randn(2, 3, 6, 6)).square().sum().backward()
        optimizer.step()


def replace(module, _):
    module[6] = torch.nn.Linear(32, 5)


def statistics(module, _):
    module.train()
    module(torch.randn(16, 3, 6, 6) * 3)
    module.eval()


CHANGES = {"load_state_dict": lambda module, values: module.load_state_dict(values), "swap": swap,
           "copy_data": copy_data, "in place": in_place, "optimizer": step, "module": replace, "statistics": statistics}


@pytest.mark.parametrize("change", CHANGES)
def test_change(compiles, change):
    module, x = net(), torch.randn(4, 3, 6, 6)
    run = compiles(module)
    assert run.call(x) == 1 and run.call(torch.randn(4, 3, 6, 6)) == 1
    # The batch norm is folded, and nothing but x is an argument.
    text, caches = run.sources[0]
    assert caches and text.count("mpc.role<input>") == 1 and "mpc.external" in text
    CHANGES[change](module, other(module))
    assert [run.call(x) for _ in range(3)] == [2, 2, 2]
    if change != "module":  # Dynamo traces a new module again.
        assert not run.sources[1][1], "weights that changed are not worth a place in the compile cache"


def test_swap_back(compiles):
    module, x = net(), torch.randn(4, 3, 6, 6)
    run, averages = compiles(module), other(module)
    for turn in range(1, 5):
        # Constants that were used often are replaced at once.
        for _ in range(40):
            assert run.call(x) == turn
        swap(module, averages)


def test_to(compiles):
    module, x = net(), torch.randn(4, 3, 6, 6)
    run = compiles(module)
    assert run.call(x) == 1
    module.to("cpu").to(torch.float32)
    assert run.call(x) == 1
    module.double()
    assert run.call(x.double()) == 2
    module.float()
    run.call(x)


def test_tied_weights(compiles):
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(16, 16), torch.nn.Linear(16, 16)

        def forward(self, x):
            return self.second(torch.tanh(self.first(x)))

    module, x = Tied(), torch.randn(4, 16)
    run = compiles(module)
    run.call(x)
    module.second.weight = module.first.weight
    tied = run.call(x)
    assert run.call(x) == tied
    with torch.no_grad():
        module.first.weight.add_(0.25)
    changed = run.call(x)
    assert changed > tied and "mpc.role<input>" in run.sources[-1][0]
    run.call(x)


def test_weights_that_change_in_every_call_are_arguments(compiles):
    module, x = net(), torch.randn(4, 3, 6, 6)
    run = compiles(module)
    for _ in range(40):
        last = run.call(x)
        in_place(module, None)
    # Twice as constants at first, then as arguments.
    assert last == 3 and [text.count("mpc.role<input>") > 1 for text, _ in run.sources] == [False, False, True]
    # They are constants again once they stay the same.
    assert [run.call(x) for _ in range(5)][-1] == 4


def test_sizes(compiles):
    module = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    run = compiles(module)
    run.function = torch.compile(module, backend="mpc", dynamic=True, options={"policy": run.policy})
    assert [run.call(torch.randn(rows, 16)) for rows in (3, 5, 3, 5)] == [1, 2, 2, 2]
    with torch.no_grad():
        module[0].bias.add_(1)
    assert [run.call(torch.randn(rows, 16)) for rows in (3, 5, 3, 5)] == [3, 4, 4, 4]


def test_training_reads_parameters_in_place(compiles):
    module, x = net(), torch.randn(4, 3, 6, 6)
    run = compiles(module)
    run.function(x).sum().backward()
    assert run.sources and all("mpc.external" not in text for text, _ in run.sources)


def test_around_unsupported_ops(compiles):
    class Spectrum(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(8, 8), torch.nn.Linear(5, 4)

        def forward(self, x):
            return self.second(torch.fft.rfft(self.first(x)).abs())

    module, x = Spectrum(), torch.randn(4, 8)
    run = compiles(module)
    with pytest.warns(mpc.ModelWarning, match="_fft_r2c"):
        assert run.call(x) == 2
    assert all(text.count("mpc.role<input>") == 1 for text, _ in run.sources) and run.call(x) == 2
    with torch.no_grad():
        module.second.weight.neg_()
    assert run.call(x) == 3


def test_fused_optimizers(compiles):
    # They change weights without PyTorch's version counters, here few rows of a table.
    table = torch.nn.Sequential(torch.nn.Embedding(5000, 32), torch.nn.Linear(32, 5))
    compiled, rows = compiles(table), torch.tensor([3, 17])
    optimizer = torch.optim.Adam(table[0].parameters(), 0.1, fused=True)

    def check():
        with torch.no_grad():
            found = compiled.function(rows)
            wanted = copy.deepcopy(table).double()(rows)
        assert (found.double() - wanted).norm() <= POLICIES[compiled.policy] * wanted.norm()

    for _ in range(3):
        check()
        table(rows).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    check()


def test_writes_to_data_of_small_tensors(compiles):
    module = net()
    compiled, x = compiles(module), torch.randn(2, 3, 6, 6)
    compiled.call(x)
    module[6].bias.data[3] = 9.0
    assert compiled.call(x) == 2


def test_refreshes_of_large_weights(compiles):
    """Weights of several MiB, which compiles share by what identifies them."""
    torch.manual_seed(0)
    module = torch.nn.Linear(1024, 512, bias=False)
    made, x = compiles(module), torch.randn(2, 1024)
    for _ in range(3):
        for _ in range(4):
            made.call(x)
        with torch.no_grad():
            module.weight.add_(torch.randn(512, 1024) * 0.3)
    made.call(x)
