# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mpc train` on models that PyTorch's exporters wrote, against PyTorch's own training.

Exporters transform a module (transposed, reordered, sliced tensors). The test undoes this by exporting
the module again: once after PyTorch's training for the expected numbers, and once with other numbers in
its parameters or buffers to map them to tensors of the file.
"""

import copy
import io
import json
import math
import shutil
import subprocess

import numpy as np
import pytest

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence  # noqa: E402

pytestmark = [pytest.mark.filterwarnings("ignore"),
              pytest.mark.skipif(not shutil.which("mpc"), reason="needs the mpc command")]
STEPS, BATCH, RATE = 20, 8, 0.05


class Linear(nn.Module):
    """One output: a bias of one element."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 1)

    def forward(self, x):
        return self.fc(x)


class Rectified(nn.Module):
    """Slopes of one and of several elements, a scale of logits."""

    def __init__(self):
        super().__init__()
        self.first, self.act = nn.Linear(6, 5), nn.PReLU()
        self.second, self.channels = nn.Linear(5, 4), nn.PReLU(4)
        self.head, self.logit_scale = nn.Linear(4, 3), nn.Parameter(torch.tensor(1.5))

    def forward(self, x):
        return self.head(self.channels(self.second(self.act(self.first(x))))) * self.logit_scale


class Text(nn.Module):
    """A causal language model: learned and fixed positions, a mask of finite numbers."""

    def __init__(self, size=8, length=6, vocabulary=20):
        super().__init__()
        self.emb, self.pos = nn.Embedding(vocabulary, size), nn.Embedding(length, size)
        angles = torch.arange(length)[:, None] / 100 ** (torch.arange(0, size, 2) / size)
        self.register_buffer("table", torch.stack([angles.sin(), angles.cos()], -1).reshape(1, length, size))
        self.register_buffer("causal", torch.triu(torch.full((length, length), -1e4), 1))
        self.register_buffer("ids", torch.arange(length)[None], persistent=False)
        self.q, self.k, self.v = (nn.Linear(size, size, bias=False) for _ in range(3))
        self.ln, self.head = nn.LayerNorm(size), nn.Linear(size, vocabulary)

    def forward(self, x):
        h = self.emb(x) + self.pos(self.ids) + self.table
        scores = self.q(h) @ self.k(h).transpose(-1, -2) / math.sqrt(h.shape[-1]) + self.causal
        return self.head(self.ln(h + torch.softmax(scores, -1) @ self.v(h)))


class Images(nn.Module):
    """A network that normalises its input, with a fixed blur."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.48, 0.45, 0.4]).reshape(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor([0.22, 0.23, 0.22]).reshape(1, 3, 1, 1))
        taps = torch.tensor([1.0, 2.0, 1.0])
        self.register_buffer("taps", (taps[:, None] * taps / 16).expand(4, 1, 3, 3).clone())
        self.conv, self.fc = nn.Conv2d(3, 4, 3), nn.Linear(4, 3)
        self.scale = nn.Parameter(torch.full((4, 1, 1), 0.5))

    def forward(self, x):
        h = self.conv((x - self.mean) / self.std)
        h = h + F.conv2d(torch.relu(h), self.taps, padding=1, groups=4) * self.scale
        return self.fc(F.avg_pool2d(torch.relu(h), 6).flatten(1))


class Sequences(nn.Module):
    """A recurrent network; all sequences have their full length."""

    def __init__(self):
        super().__init__()
        self.lstm, self.fc = nn.LSTM(4, 5, batch_first=True), nn.Linear(5, 3)

    def forward(self, x):
        return self.fc(self.lstm(x)[0][:, -1])


class Padded(nn.Module):
    """A recurrent network on padded sequences."""

    def __init__(self):
        super().__init__()
        self.lstm, self.fc = nn.LSTM(4, 5, batch_first=True), nn.Linear(5, 3)
        self.register_buffer("lengths", torch.tensor([7, 7, 6, 5, 5, 3, 2, 1]))

    def forward(self, x):
        packed, (last, _) = self.lstm(pack_padded_sequence(x, self.lengths, batch_first=True))
        return self.fc(pad_packed_sequence(packed, batch_first=True)[0].mean(1) + last[0])


class Boxes(nn.Module):
    """The head of a detector: boxes from distances to a grid of points, and classes."""

    def __init__(self):
        super().__init__()
        self.stem, self.box, self.cls = nn.Conv2d(2, 6, 3, padding=1), nn.Conv2d(6, 4, 1), nn.Conv2d(6, 3, 1)
        y, x = torch.meshgrid(torch.arange(6) + 0.5, torch.arange(6) + 0.5, indexing="ij")
        self.register_buffer("points", torch.stack([x, y], -1).reshape(1, 36, 2))
        self.register_buffer("strides", torch.full((1, 36, 1), 0.25))
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x):
        h = F.relu(self.stem(x))
        distances = F.softplus(self.box(h).flatten(2).transpose(1, 2) * self.scale)
        near, far = distances.split(2, -1)
        boxes = torch.cat([self.points - near, self.points + far], -1) * self.strides
        return torch.cat([boxes, self.cls(h).flatten(2).transpose(1, 2)], -1)


class Sounds(nn.Module):
    """Fixed transforms and statistics of a spectrum, a norm without weights, learned numbers."""

    def __init__(self):
        super().__init__()
        turns = torch.arange(16)[:, None] * torch.arange(1, 9) / 16
        self.register_buffer("real", torch.cos(2 * math.pi * turns))
        self.register_buffer("imag", torch.sin(2 * math.pi * turns))
        self.register_buffer("bands", torch.eye(4).repeat_interleave(2, 0))
        self.register_buffer("center", torch.tensor([2.0, 2.25, 1.5, 2.5]))
        self.register_buffer("spread", torch.tensor([0.5, 0.75, 0.8, 0.6]))
        self.fc, self.norm, self.head = nn.Linear(4, 5, bias=False), nn.InstanceNorm1d(5), nn.Linear(5, 3)
        self.p, self.reconstruction = nn.Parameter(torch.tensor(3.0)), nn.Parameter(torch.tensor(1.5))
        self.clip_alpha = nn.Parameter(torch.tensor([1.0]))

    def forward(self, x):
        power = (x @ self.real) ** 2 + (x @ self.imag) ** 2
        h = self.fc(((power @ self.bands).clamp(min=1e-3).log() - self.center) / self.spread)
        h = self.norm(h.transpose(1, 2)).transpose(1, 2)
        h = torch.minimum(F.softplus(h), self.clip_alpha)
        return self.head(h.clamp(min=1e-3).pow(self.p).mean(1)) * self.reconstruction


class Tied(nn.Module):
    """A language model whose head is the transposed embedding, with a quantized table."""

    def __init__(self):
        super().__init__()
        self.emb, self.fc = nn.Embedding(20, 8), nn.Linear(8, 8)
        self.register_buffer("codes", torch.randint(-100, 100, (20, 8), dtype=torch.int8))
        self.register_buffer("steps", torch.rand(8) / 100)

    def forward(self, x):
        return torch.tanh(self.fc(self.emb(x) + self.codes[x].float() * self.steps)) @ self.emb.weight.T


class Policy(nn.Module):
    """Learned positions, states and tokens without layers; fixed filters, bins and ranges with names of weights."""

    def __init__(self):
        super().__init__()
        self.pos_embedding, self.mask_embedding = nn.Parameter(floats(1, 7, 4) / 4), nn.Parameter(floats(4) / 4)
        # One state for each sequence of a batch: the optimizer of the exporter copies what is expanded.
        self.lstm, self.lstm_h0 = nn.LSTM(4, 4, batch_first=True), nn.Parameter(torch.zeros(1, BATCH, 4))
        self.lstm_c0 = nn.Parameter(floats(1, BATCH, 4) / 4)
        self.blur, self.bins = nn.Module(), nn.Module()
        self.blur.register_buffer("kernel", torch.tensor([0.25, 0.5, 0.25]).expand(4, 1, 3).clone())
        self.bins.register_buffer("weight", torch.arange(6.0)[None, :, None] / 4)
        self.fc, self.out = nn.Linear(4, 6), nn.Linear(7, 2)
        self.register_buffer("action_scale", torch.tensor([1.5, 1.25]))
        self.register_buffer("action_bias", torch.tensor([0.25, 0.0]))

    def forward(self, x):
        h = torch.where(x[..., :1] > 0.5, self.mask_embedding, x + self.pos_embedding)
        h = self.lstm(h, (self.lstm_h0, self.lstm_c0))[0].transpose(1, 2)
        h = F.conv1d(h, self.blur.kernel, padding=1, groups=4)
        h = F.conv1d(self.fc(h.transpose(1, 2)).softmax(-1).transpose(1, 2), self.bins.weight)
        return torch.tanh(self.out(h[:, 0])) * self.action_scale + self.action_bias


def floats(*shape):
    return torch.randn(shape)


# Module, its examples and labels, mpc's loss and PyTorch's.
CASES = {
    "linear": (Linear, lambda n: (floats(n, 6), floats(n, 1) + 3), "mean_squared_error", F.mse_loss),
    "prelu": (Rectified, lambda n: (floats(n, 6), torch.randint(0, 3, (n,))), "softmax_cross_entropy", F.cross_entropy),
    "text": (Text, lambda n: (torch.randint(0, 20, (n, 6)), torch.randint(0, 20, (n, 6))), "softmax_cross_entropy",
             lambda y, t: F.cross_entropy(y.flatten(0, 1), t.flatten())),
    "images": (Images, lambda n: (torch.rand(n, 3, 8, 8), torch.randint(0, 3, (n,))), "softmax_cross_entropy",
               F.cross_entropy),
    "lstm": (Sequences, lambda n: (floats(n, 7, 4), torch.randint(0, 3, (n,))), "softmax_cross_entropy",
             F.cross_entropy),
    "padded": (Padded, lambda n: (floats(n, 7, 4), torch.randint(0, 3, (n,))), "softmax_cross_entropy",
               F.cross_entropy),
    "sounds": (Sounds, lambda n: (floats(n, 7, 16), torch.randint(0, 3, (n,))), "softmax_cross_entropy",
               F.cross_entropy),
    "tied": (Tied, lambda n: (torch.randint(0, 20, (n, 6)), torch.randint(0, 20, (n, 6))), "softmax_cross_entropy",
             lambda y, t: F.cross_entropy(y.flatten(0, 1), t.flatten())),
    "policy": (Policy, lambda n: (floats(n, 7, 4), floats(n, 2)), "mean_squared_error", F.mse_loss),
    "boxes": (Boxes, lambda n: (floats(n, 2, 6, 6), floats(n, 36, 7)), "huber", F.huber_loss),
}
EXPORTERS = {
    "script": dict(dynamo=False),
    "script-unfolded": dict(dynamo=False, do_constant_folding=False),
    "dynamo": dict(dynamo=True),
    "dynamo-unoptimized": dict(dynamo=True, optimize=False),
}


def export(module, x, kind):
    buffer = io.BytesIO()
    options = dict(EXPORTERS[kind], input_names=["x"], output_names=["y"])
    if options["dynamo"]:
        torch.onnx.export(module, (x,), **options, verbose=False).save(buffer)
    else:
        torch.onnx.export(module, (x,), buffer, **options)
    return buffer.getvalue()


def initializers(data):
    graph = onnx.load_from_string(data).graph
    return {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}


def changed(module, x, kind, before, tensors):
    """The initializers that other numbers in `tensors` of the module change."""
    kept = copy.deepcopy(module.state_dict()), {name: b.clone() for name, b in module.named_buffers()}
    with torch.no_grad():
        for tensor in tensors:
            if tensor.is_floating_point():
                tensor.mul_(1.5).add_(0.125)
    after = initializers(export(module, x, kind))
    module.load_state_dict(kept[0])
    assert after.keys() == before.keys()
    return {name for name in before if not np.array_equal(before[name], after[name])}


def train_by_torch(module, x, y, loss):
    optimizer = torch.optim.SGD(module.parameters(), lr=RATE, momentum=0.5)
    for step in range(STEPS):
        rows = slice(step % 4 * BATCH, (step % 4 + 1) * BATCH)
        optimizer.zero_grad()
        loss(module(x[rows]), y[rows]).backward()
        optimizer.step()
    return module


def train_by_mpc(data, x, y, loss, folder, *flags):
    """The last document of a run, its output and the exported model."""
    (folder / "model.onnx").write_bytes(data)
    np.savez(folder / "train.npz", x=x.numpy(), label=y.numpy())
    done = subprocess.run(
        ["mpc", "train", "model.onnx", "--data", ".", "--normalize", "none", "--in-order", "--batch", str(BATCH), "--epochs",
         str(STEPS // 4), "--loss", loss, "--optimizer", "sgd,momentum=0.5", "--lr", str(RATE), "--threads", "1",
         "--json", "--export", "trained.onnx", *flags], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stderr, (folder / "trained.onnx").read_bytes()


# Dynamo exports no packed sequences.
@pytest.mark.parametrize("case, kind", [(case, kind) for case in CASES for kind in EXPORTERS
                                        if case != "padded" or kind.startswith("script")])
def test_trains_as_torch(case, kind, tmp_path):
    make, draw, mpc_loss, loss = CASES[case]
    torch.manual_seed(0)
    module = make()
    x, y = draw(4 * BATCH)
    data = export(module, x[:BATCH], kind)
    before = initializers(data)
    parameters = changed(module, x[:BATCH], kind, before, list(module.parameters()))
    buffers = changed(module, x[:BATCH], kind, before, list(module.buffers()))
    document, said, trained = train_by_mpc(data, x, y, mpc_loss, tmp_path)
    assert {one["name"] for one in document["trained"]} == parameters, document["frozen"]
    assert {one["name"] for one in document["frozen"]} >= buffers
    assert not document["statistics"]
    assert all(one["reason"] for one in document["trained"] + document["frozen"])
    assert "note: trained: " in said

    # Rounding: the float32 error of PyTorch itself, against float64.
    exact = train_by_torch(copy.deepcopy(module).double(), x.double() if x.is_floating_point() else x,
                           y.double() if y.is_floating_point() else y, loss).float()
    single = train_by_torch(copy.deepcopy(module), x, y, loss)
    wanted = initializers(export(exact, x[:BATCH], kind))
    rounded = initializers(export(single, x[:BATCH], kind))
    trained = initializers(trained)
    for name, start in before.items():
        if name not in parameters:
            np.testing.assert_array_equal(trained[name], start, err_msg=name)
            continue
        scale = np.abs(wanted[name]).max()
        limit = 4 * np.abs(rounded[name] - wanted[name]).max() + STEPS * 2.0**-23 * scale
        assert np.abs(trained[name] - wanted[name]).max() <= limit, name
        assert np.abs(wanted[name] - start).max() > 100 * limit, f"{name} hardly moves"


def names(document, key):
    return {one["name"] for one in document[key]}


def with_constants(data, moved):
    """The model with some initializers in Constant nodes, vectors as lists of floats."""
    model = onnx.load_from_string(data)
    graph = model.graph
    nodes = list(graph.node)
    del graph.node[:]
    for tensor in [tensor for tensor in graph.initializer if tensor.name in moved]:
        graph.initializer.remove(tensor)
        value = onnx.numpy_helper.to_array(tensor)
        form = {"value_floats": value} if value.ndim == 1 else {"value": tensor}
        graph.node.append(onnx.helper.make_node("Constant", [], [tensor.name], f"node_of_{tensor.name}", **form))
    graph.node.extend(nodes)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def tensors(data):
    """Initializers, also under the names that Identity nodes give them, and values of Constant nodes."""
    found = initializers(data)
    for node in onnx.load_from_string(data).graph.node:
        if node.op_type == "Constant":
            found[node.output[0]] = onnx.numpy_helper.to_array(node.attribute[0].t)
        elif node.op_type == "Identity" and node.input[0] in found:
            found[node.output[0]] = found[node.input[0]]
    return found


@pytest.mark.parametrize("share", ["some", "all"])
@pytest.mark.parametrize("case", ["prelu", "lstm"])
def test_weights_in_constant_nodes(case, share, tmp_path):
    make, draw, loss, _ = CASES[case]
    torch.manual_seed(0)
    x, y = draw(4 * BATCH)
    data = export(make(), x[:BATCH], "script")
    weights = [name for name, value in initializers(data).items() if value.dtype == np.float32 and value.size > 1]
    wanted, _, stored = train_by_mpc(data, x, y, loss, tmp_path)
    moved = weights[::2] if share == "some" else weights
    found, _, exported = train_by_mpc(with_constants(data, moved), x, y, loss, tmp_path)
    assert names(found, "trained") == names(wanted, "trained")
    after = tensors(exported)
    for name, value in initializers(stored).items():
        np.testing.assert_array_equal(after[name].reshape(value.shape), value, err_msg=name)


class Plain(nn.Module):
    """Norms without weights and a literal, which exporters write as Constant nodes."""

    def __init__(self):
        super().__init__()
        self.norm, self.fc = nn.GroupNorm(2, 4), nn.Linear(4, 3)

    def forward(self, x):
        return self.fc(self.norm(x) * torch.tensor([1.0, 0.5, 2.0, 1.5]))


def test_literals_in_constant_nodes_stay(tmp_path):
    torch.manual_seed(0)
    module, x, y = Plain(), floats(4 * BATCH, 4), torch.randint(0, 3, (4 * BATCH,))
    document, _, _ = train_by_mpc(export(module, x[:BATCH], "script"), x, y, "softmax_cross_entropy", tmp_path)
    assert len(document["trained"]) == len(list(module.parameters())), document["trained"]
    assert any("literal" in one["reason"] for one in document["frozen"]), document["frozen"]


class Modes(nn.Module):
    """A batch norm that trains and one that is held."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.fc = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)
        self.trains, self.held = nn.BatchNorm1d(4), nn.BatchNorm1d(4, momentum=0.3)

    def forward(self, x):
        return self.fc(torch.tanh(self.held(self.b(torch.relu(self.trains(self.a(x)))))))


def test_batch_norms_keep_their_modes(tmp_path):
    torch.manual_seed(0)
    module, x, y = Modes(), floats(4 * BATCH, 4), torch.randint(0, 3, (4 * BATCH,))
    module.held.running_mean.normal_()
    module.held.running_var.uniform_(0.5, 2)
    module.train()
    module.held.eval()
    buffer = io.BytesIO()
    torch.onnx.export(module, (x[:BATCH],), buffer, input_names=["x"], output_names=["y"], dynamo=False,
                      training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False)
    # Tracing runs the module: its statistics have moved since the export.
    module.load_state_dict({name: torch.tensor(value) for name, value in initializers(buffer.getvalue()).items()},
                           strict=False)
    document, _, exported = train_by_mpc(buffer.getvalue(), x, y, "softmax_cross_entropy", tmp_path)
    assert names(document, "statistics") == {"trains.running_mean", "trains.running_var"}
    assert names(document, "frozen") >= {"held.running_mean", "held.running_var"}
    after = initializers(exported)
    wanted = train_by_torch(module, x, y, F.cross_entropy).state_dict()
    for name in names(document, "trained") | names(document, "statistics"):
        np.testing.assert_allclose(after[name], wanted[name], rtol=2e-5, atol=2e-5, err_msg=name)
    for name in ("held.running_mean", "held.running_var"):
        np.testing.assert_array_equal(after[name], wanted[name], err_msg=name)


def test_merged_initializers_train_apart(tmp_path):
    torch.manual_seed(0)
    # The exporter stores the ones and the zeros of a new batch norm once each.
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 3)).eval()
    x, y = floats(4 * BATCH, 4), torch.randint(0, 3, (4 * BATCH,))
    data = export(module, x[:BATCH], "script")
    assert len(initializers(data)) == len(list(module.parameters()))
    document, _, exported = train_by_mpc(data, x, y, "softmax_cross_entropy", tmp_path)
    assert names(document, "trained") == {name for name, _ in module.named_parameters()}
    assert names(document, "statistics") == {"2.running_mean", "2.running_var"}
    after, wanted = tensors(exported), train_by_torch(module.train(), x, y, F.cross_entropy).state_dict()
    for name in names(document, "trained") | names(document, "statistics"):
        np.testing.assert_allclose(after[name], wanted[name], rtol=2e-5, atol=2e-5, err_msg=name)


def test_float16_models_are_exported(tmp_path):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 3)).eval()
    x, y = floats(4 * BATCH, 4), torch.randint(0, 3, (4 * BATCH,))
    data = export(module.half(), x[:BATCH].half(), "script")
    document, _, exported = train_by_mpc(data, x.half(), y, "softmax_cross_entropy", tmp_path)
    assert len(document["trained"]) == 6 and len(document["statistics"]) == 2
    before, after = tensors(data), tensors(exported)
    for name in names(document, "trained") | names(document, "statistics"):
        assert after[name].dtype == np.float16 and (after[name] != before[name]).any(), name
