# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""mpc.Trainer trains the function that PyTorch trains: gradients that it stops, replaces or bends, modes of
submodules, buffers and random numbers. Skipped without PyTorch."""

import copy
import warnings

import mpc
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

POLICIES = {"float32": 2e-5, "mixed_bfloat16": 3e-2, "mixed_float16": 5e-3}


class Case(nn.Module):
    """Two linear layers around a function of the module and its input."""

    def __init__(self, function, **parts):
        super().__init__()
        self.function = function
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 3)
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x):
        return self.function(self, x)


class Straight(torch.autograd.Function):
    """Rounding whose gradient is that of the identity."""

    @staticmethod
    def forward(ctx, x):
        return torch.round(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Clipped(torch.autograd.Function):
    """The identity, with a gradient of small elements."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient.clamp(-0.01, 0.01)


class Signed(torch.autograd.Function):
    """The identity, with the sign of its gradient over ten."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient.sign() / 10


class Normed(torch.autograd.Function):
    """The identity, with a gradient of norm 1."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient / gradient.norm()


class Squared(torch.autograd.Function):
    """The identity, with ten times the signed square of its gradient."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * gradient.abs() * 10


def no_grad(m, x):
    with torch.no_grad():
        h = torch.tanh(m.a(x))
    return m.b(h)


def hooked(m, x):
    h = m.a(x)
    h.register_hook(lambda gradient: gradient * 3)
    return m.b(h)


def checkpointed(m, x):
    return m.b(torch.utils.checkpoint.checkpoint(lambda v: torch.tanh(m.a(v)), x, use_reentrant=False))


def held_norm():
    norm = nn.BatchNorm1d(4)
    norm.running_mean.normal_()
    norm.running_var.uniform_(0.5, 2)
    return norm.eval()


def held(m, x):
    n = m.norm
    return m.b(F.batch_norm(m.a(x), n.running_mean, n.running_var, n.weight, n.bias, False))


class Counted(nn.Module):
    """A buffer that is assigned anew in each forward pass, and one that is written in place."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        self.count = self.count + 1
        self.mean.lerp_(x.detach().mean(0), 1 / 4)
        return x / (1 + self.mean.detach() ** 2)


def norm(m, x):
    return m.b(m.norm(m.a(x)))


CASES = {
    "detach": lambda: Case(lambda m, x: m.b(torch.tanh(m.a(x)).detach()) + m.a(x)[:, :3]),
    "no_grad": lambda: Case(no_grad),
    "straight through by detach": lambda: Case(lambda m, x: m.b(m.a(x) + (torch.round(m.a(x)) - m.a(x)).detach())),
    "straight through by a function": lambda: Case(lambda m, x: m.b(Straight.apply(m.a(x)))),
    "clipped by a function": lambda: Case(lambda m, x: m.b(Clipped.apply(m.a(x)))),
    "square of the gradient": lambda: Case(lambda m, x: m.b(Squared.apply(m.a(x)))),
    "sign of the gradient": lambda: Case(lambda m, x: m.b(Signed.apply(m.a(x)))),
    "normed gradient": lambda: Case(lambda m, x: m.b(Normed.apply(m.a(x)))),
    "hook on a value": lambda: Case(hooked),
    "checkpoint": lambda: Case(checkpointed),
    "padding_idx": lambda: Case(lambda m, x: m.b(m.table(x.long().abs()).mean(1)), table=nn.Embedding(9, 4, 0)),
    "momentum": lambda: Case(norm, norm=nn.BatchNorm1d(4, momentum=0.3)),
    "two momenta": lambda: Case(lambda m, x: m.b(m.other(m.norm(m.a(x)))), norm=nn.BatchNorm1d(4, momentum=0.3),
                                other=nn.BatchNorm1d(4, momentum=0.5)),
    "momentum None": lambda: Case(norm, norm=nn.BatchNorm1d(4, momentum=None)),
    "untracked norm": lambda: Case(norm, norm=nn.BatchNorm1d(4, track_running_stats=False)),
    "norm without weights": lambda: Case(norm, norm=nn.BatchNorm1d(4, affine=False)),
    "norm called twice": lambda: Case(lambda m, x: m.b(m.norm(m.norm(m.a(x)))), norm=nn.BatchNorm1d(4)),
    "held norm": lambda: Case(norm, norm=held_norm()),
    "held norm by a function": lambda: Case(held, norm=held_norm()),
    "instance norm": lambda: Case(lambda m, x: m.b(m.norm(m.a(x)[:, None, :, None])[:, 0, :, 0]),
                                  norm=nn.InstanceNorm2d(1, affine=True, track_running_stats=True)),
    "dropout of 0": lambda: Case(lambda m, x: m.b(m.drop(m.a(x))), drop=nn.Dropout(0.0)),
    "held dropout": lambda: Case(lambda m, x: m.b(m.drop(m.a(x))), drop=nn.Dropout(0.5).eval()),
    "softmax before the loss": lambda: Case(lambda m, x: torch.softmax(m.b(m.a(x)), 1)),
    "log_softmax before the loss": lambda: Case(lambda m, x: torch.log_softmax(m.b(m.a(x)), 1)),
    "gate": lambda: Case(lambda m, x: m.b(m.a(x) * (m.a(x) > 0).float())),
    "buffers": lambda: Case(norm, norm=Counted()),
    "constant": lambda: Case(lambda m, x: m.b(m.a(x) * torch.tensor([1.0, 0.5, 2.0, 1.5]))),
    "one output of several": lambda: Case(lambda m, x: {"y": m.b(m.a(x))}),
    "slope": lambda: Case(lambda m, x: m.b(m.slope(m.a(x))), slope=nn.PReLU()),
}


def parametrized(kind):
    module = Case(lambda m, x: m.b(m.a(x)))
    getattr(nn.utils.parametrizations, kind)(module.a)
    return module


CASES["weight_norm"] = lambda: parametrized("weight_norm")
CASES["spectral_norm"] = lambda: parametrized("spectral_norm")


def hooked_parameter():
    module = Case(lambda m, x: m.b(m.a(x)))
    module.a.weight.register_hook(lambda gradient: gradient * 5)
    return module


CASES["hook on a parameter"] = hooked_parameter


def tied():
    module = Case(lambda m, x: m.b(torch.tanh(m.c(torch.tanh(m.a(x))))), c=nn.Linear(4, 4))
    module.c.weight = module.a.weight
    return module


CASES["tied weights"] = tied


@pytest.fixture
def batch():
    torch.manual_seed(1)
    return torch.randn(6, 4) * 2, torch.randint(0, 3, (6,))


def made(name):
    torch.manual_seed(2)
    return CASES[name]()


def eager(module, x, y, steps=2, rate=0.1):
    """The module after so many steps of PyTorch's, in float64."""
    module, x = copy.deepcopy(module).double(), x.double()
    # A copy of a parameter has lost its hooks.
    if getattr(module, "hooks", False):
        module.a.weight.register_hook(lambda gradient: gradient * 5)
    optimizer = torch.optim.SGD(module.parameters(), lr=rate)
    for _ in range(steps):
        optimizer.zero_grad()
        found = module(x)
        F.cross_entropy(found["y"] if isinstance(found, dict) else found, y).backward()
        optimizer.step()
    return module


def distances(first, second):
    first, second = first.state_dict(), second.state_dict()
    assert first.keys() == second.keys()
    return {name: float((first[name].double() - second[name].double()).abs().max()) for name in first}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", CASES)
def test_a_module_trains_as_in_pytorch(batch, name, policy):
    x, y = batch
    module = made(name)
    module.hooks = name == "hook on a parameter"
    modes = [part.training for part in module.modules()]
    wanted, before = eager(module, x, y), copy.deepcopy(module.state_dict())
    with warnings.catch_warnings():
        warnings.simplefilter("error", mpc.ModelWarning)
        # A scale that no gradient of these overflows with: a skipped step would be another function.
        trainer = mpc.Trainer(module, x, optimizer="sgd", lr=0.1, policy=policy, threads=1,
                              loss_scale="dynamic,init=256" if policy == "mixed_float16" else "")
        for _ in range(2):
            trainer.step(x, y)
        found = trainer.sync()
    assert trainer.loss_scale["skipped_steps"] == 0
    assert [part.training for part in module.modules()] == modes
    apart = distances(found, wanted)
    assert max(apart.values()) < POLICIES[policy], apart
    moved = [key for key in before if not torch.equal(before[key], found.state_dict()[key])]
    still = [key for key in before if torch.equal(before[key].double(), wanted.state_dict()[key].double())]
    assert not set(moved) & set(still)


@pytest.mark.parametrize("loss, function", [
    ("mean_squared_error", F.mse_loss), ("mean_absolute_error", F.l1_loss), ("huber,delta=0.5",
                                                                            lambda p, t: F.huber_loss(p, t, delta=0.5)),
    ("sigmoid_cross_entropy", F.binary_cross_entropy_with_logits)])
def test_losses_of_dense_labels(batch, loss, function):
    x, _ = batch
    y = torch.rand(6, 3)
    # Both sigmoids are applied.
    module = Case(lambda m, v: torch.sigmoid(m.b(torch.tanh(m.a(v).detach() + m.a(v)))))
    wanted = copy.deepcopy(module).double()
    optimizer = torch.optim.SGD(wanted.parameters(), lr=0.1)
    trainer = mpc.Trainer(module, x, loss=loss, optimizer="sgd", lr=0.1, policy="float32", threads=1)
    for _ in range(2):
        trainer.step(x, y)
        optimizer.zero_grad()
        function(wanted(x.double()), y.double()).backward()
        optimizer.step()
    assert max(distances(trainer.sync(), wanted).values()) < 2e-5


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers(kind):
    class Last(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.head = kind(4, 5, batch_first=True), nn.Linear(5, 3)

        def forward(self, x):
            return self.head(self.layer(x)[0][:, -1])

    torch.manual_seed(3)
    module, x, y = Last(), torch.randn(6, 4, 4), torch.randint(0, 3, (6,))
    wanted = copy.deepcopy(module).double()
    optimizer = torch.optim.SGD(wanted.parameters(), lr=0.1)
    trainer = mpc.Trainer(module, x, optimizer="sgd", lr=0.1, policy="float32", threads=1)
    for _ in range(2):
        trainer.step(x, y)
        optimizer.zero_grad()
        F.cross_entropy(wanted(x.double()), y).backward()
        optimizer.step()
    assert max(distances(trainer.sync(), wanted).values()) < 2e-5


def test_the_padding_row_stays():
    module = nn.Sequential(nn.Embedding(5, 3, padding_idx=0), nn.Flatten(), nn.Linear(9, 2))
    x, y = torch.tensor([[1, 2, 0], [3, 0, 0]]), torch.tensor([0, 1])
    trainer = mpc.Trainer(module, x, optimizer="sgd", lr=0.5, policy="float32", threads=1)
    for _ in range(3):
        trainer.step(x, y)
    assert not trainer.sync()[0].weight[0].any()


def test_windows_and_halves_have_the_same_gradients(batch):
    x, y = batch
    module = made("straight through by a function")
    double = copy.deepcopy(module).double()
    F.cross_entropy(double(x.double()), y).backward()
    halves = mpc.Trainer(module, x, optimizer="sgd", lr=0.1, policy="float32", threads=1)
    halves.forward_backward(x, y)
    gradients = halves.gradients()
    for name, parameter in double.named_parameters():
        torch.testing.assert_close(gradients[name].double(), parameter.grad, rtol=1e-5, atol=1e-6)
    window = mpc.Trainer(module, x, optimizer="sgd", lr=0.1, policy="float32", threads=1, accumulate=2)
    whole = eager(module, x, y, steps=1)
    window.step(x, y)
    window.step(x, y)
    assert max(distances(window.sync(), whole).values()) < 2e-5


def test_several_outputs_need_a_choice(batch):
    x, y = batch
    module = Case(lambda m, v: (m.a(v), {"logits": m.b(m.a(v))}))
    with pytest.raises(mpc.InvalidArgument, match="2 tensors.*1.logits.*one that the loss reads"):
        mpc.Trainer(module, x)
    trainer = mpc.Trainer(module, x, loss="softmax_cross_entropy,output=1.logits", policy="float32", threads=1)
    trainer.step(x, y)
    assert trainer.evaluate(x, y)["batches"] == 1
    with pytest.raises(mpc.InvalidArgument, match="none is called 'scores'"):
        mpc.Trainer(module, x, loss="softmax_cross_entropy,output=scores")


def test_images_with_channels_last_in_batches_of_another_size():
    torch.manual_seed(3)
    module = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                           nn.Linear(8, 4)).to(memory_format=torch.channels_last)
    x, y = torch.randn(8, 3, 8, 8).to(memory_format=torch.channels_last), torch.randint(0, 4, (8,))
    wanted = copy.deepcopy(module).double()
    optimizer = torch.optim.SGD(wanted.parameters(), lr=0.1)
    # Not the example's size, and an evaluation with a smaller last batch.
    trainer = mpc.Trainer(module, x, optimizer="sgd", lr=0.1, policy="float32", threads=1, batch=4)
    for _ in range(2):
        trainer.step(x[:4], y[:4])
        optimizer.zero_grad()
        F.cross_entropy(wanted(x[:4].double()), y[:4]).backward()
        optimizer.step()
    found = trainer.evaluate(x[:7], y[:7])
    assert max(distances(trainer.sync(), wanted).values()) < 2e-5
    assert found["batches"] == 2
    assert abs(found["loss"] - F.cross_entropy(wanted.eval()(x[:7].double()), y[:7]).item()) < 1e-5


# ===----------------------------------------------------------------------=== #
# Random numbers
# ===----------------------------------------------------------------------=== #

DROPOUTS = {
    "module": (lambda m, x: m.drop(x), {"drop": nn.Dropout(0.25)}, (64, 8, 8)),
    "function": (lambda m, x: F.dropout(x, 0.25, m.training), {}, (64, 8, 8)),
    "Dropout1d": (lambda m, x: m.drop(x), {"drop": nn.Dropout1d(0.25)}, (64, 8, 8)),
    "Dropout2d": (lambda m, x: m.drop(x), {"drop": nn.Dropout2d(0.25)}, (64, 8, 4, 2)),
    "Dropout3d": (lambda m, x: m.drop(x), {"drop": nn.Dropout3d(0.25)}, (64, 8, 2, 2, 2)),
}


class Scaled(nn.Module):
    """A dropout of elements that are parameters times the input: their gradients show the dropped elements."""

    def __init__(self, shape, function, **parts):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(shape))
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x):
        return self.function(self, self.weight * x).flatten(1)


@pytest.mark.parametrize("name", DROPOUTS)
def test_dropouts_drop_what_pytorch_drops(name):
    function, parts, shape = DROPOUTS[name]
    module = Scaled(shape, function, **copy.deepcopy(parts))
    x, y = torch.ones(shape), torch.zeros(64, 64)
    trainer = mpc.Trainer(module, x, loss="mean_squared_error", optimizer="sgd", policy="float32", threads=1, lr=0.0)
    masks = []
    for _ in range(3):
        trainer.forward_backward(x, y)
        # The mean of squares, of elements of 0 or 4 / 3: forward and backward pass drop the same.
        gradient = trainer.gradients()["weight"] * y.numel() / 2
        assert set(gradient.unique().mul(9).round().int().tolist()) == {0, 16}
        assert abs(trainer.metrics()["loss"] - float(gradient.mean())) < 1e-5
        masks.append(gradient > 0)
        trainer.apply()
    assert not torch.equal(masks[0], masks[1]) and not torch.equal(masks[1], masks[2])
    kept = torch.stack(masks).float()
    groups = kept.reshape(3, 64, 8, 8)
    if name in ("module", "function"):
        assert groups.mean(-1).unique().numel() > 2
    else:
        # Whole channels.
        assert set(groups.mean(-1).unique().tolist()) == {0.0, 1.0}
    # Four deviations of a binomial share.
    count = kept.numel() if name in ("module", "function") else kept.numel() // 8
    assert abs(float(kept.mean()) - 0.75) < 4 * (0.75 * 0.25 / count) ** 0.5


def test_random_numbers_follow_the_seed_and_the_state(batch):
    x, y = batch
    module = Case(lambda m, v: m.b(F.dropout(m.a(v), 0.5) + 0.1 * torch.randn_like(v) + 0.1 * torch.rand(4)))
    first, second, other = (mpc.Trainer(module, x, optimizer="sgd", lr=0.1, policy="float32", threads=1, seed=seed)
                            for seed in (3, 3, 4))
    for trainer in (first, second, other):
        trainer.step(x, y)
    a, b, c = (trainer.state_dict() for trainer in (first, second, other))
    assert torch.equal(a["model"]["b.weight"], b["model"]["b.weight"])
    assert not torch.equal(a["model"]["b.weight"], c["model"]["b.weight"])
    other.load_state_dict(a)
    for trainer in (first, other):
        trainer.step(x, y)
    assert torch.equal(first.state_dict()["model"]["b.weight"], other.state_dict()["model"]["b.weight"])


def test_random_numbers_have_pytorchs_moments():
    class Noise(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(3))

        def forward(self, x):
            drawn = torch.stack([torch.randn_like(x), torch.rand_like(x), torch.bernoulli(torch.full_like(x, 0.3))], -1)
            return drawn * (1 + self.weight)

    x = torch.zeros(64, 1024)
    trainer = mpc.Trainer(Noise(), x, loss="mean_squared_error", optimizer="sgd", policy="float32", threads=1)
    trainer.forward_backward(x, torch.zeros(64, 1024, 3))
    # The gradient is twice the sum of squares over the number of elements.
    found = trainer.gradients()["weight"] * 3 / 2
    torch.testing.assert_close(found, torch.tensor([1.0, 1 / 3, 0.3]), rtol=0.02, atol=0)


def test_options_put_dropouts_into_the_gradient_too(batch):
    x, y = batch
    module = Case(lambda m, v: m.b(m.drop(m.a(v))), drop=nn.Dropout(0.5))
    trainer = mpc.Trainer(module, x, policy="float32", threads=1, dropout={"drop": 0.0})
    trainer.step(x, y)
    assert "rng" not in trainer.state_dict()["trainer"] and module.drop.p == 0.5
    trainer = mpc.Trainer(module, x, policy="float32", threads=1, dropout={"a": 0.25})
    trainer.step(x, y)
    assert "rng" in trainer.state_dict()["trainer"]
    with pytest.raises(mpc.InvalidArgument, match="'c' is not a submodule of Case; it has a, b, drop"):
        mpc.Trainer(module, x, dropout={"c": 0.5})


# ===----------------------------------------------------------------------=== #
# Diagnostics of functions that cannot be trained
# ===----------------------------------------------------------------------=== #


@pytest.mark.parametrize("function, text", [
    (lambda m, x: m.b(m.a(x)) if x.sum() > 0 else m.b(-m.a(x)), "decides in its forward pass by the values"),
    (lambda m, x: m.b(m.a(x)) * x.sum().item(), "decides in its forward pass by the values"),
    (lambda m, x: m.b(m.a(x)[torch.randperm(6)]), "needs aten.randperm.default in a step of training"),
    (lambda m, x: m.b(m.a(x)).argmax(1), "reads output 'output', which has elements of torch.int64"),
    (lambda m, x: m.b(m.a(x)).detach(), "has no parameter that needs a gradient"),
    (lambda m, x: m.c(x), "has no attribute 'c'")])
def test_what_cannot_be_traced_is_an_error(batch, function, text):
    with pytest.raises((mpc.InvalidArgument, AttributeError), match=text):
        mpc.Trainer(Case(function), batch[0], policy="float32")


def test_a_renormed_table_is_an_error(batch):
    module = Case(lambda m, x: m.b(m.table(x.long().abs()).mean(1)), table=nn.Embedding(9, 4, max_norm=1.0))
    with pytest.raises(mpc.InvalidArgument, match="parameter 'table.weight': is changed by the module's forward pass"):
        mpc.Trainer(module, batch[0])


def test_a_module_in_inference_mode_is_reported(batch):
    x, y = batch
    module = Case(lambda m, v: m.b(m.norm(m.drop(m.a(v)))), norm=nn.BatchNorm1d(4), drop=nn.Dropout(0.5)).eval()
    wanted = eager(module, x, y)
    with pytest.warns(mpc.ModelWarning, match=r"inference mode, in which it is trained: norm, drop work"):
        trainer = mpc.Trainer(module, x, optimizer="sgd", lr=0.1, policy="float32", threads=1)
    for _ in range(2):
        trainer.step(x, y)
    assert max(distances(trainer.sync(), wanted).values()) < 2e-5


def test_what_needs_no_gradient_is_not_trained(batch):
    module = made("detach")
    module.a.requires_grad_(False)
    trainer = mpc.Trainer(module, batch[0], policy="float32")
    assert trainer.parameters == ["b.weight", "b.bias"]
    with pytest.raises(mpc.InvalidArgument, match="parameter 'a.weight': has no gradient"):
        mpc.Trainer(module, batch[0], policy="float32", trainable=["a.weight"])
    module.requires_grad_(False)
    with pytest.raises(mpc.InvalidArgument, match="has no parameter that needs a gradient"):
        mpc.Trainer(module, batch[0], policy="float32")
