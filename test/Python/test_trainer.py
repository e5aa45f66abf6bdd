# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""mpc.Trainer of model files and of text."""

import concurrent.futures
import copy
import json
import pathlib
import subprocess
import sys

import mpc
import numpy as np
import pytest
from conftest import INPUTS

CNN = INPUTS / "onnx" / "small-cnn.onnx"


@pytest.fixture
def batches():
    """Images of two classes that a convolution can separate."""
    numbers = np.random.default_rng(0)
    labels = numbers.integers(0, 2, (20, 16))
    images = numbers.standard_normal((20, 16, 1, 8, 8), np.float32)
    images[..., 2:6, 2:6] += 2 * labels[..., None, None, None].astype(np.float32)
    return list(zip(images, labels))


def trainer_of(model=CNN, **options):
    return mpc.Trainer(model, batch=16, init=1, **{"policy": "float32", "lr": 0.01, **options})


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_a_file_learns(batches, policy):
    trainer = trainer_of(policy=policy)
    assert [(v.name, v.dtype, v.shape[0]) for v in trainer.batch_types][-1][1:] == ("i32", 16)
    x, y = (np.concatenate(parts) for parts in zip(*batches[-4:]))
    before = trainer.evaluate(x, y)
    for batch in batches:
        trainer.step(*batch)
    after = trainer.evaluate(x, y)
    assert after["loss"] < before["loss"] / 3 and after["accuracy"] > 0.95
    assert trainer.updates == 20 - trainer.loss_scale["skipped_steps"]
    assert trainer.policy == policy


def test_bytes_and_text_are_models_too(batches):
    file, data = trainer_of(), trainer_of(CNN.read_bytes())
    for batch in batches:
        file.step(batch)
        data.step(list(batch))
    for name, value in file.sync().items():
        np.testing.assert_array_equal(value, data.sync()[name])
    text = (INPUTS.parent / "Integration" / "Inputs" / "mlp.mlir").read_text()
    mlp = mpc.Trainer(text, init=1, policy="mixed_bfloat16")
    assert mlp.parameters == ["w1", "b1", "w2", "b2"]


def test_halves_are_a_step(batches):
    whole, halves = trainer_of(policy="mixed_float16"), trainer_of(policy="mixed_float16")
    for batch in batches[:4]:
        whole.step(batch)
        halves.forward_backward(batch)
        gradients = halves.gradients()
        assert gradients.keys() == set(halves.parameters) and gradients["fc.weight"].dtype == np.float32
        halves.apply()
    # Running statistics differ: a whole step that is skipped restores them, a separate forward half cannot.
    assert whole.loss_scale["skipped_steps"] == 1
    a, b = whole.sync(), halves.sync()
    assert all(np.array_equal(a[name], b[name]) for name in whole.parameters)


def test_gradients_may_be_replaced(batches):
    trainer = trainer_of(optimizer="sgd")
    before = trainer.sync()
    trainer.forward_backward(batches[0])
    trainer.set_gradients({name: np.ones_like(g) for name, g in trainer.gradients().items()})
    trainer.apply()
    after = trainer.sync()
    for name in trainer.parameters:
        np.testing.assert_allclose(before[name] - after[name], 0.01, rtol=1e-3)


def test_batches_of_a_window_make_one_update(batches):
    trainer = trainer_of(accumulate=2, optimizer="sgd")
    before = trainer.sync()
    trainer.step(batches[0])
    assert trainer.updates == 0
    assert all(np.array_equal(before[n], trainer.sync()[n]) for n in trainer.parameters)
    trainer.step(batches[1])
    assert trainer.updates == 1
    assert not np.array_equal(before["fc.weight"], trainer.sync()["fc.weight"])


def test_options_are_those_of_mpc_train(batches):
    trainer = trainer_of(optimizer="sgd", optimizer_numbers={"momentum": 0.9}, schedule="cosine,warmup=2,steps=10",
                         clip_norm=1e-6, freeze=["conv.weight"], dropout={"classifier": 0.5},
                         loss="softmax_cross_entropy,label_smoothing=0.1")
    before = trainer.sync()
    assert "conv.weight" not in trainer.parameters
    group = trainer.state_dict()["optimizer"]["param_groups"][0]
    assert (group["lr"], group["momentum"], group["nesterov"]) == (0.01, 0.9, False)
    for batch in batches[:3]:
        trainer.step(batch)
    after = trainer.sync()
    moved = max(np.abs(after[n] - before[n]).max() for n in trainer.parameters)
    assert 0 < moved < 1e-6
    assert "rng" in trainer.state_dict()["trainer"]


def test_a_state_goes_on_to_the_bit(batches):
    options = {"policy": "mixed_float16", "dropout": {"classifier": 0.3}}
    first, second = trainer_of(**options), trainer_of(**options)
    for batch in batches[:5]:
        first.step(batch)
    second.load_state_dict(first.state_dict())
    for batch in batches[5:]:
        first.step(batch)
        second.step(batch)
    a, b = first.state_dict(), second.state_dict()
    for part in ("model", "trainer"):
        assert all(np.array_equal(a[part][name], b[part][name]) for name in a[part])
    assert a["scaler"] == b["scaler"]


def test_what_overflows_is_skipped_and_named(batches):
    trainer = trainer_of(policy="mixed_float16", loss_scale="dynamic,init=1e30")
    trainer.step(batches[0])
    scale = trainer.loss_scale
    assert scale["skipped_steps"] == 1 and scale["scale"] < 1e30 and scale["overflowed"]
    assert trainer.updates == 0


def test_the_export_is_the_trained_model(batches, tmp_path):
    for model in (CNN, CNN.read_bytes()):
        trainer = trainer_of(model)
        for batch in batches:
            trainer.step(batch)
        trainer.export(tmp_path / "trained.onnx")
        x, y = batches[0]
        scores = mpc.compile(tmp_path / "trained.onnx", policy="float32", batch=16)(x)
        assert (scores.argmax(1) == y).mean() == trainer.evaluate(x, y)["accuracy"]


def test_fit_gives_a_history_and_event_files(batches, tmp_path):
    history = trainer_of().fit(batches, epochs=2, log_every=10, progress=False)
    assert [entry["step"] for entry in history] == [10, 20, 30, 40]
    assert history[-1]["loss"] < history[0]["loss"] and history[-1]["batches"] == 10
    assert [entry["step"] for entry in trainer_of().fit(batches, epochs=3, steps=25)] == [25]
    pytest.importorskip("tensorboardX")
    found = trainer_of().fit(batches, log_every=5, progress=False, tensorboard=tmp_path)
    assert events(tmp_path)["train/loss"] == pytest.approx({entry["step"]: entry["loss"] for entry in found})


def test_event_files_of_the_program(tmp_path):
    pytest.importorskip("tensorboardX")
    made = INPUTS.parent / "Integration" / "Inputs" / "make_training_data.py"
    subprocess.run([sys.executable, made, tmp_path / "data"], check=True)
    program = pathlib.Path(mpc.__file__).parent / "bin" / "mpc"

    def train(folder):
        return subprocess.run(
            [program, "train", CNN, "--data", tmp_path / "data", "--batch", "16", "--epochs", "2", "--log-every", "8",
             "--policy", "mixed_float16", "--json", "--quiet", "--tensorboard", folder], capture_output=True, text=True)

    lines = [json.loads(line) for line in train(tmp_path / "events").stdout.splitlines()]
    found = events(tmp_path / "events")
    for tag, key in (("loss", "loss"), ("accuracy", "accuracy"), ("loss_scale", "loss_scale"),
                     ("skipped_steps", "skipped_steps")):
        assert found[f"train/{tag}"] == pytest.approx({line["step"]: line[key] for line in lines[:-1]}, rel=1e-6)
    ends = [line["test_loss"] for line in lines[-1]["epochs"]]
    assert found["test/loss"] == pytest.approx(dict(zip((20, 40), ends)), rel=1e-6)
    (tmp_path / "file").write_text("")
    refused = train(tmp_path / "file" / "events")
    assert refused.returncode == 1 and "the folder of event files cannot be created" in refused.stdout + refused.stderr


def events(folder):
    """Scalars of the event files of a folder: name -> step -> value."""
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.record_writer import masked_crc32c

    scalars = {}
    for path in folder.glob("events.out.*"):
        data = path.read_bytes()
        while data:
            length = int.from_bytes(data[:8], "little")
            event = Event.FromString(data[12:12 + length])
            for covered, at in ((data[:8], 8), (data[12:12 + length], 12 + length)):
                assert int.from_bytes(data[at:at + 4], "little") == masked_crc32c(covered)
            data = data[16 + length:]
            for value in event.summary.value:
                scalars.setdefault(value.tag, {})[event.step] = value.simple_value
    return scalars


def test_a_bar_shows_loss_and_scale(batches, capsys):
    pytest.importorskip("tqdm")
    trainer_of().fit(batches, log_every=5, progress=True)
    assert "epoch 1/1: 100%" in capsys.readouterr().err


def test_trainers_of_several_threads(batches):
    def one(seed):
        trainer = mpc.Trainer(CNN, batch=16, init=seed, lr=0.01, policy="float32")
        for batch in batches:
            trainer.step(batch)
        return trainer.metrics()["loss"]

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        at_once = list(pool.map(one, range(4)))
    assert at_once == [one(seed) for seed in range(4)]


def test_the_interpreter_ends_cleanly():
    program = ("import mpc, numpy as np\n"
               f"trainer = mpc.Trainer({str(CNN)!r}, policy='float32')\n"
               "trainer.step(np.ones((2, 1, 8, 8), np.float32), np.zeros(2, np.int64))\n"
               "kept = trainer.state_dict()\n"
               "print(trainer.updates)\n")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


@pytest.mark.parametrize("options, error, text", [
    ({"loss": "hinge"}, mpc.InvalidArgument, "loss: is 'hinge', none of"),
    ({"loss": "huber,beta=1"}, mpc.InvalidArgument, "no field 'beta'"),
    ({"optimizer": "lion"}, mpc.InvalidArgument, "is 'lion', none of"),
    ({"optimizer": "adam,rho=1"}, mpc.InvalidArgument, "no hyperparameter 'rho'"),
    ({"schedule": "cosine"}, mpc.InvalidArgument, "cosine,steps=N"),
    ({"schedule": "sawtooth"}, mpc.InvalidArgument, "unknown schedule 'sawtooth'"),
    ({"lr": float("nan")}, mpc.InvalidArgument, "learning rate"),
    ({"loss_scale": "half"}, mpc.InvalidArgument, "half"),
    ({"freeze": ["nothing"]}, mpc.InvalidArgument, "'nothing' matches no weight"),
    ({"policy": "half"}, mpc.InvalidArgument, "unknown policy 'half'"),
])
def test_wrong_options_are_errors(options, error, text):
    with pytest.raises(error, match=text):
        trainer_of(**options)


def test_wrong_batches_are_errors(batches):
    trainer = trainer_of()
    x, y = batches[0]
    with pytest.raises(mpc.InvalidArgument, match=r"takes 2 arrays \(inputs, then labels\), but 1 were given"):
        trainer.step(x)
    with pytest.raises(mpc.InvalidArgument, match=r"is f64\[16,1,8,8\], but the model takes f32\[16,1,8,8\]"):
        trainer.step(x.astype(np.float64), y)
    with pytest.raises(mpc.InvalidArgument, match=r"\[16\], but the model takes i\d+\[15\]"):
        trainer.step(x[:15], y)
    with pytest.raises(mpc.InvalidArgument, match="is missing in the state of the model"):
        trainer.load_state_dict({"model": {}})
    kept = trainer.state_dict()
    for wrong, text in ((3, "has a int, expected a mapping"), ({"foo": {}}, "part 'foo', none of model"),
                        ({"model": {**kept["model"], "v": x}}, "'v': is not a parameter of this training"),
                        ({"optimizer": {"a": 1}}, "is not a torch state"),
                        (trainer_of(optimizer="sgd").state_dict(), "dampening in its state, which adam has not")):
        with pytest.raises(mpc.InvalidArgument, match=text):
            trainer.load_state_dict(wrong)
    with pytest.raises(mpc.InvalidArgument, match="has no gradients"):
        trainer.apply()
    with pytest.raises(mpc.InvalidArgument, match="is not pickled"):
        copy.deepcopy(trainer)
    with pytest.raises(mpc.NotFound):
        mpc.Trainer("/nowhere.onnx")


def test_a_batch_may_be_lists():
    numbers = np.random.default_rng(0)
    x, y = numbers.standard_normal((2, 1, 8, 8), np.float32), numbers.integers(0, 10, 2)
    losses = []
    for batch in ((x, y), (x.tolist(), y.tolist())):
        trainer = mpc.Trainer(INPUTS / "onnx" / "small-cnn.onnx", policy="float32", optimizer="sgd", lr=0.01)
        trainer.step(*batch)
        losses.append(trainer.metrics()["loss"])
    assert losses[0] == losses[1]
    with pytest.raises(mpc.InvalidArgument, match="schedule: is 3, not text"):
        mpc.Trainer(INPUTS / "onnx" / "small-cnn.onnx", schedule=3)
