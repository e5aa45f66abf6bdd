# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""mpc.Trainer of a torch module, against PyTorch in eager mode; skipped without it."""

import copy

import mpc
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional as F  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class Net(torch.nn.Module):
    """Convolution, batch and layer norm, frozen parameters and buffers."""

    def __init__(self, dropout=0.0):
        super().__init__()
        # No bias before the norm: its gradient is noise, which Adam turns into full-length steps.
        self.conv = torch.nn.Conv2d(1, 4, 3, bias=False)
        self.bn = torch.nn.BatchNorm2d(4, momentum=0.2)
        self.drop = torch.nn.Dropout(dropout)
        self.fc = torch.nn.Linear(144, 32)
        self.ln = torch.nn.LayerNorm(32)
        self.scale = torch.nn.Parameter(torch.tensor(1.25))
        self.frozen = torch.nn.Parameter(torch.full((32,), 1.5), requires_grad=False)
        self.unused = torch.nn.Linear(3, 3)
        self.head = torch.nn.Linear(32, 5)
        self.register_buffer("table", torch.linspace(0.5, 1, 32))

    def forward(self, x):
        h = torch.relu(self.bn(self.conv(x))).flatten(1)
        return self.head(self.ln(self.drop(F.gelu(self.fc(h)))) * self.frozen * self.table * self.scale)


@pytest.fixture
def batches():
    torch.manual_seed(0)
    return [(torch.randn(16, 1, 8, 8), torch.randint(0, 5, (16,))) for _ in range(8)]


def eager_step(module, optimizer, x, y):
    optimizer.zero_grad()
    F.cross_entropy(module(x), y).backward()
    optimizer.step()


def distance(first, second):
    """Largest difference of two state dictionaries of modules."""
    assert first.keys() == second.keys()
    return max(float((first[name].double() - second[name].double()).abs().max()) for name in first)


OPTIMIZERS = [
    ("adam", torch.optim.Adam, {}),
    ("adamw,beta2=0.99", torch.optim.AdamW, {"betas": (0.9, 0.99)}),
    ("adam,amsgrad=1,epsilon=1e-6", torch.optim.Adam, {"amsgrad": True, "eps": 1e-6}),
    ("sgd", torch.optim.SGD, {}),
    ("sgd,momentum=0.9,nesterov=1", torch.optim.SGD, {"momentum": 0.9, "nesterov": True}),
    ("rmsprop,momentum=0.5,centered=1", torch.optim.RMSprop, {"momentum": 0.5, "centered": True}),
    ("adagrad,learning_rate_decay=0.01", torch.optim.Adagrad, {"lr_decay": 0.01}),
]


@pytest.mark.parametrize("name, kind, options", OPTIMIZERS)
def test_optimizers_state_is_torchs_in_both_directions(batches, name, kind, options):
    ours, theirs = Net(), None
    theirs = copy.deepcopy(ours)
    trainer = mpc.Trainer(ours, batches[0][0], policy="float32", optimizer=name, lr=0.01)
    optimizer = kind([p for p in theirs.parameters() if p.requires_grad], lr=0.01, **options)
    for x, y in batches[:4]:
        trainer.step(x, y)
        eager_step(theirs, optimizer, x, y)
    assert trainer.sync() is ours
    assert distance(ours.state_dict(), theirs.state_dict()) < 1e-4

    found, wanted = trainer.state_dict()["optimizer"], optimizer.state_dict()
    # Unused parameters are skipped here; torch counts them without a state.
    used = [p for p in theirs.named_parameters() if p[1].requires_grad]
    numbers = [i for i, (n, _) in enumerate(used) if not n.startswith("unused")]
    assert [used[i][0] for i in numbers] == [n for n in trainer.parameters]
    for i, number in enumerate(numbers):
        mine, yours = found["state"].get(i, {}), wanted["state"].get(number, {})
        assert mine.keys() == yours.keys() and bool(yours) == (name != "sgd")
        for key, value in yours.items():
            torch.testing.assert_close(mine[key], value, rtol=1e-3, atol=1e-5)
    group, other = found["param_groups"][0], wanted["param_groups"][0]
    assert {**group, "params": None} == {**other, "params": None}

    # Each resumes from the state that the other saved.
    trained = [p for n, p in ours.named_parameters() if n in trainer.parameters]
    goes_on = kind(trained, lr=0.01, **options)
    goes_on.load_state_dict(found)
    fresh = mpc.Trainer(Net(), batches[0][0], policy="float32", optimizer=name, lr=0.01)
    state = {"state": {i: wanted["state"][number] for i, number in enumerate(numbers) if number in wanted["state"]},
             "param_groups": [{**other, "params": list(range(len(numbers)))}]}
    fresh.load_state_dict({"model": theirs.state_dict(), "optimizer": state})
    assert fresh.updates == {"sgd": 0, "sgd,momentum=0.9,nesterov=1": 1}.get(name, 4)
    ours.train()
    for x, y in batches[4:]:
        eager_step(ours, goes_on, x, y)
        fresh.step(x, y)
        eager_step(theirs, optimizer, x, y)
    assert distance(ours.state_dict(), theirs.state_dict()) < 3e-4
    weights = {name: value for name, value in fresh.state_dict()["model"].items()}
    assert max(float((theirs.state_dict()[n] - v).abs().max()) for n, v in weights.items()) < 3e-4


def test_what_is_frozen_or_unused_stays(batches):
    module = Net()
    before = copy.deepcopy(module.state_dict())
    trainer = mpc.Trainer(module, batches[0][0], policy="float32", lr=0.1)
    assert "scale" in trainer.parameters
    assert not {"frozen", "table", "unused.weight"} & set(trainer.state_dict()["model"])
    for batch in batches:
        trainer.step(batch)
    trainer.sync()
    after = module.state_dict()
    for name in ("frozen", "table", "unused.weight", "unused.bias"):
        assert torch.equal(before[name], after[name])
    assert not torch.equal(before["scale"], after["scale"])
    assert int(after["bn.num_batches_tracked"]) == 8 and module.training


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_it_learns_and_evaluates_as_eager_mode_would(batches, policy):
    module = Net()
    x, y = batches[0]
    trainer = mpc.Trainer(module, x, policy=policy, lr=0.01)
    before = trainer.evaluate(x, y)["loss"]
    for _ in range(30):
        trainer.step(x, y)
    metrics = trainer.metrics()
    assert metrics["batches"] == 30 and metrics["loss"] < before
    found = trainer.evaluate(x, y)
    module = trainer.sync().eval()
    assert found["loss"] < before / 4 and found["accuracy"] == 1
    assert abs(found["loss"] - F.cross_entropy(module(x), y).item()) < (1e-5 if policy == "float32" else 1e-2)


def test_a_module_keeps_its_dropouts(batches):
    x, y = batches[0]
    module = Net(dropout=0.5)
    training = module.training
    trainers = [mpc.Trainer(module, x, policy="float32", lr=0.0, seed=seed) for seed in (0, 0, 1)]
    assert module.training is training and isinstance(module.drop, torch.nn.Dropout)
    losses = []
    for trainer in trainers:
        for _ in range(3):
            trainer.step(x, y)
            losses.append(trainer.metrics()["loss"])
    # A mask of each step's own, which the seed decides.
    assert len({round(loss, 6) for loss in losses[:3]}) == 3
    assert losses[:3] == losses[3:6] and losses[3:6] != losses[6:]
    assert trainers[0].evaluate(x, y) == trainers[2].evaluate(x, y)


def test_the_scaler_has_torchs_names(batches):
    x, y = batches[0]
    trainer = mpc.Trainer(Net(), x, policy="mixed_float16", loss_scale="dynamic,init=1024,interval=3", lr=0.0)
    for _ in range(4):
        trainer.step(x, y)
    state = trainer.state_dict()["scaler"]
    assert state == {"scale": 2048.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 3,
                     "_growth_tracker": 1}
    scaler = torch.amp.GradScaler("cpu", init_scale=512.0, growth_interval=3)
    assert scaler.state_dict().keys() == state.keys()
    scaler.load_state_dict(state)
    trainer.load_state_dict({"scaler": {**state, "scale": 64.0, "_growth_tracker": 2}})
    trainer.step(x, y)
    assert trainer.loss_scale["scale"] == 128.0
    with pytest.raises(mpc.InvalidArgument, match="growth_interval"):
        trainer.load_state_dict({"scaler": {**state, "growth_interval": 5}})


def test_all_of_a_state_goes_on_to_the_bit(batches):
    first, second = (mpc.Trainer(Net(dropout=0.3), batches[0][0], policy="mixed_float16", lr=0.01) for _ in range(2))
    for batch in batches[:3]:
        first.step(batch)
    second.load_state_dict(first.state_dict())
    for batch in batches[3:]:
        first.step(batch)
        second.step(batch)
    a, b = first.state_dict(), second.state_dict()
    assert all(torch.equal(a["model"][name], b["model"][name]) for name in a["model"])
    assert a["scaler"] == b["scaler"] and all(torch.equal(a["trainer"][n], b["trainer"][n]) for n in a["trainer"])


def test_tied_weights_are_one(batches):
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.emb = torch.nn.Embedding(11, 16)
            self.ln = torch.nn.LayerNorm(16)
            self.head = torch.nn.Linear(16, 11, bias=False)
            self.head.weight = self.emb.weight

        def forward(self, x):
            h = self.emb(x)
            q = h.view(*h.shape[:2], 2, 8).transpose(1, 2)
            h = h + F.scaled_dot_product_attention(q, q, q, is_causal=True).transpose(1, 2).reshape(h.shape)
            return self.head(self.ln(h))

    torch.manual_seed(1)
    ours = Tied()
    theirs = copy.deepcopy(ours)
    x = torch.randint(0, 11, (4, 8))
    trainer = mpc.Trainer(ours, x, policy="float32", lr=0.01)
    assert trainer.parameters == ["emb.weight", "ln.weight", "ln.bias"]
    optimizer = torch.optim.Adam(theirs.parameters(), lr=0.01)
    for _ in range(4):
        trainer.step(x, x)
        optimizer.zero_grad()
        F.cross_entropy(theirs(x).flatten(0, 1), x.flatten()).backward()
        optimizer.step()
    assert distance(trainer.sync().state_dict(), theirs.state_dict()) < 1e-4


def test_what_is_exported_is_the_trained_module(batches, tmp_path):
    x, y = batches[0]
    module = Net(dropout=0.5)
    trainer = mpc.Trainer(module, x, policy="float32", lr=0.01)
    for batch in batches:
        trainer.step(batch)
    trainer.export(tmp_path / "net.onnx")
    np.testing.assert_allclose(mpc.compile(tmp_path / "net.onnx", policy="float32")(x.numpy()),
                               module.eval()(x).detach(), atol=1e-5)


def test_another_hyperparameter_is_refused_and_nothing_changes(batches):
    trainer = mpc.Trainer(Net(), batches[0][0], policy="float32")
    state = trainer.state_dict()
    trainer.step(batches[0])
    after = trainer.state_dict()
    state["optimizer"]["param_groups"][0]["eps"] = 1e-3
    with pytest.raises(mpc.InvalidArgument, match="has eps 0.001 in its state, but 1e-08 in the compiled step"):
        trainer.load_state_dict(state)
    del state["model"]["fc.weight"]
    with pytest.raises(mpc.InvalidArgument, match="'fc.weight'.*is missing"):
        trainer.load_state_dict({"model": state["model"]})
    assert distance(trainer.state_dict()["model"], after["model"]) == 0
