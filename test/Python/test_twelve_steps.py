# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a PyTorch user does with a module, in order: compile, other shapes, keywords, a dictionary, check,
override, train, save, resume, export, serve, and load without the compiler; skipped without torch."""

import subprocess
import sys

import mpc
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.export import Dim  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning")]


class Tagger(torch.nn.Module):
    """A classifier of sequences with a mask, which returns a dictionary."""

    def __init__(self, size=16, words=32, classes=3):
        super().__init__()
        self.words, self.query = torch.nn.Embedding(words, size), torch.nn.Linear(size, 2 * size)
        self.norm, self.head = torch.nn.LayerNorm(size), torch.nn.Linear(size, classes)

    def forward(self, input_ids, attention_mask=None):
        h = self.words(input_ids)
        query, key = self.query(h).chunk(2, -1)
        mask = None if attention_mask is None else attention_mask[:, None, :].bool()
        h = self.norm(h + F.scaled_dot_product_attention(query, key, h, attn_mask=mask))
        return {"logits": self.head(h.mean(1)), "hidden": h}


class Images(torch.nn.Module):
    """A small network of images with batch norm."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(1, 8, 3, padding=1), torch.nn.BatchNorm2d(8)
        self.fc = torch.nn.Linear(8 * 16, 4)

    def forward(self, image):
        return self.fc(F.max_pool2d(torch.relu(self.norm(self.conv(image))), 2).flatten(1))


def tokens(batch, length):
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[-1, length // 2:] = 0
    return torch.randint(0, 32, (batch, length)), mask


@pytest.fixture
def tagger():
    torch.manual_seed(0)
    return Tagger().eval()


def test_compile_and_other_shapes(tagger):
    # 1 to 5: compile by keyword, another batch, another length, by position, and the module's dictionary.
    ids, mask = tokens(4, 12)
    fast = mpc.compile(tagger, input_ids=ids, attention_mask=mask, policy="float32",
                       dynamic_shapes={"input_ids": {1: Dim("length")}, "attention_mask": {1: Dim("length")}})
    assert [(one.name, one.dtype, one.shape, one.symbols) for one in fast.inputs] == [
        ("input_ids", "i64", [-1, -1], ["batch", "length"]), ("attention_mask", "i64", [-1, -1], ["batch", "length"])]
    assert fast.outputs == ["logits", "hidden"]
    for batch, length in ((4, 12), (7, 12), (4, 20), (1, 5), (1, 1)):
        ids, mask = tokens(batch, length)
        mask[:, 0] = 1
        found, wanted = fast(input_ids=ids, attention_mask=mask), tagger(ids, mask)
        assert list(found) == ["logits", "hidden"]
        for name, value in wanted.items():
            torch.testing.assert_close(found[name], value.detach(), atol=1e-5, rtol=1e-5)
        assert torch.equal(fast(ids, attention_mask=mask)["logits"], fast(ids, mask)["logits"])


def test_a_batch_of_one_opens_the_batch_too(tagger):
    ids, _ = tokens(1, 6)
    fast = mpc.compile(tagger, ids, policy="float32")
    for batch in (1, 3):
        ids, _ = tokens(batch, 6)
        torch.testing.assert_close(fast(ids)["logits"], tagger(ids)["logits"].detach(), atol=1e-5, rtol=1e-5)
    with pytest.raises(mpc.InvalidArgument, match="input 'input_ids' has extent 6 in dimension 1, but 8 is given: "
                       "torch.export fixed it; dynamic_shapes={'input_ids': {1: "):
        fast(tokens(3, 8)[0])


class Scaled(torch.nn.Module):
    def forward(self, x, scale=1.0, flag=False, **more):
        y = x * scale + sum(more.values())
        return -y if flag else y


def test_arguments_by_position_and_by_name():
    x = torch.ones(3, 4)
    scaled = mpc.compile(Scaled(), x, 2.0, policy="float32")
    for found in (scaled(x, 2.0), scaled(x, scale=2.0), scaled(x=x, scale=2.0), scaled(x)):
        assert torch.equal(torch.as_tensor(found), 2 * x)
    with pytest.raises(mpc.InvalidArgument, match="was compiled for scale=2.0, not 3.0; compile it again"):
        scaled(x, scale=3.0)
    with pytest.raises(mpc.InvalidArgument, match="3 and 0 of another structure are given; compile it again"):
        scaled(x, flag=True)
    more = mpc.compile(Scaled(), x, b=x, a=x, policy="float32")
    assert torch.equal(torch.as_tensor(more(x, a=3 * x, b=x)), 5 * x)
    with pytest.raises(mpc.InvalidArgument, match="batch: is a Tensor, but an option of mpc.compile"):
        mpc.compile(Scaled(), x, batch=x)


class Summed(torch.nn.Module):
    def forward(self, x, y=None, z=None):
        return 2 * x + (3 * y if y is not None else 0) - (z if z is not None else 0)


def test_arguments_without_one_of_the_example():
    x = torch.ones(3, 4)
    summed = mpc.compile(Summed(), x, z=x, policy="float32")
    for found in (summed(x, z=3 * x), summed(x, None, 3 * x), summed(x=x, z=3 * x)):
        assert torch.equal(torch.as_tensor(found), -x)
    with pytest.raises(mpc.InvalidArgument, match="of another structure are given; compile it again"):
        summed(x, 3 * x)


def test_check_and_override(tagger):
    # 6 and 7.
    ids, mask = tokens(4, 12)
    fast = mpc.compile(tagger, ids, mask, policy="mixed_bfloat16")
    assert fast.check(ids, mask) and fast.check(tokens(2, 12)[0], torch.ones(2, 12, dtype=torch.int64))
    assert fast.layers["query"] == "bf16"
    kept = mpc.compile(tagger, ids, mask, policy="mixed_bfloat16", overrides={"layer:query": "float32"})
    assert kept.layers["query"] == "f32" and kept.layers["head"] == "bf16"
    assert {op["compute"] for op in kept.explain().ops if op["layer"] == "query"} == {"f32"}


@pytest.fixture
def data():
    torch.manual_seed(1)
    x = torch.randn(52, 1, 8, 8)
    return x, (x.mean((1, 2, 3)) * 8).long().abs() % 4


def eager_epochs(module, batches, epochs):
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9)
    for _ in range(epochs):
        for x, y in batches:
            optimizer.zero_grad()
            F.cross_entropy(module(x), y).backward()
            optimizer.step()
    return module


@pytest.mark.parametrize("loss", ["softmax_cross_entropy", F.cross_entropy])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_train_with_a_ragged_last_batch(data, loss, accumulate):
    # 8: 52 examples in batches of 16, of which the last has 4.
    import copy
    batches = DataLoader(TensorDataset(*data), batch_size=16)
    module = Images().train()
    eager = copy.deepcopy(module)
    example = data[0][:16] if isinstance(loss, str) else (data[0][:16], data[1][:16])
    trainer = mpc.Trainer(module, *(example if isinstance(example, tuple) else [example]), loss=loss, policy="float32",
                          optimizer="sgd,momentum=0.9", lr=0.05, accumulate=accumulate)
    history = trainer.fit(batches, epochs=2, progress=False)
    assert sum(one["batches"] for one in history) == 8 and trainer.updates == 8 // accumulate
    found = trainer.evaluate(*data)
    if accumulate > 1:
        return
    wanted = eager_epochs(eager, batches, 2)
    trainer.sync()
    for name, value in wanted.state_dict().items():
        torch.testing.assert_close(module.state_dict()[name], value, atol=2e-4, rtol=2e-4)
    assert abs(found["loss"] - F.cross_entropy(wanted.eval()(data[0]), data[1]).item()) < 1e-3


def test_save_and_resume_export_and_serve(data, tmp_path):
    # 9: saved and resumed to the bit.
    batches = DataLoader(TensorDataset(*data), batch_size=16)
    trainers = []
    for _ in range(2):
        torch.manual_seed(2)
        trainers.append(mpc.Trainer(Images(), data[0][:16], policy="mixed_float16", lr=0.01))
    first, second = trainers
    first.fit(batches, progress=False)
    torch.save(first.state_dict(), tmp_path / "state.pt")
    second.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=False))
    for trainer in trainers:
        trainer.fit(batches, progress=False)
    states = [trainer.state_dict()["model"] for trainer in trainers]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])

    # 10 and 11: exported with a free batch and served at batch 1.
    module = first.sync().eval()
    first.export(tmp_path / "trained.onnx")
    served = mpc.compile(tmp_path / "trained.onnx", policy="float32")
    assert served.inputs[0].name == "image" and served.inputs[0].symbols[0] == "batch"
    x = data[0]
    for batch in (1, 5):
        np.testing.assert_allclose(served(x[:batch].numpy()), module(x[:batch]).detach(), atol=1e-4)

    # 12: loaded without the compiler, for the shapes that were compiled and for those asked for.
    served.save(tmp_path / "last.mpcx")
    mpc.compile(module, x[:4], policy="float32").save(tmp_path / "both.mpcx", dims=[{"batch": 1}, {"batch": 8}])
    np.save(tmp_path / "x.npy", x.numpy())
    script = ("import sys, mpc, numpy as np\nfolder = sys.argv[1]\nx = np.load(folder + '/x.npy')\n"
              "both = mpc.load(folder + '/both.mpcx')\n"
              "np.savez(folder + '/y.npz', last=mpc.load(folder + '/last.mpcx')(x[:5]), one=both(x[:1]), eight=both(x[:8]))\n"
              "assert 'torch' not in sys.modules\n")
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True)
    loaded = np.load(tmp_path / "y.npz")
    for name, batch in (("last", 5), ("one", 1), ("eight", 8)):
        np.testing.assert_allclose(loaded[name], module(x[:batch]).detach(), atol=1e-4)
