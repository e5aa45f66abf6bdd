# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mixed-precision training: `mpc.Trainer`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from typing import Any

from . import _communicator, _function, _mpc, _optimizer, _source, _training_models
from ._errors import InvalidArgument
from ._policy import Policy, PolicyLike

_LOSSES = ("softmax_cross_entropy", "sigmoid_cross_entropy", "mean_squared_error", "mean_absolute_error", "huber",
           "output")
_INTEGERS = {"i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64"}


class Trainer:
    """A model in training, compiled to one mixed-precision step.

    `model` is one of

    - a path (.onnx, .mlir), ONNX bytes or text;
    - a `torch.nn.Module`, traced on `example` in the mode of each of its parts; `sync()` writes
      parameters and updated buffers back. Its `loss` may be a function of its result and the labels that
      returns a scalar (`torch.nn.functional.cross_entropy`); `example` then ends with labels. Its gradient is PyTorch's own (PyTorch 2.9 or newer); random
      numbers come from mpc's generator;
    - a JAX loss, `loss(parameters, *batch)`, traced on `example`: the tree of parameters, then a batch,
      labels last. Its gradient is JAX's own. `loss` is ignored then.

    Options are those of `mpc train` (docs/HowTo/Training.md): `loss`, `optimizer` and `schedule` are a kind
    with comma-separated fields ("adamw,beta2=0.95", "cosine,warmup=100,steps=2000"); `optimizer_numbers`
    are additional fields of the optimizer. `lr`, `weight_decay`, `clip_norm`, `clip_value`, `accumulate`
    (batches per update), `loss_scale` ("dynamic", "static=1024", ...), `dropout` (probability by name of
    an op, value or layer of a file, or of a submodule), `freeze` and `trainable` (names or regular
    expressions), `init` (seed of random initial parameters). `seed` is for dropout. `policy`,
    `overrides`, `device`, `dims`, `batch`, `rounding`, `threads` and `cache` are those of `mpc.compile`.

    `communicator` (an `mpc.Communicator`, or a torch.distributed process group) is the data-parallel
    group: each rank makes the same calls on its part of every batch. `batch` is the global batch size; it
    is required, except for a torch module, where it is the number of ranks times the example's.
    `sync_batch_norm` normalizes over all ranks.

    Not thread-safe. Calls release the GIL. Compiles (here, and of other parts on demand) are cancelled by
    Ctrl-C. Raises what `mpc.compile` does.
    """

    def __init__(self, model: Any, *example: Any, loss: str | Callable[..., Any] = "softmax_cross_entropy",
                 optimizer: str = "adam",
                 optimizer_numbers: Mapping[str, float] | None = None, lr: float = 1e-3,
                 weight_decay: float | None = None, schedule: str = "constant", loss_scale: str = "",
                 clip_norm: float | None = None, clip_value: float | None = None, accumulate: int = 1,
                 dropout: Mapping[str, float] | None = None, freeze: Sequence[str] = (), trainable: Sequence[str] = (),
                 init: int | None = None, seed: int = 0, policy: PolicyLike | None = None,
                 overrides: Mapping[str, str] | Iterable[tuple[str, str]] = (), device: str | None = None,
                 dims: Mapping[str, int] | None = None, batch: int | None = None, rounding: str = "strict",
                 threads: int = 0, cache: bool = True, communicator: Any = None, sync_batch_norm: bool = False):
        group = _communicator.native(communicator)
        with _communicator.shared(group):
            training = _mpc.TrainingOptions()
            if not callable(loss):
                _choose_loss(training.loss, loss)
            _optimizer.choose_optimizer(training.optimizer, optimizer, optimizer_numbers or {})
            training.optimizer.weight_decay = weight_decay
            _choose_schedule(training.schedule, schedule, lr)
            training.loss_scale = loss_scale
            training.clip_norm, training.clip_value, training.accumulate = clip_norm, clip_value, accumulate
            training.dropout, training.sync_batch_norm = dict(dropout or {}), sync_batch_norm
            training.freeze, training.trainable, training.initial_seed = list(freeze), list(trainable), init
            ranks = group.size if group is not None else 1
            self._model = _training_models.read(model, example, batch and batch // ranks, training,
                                                loss if callable(loss) else None)
            device = device or _function.device_of(example)
            self._model.adjust(training)
            self._options = training
            if batch is None and group is not None and self._model.framework == _mpc.Framework.PyTorch:
                # The example is one rank's part.
                batch = len(example[0]) * ranks if example and getattr(example[0], "ndim", 0) else None
            made, options, self._policy = _function.choose(policy, device, overrides, dims, batch, rounding, threads,
                                                           cache)
            options.training = training
        _, gpu = _function._device(device, threads)
        if group is not None and group.size > 1 and made.name.startswith("cuda"):
            made = _mpc.gpu_of_rank(int(made.name.partition(":")[2] or -1), group)
            gpu = _mpc.Gpu(made)
        self._made = _mpc.Training(made, gpu, self._model.source, options, self._model.values, seed, group)
        arguments = self._made.arguments
        self._names = [v.name for v in arguments if v.role == "parameter"]
        self._statistics = [v.name for v in arguments if v.role == "statistics"]
        self._order = self._model.order(self._names)
        self._evaluations: dict[int, _mpc.ModelSource] = {}
        # Sizes of batches that the step takes.
        self._sizes = {self._made.batch_types[0].shape[0]} if ranks == 1 else None

    # ===------------------------------------------------------------------=== #
    # Steps
    # ===------------------------------------------------------------------=== #

    def step(self, *batch: Any) -> None:
        """Forward, backward and update on a batch: the inputs in order, then the labels, as arguments or as
        one tuple or list. With `accumulate` only the last batch of a window updates. A batch of another
        size, such as the last of an epoch, compiles another step of the same state, unless the model's
        batch is fixed or several ranks share it.

        Arrays have the types of `batch_types`, in host memory or on the trainer's GPU; integer labels of
        other widths are converted. Asynchronous on a GPU; GPU arrays are read in order of the current
        stream of PyTorch or CuPy.
        """
        self._made.step(*self._sized(batch))

    def forward_backward(self, *batch: Any) -> None:
        """First half of a step: computes loss and gradients, which stay on the device."""
        self._made.forward_backward(*self._sized(batch))

    def apply(self) -> None:
        """Second half of a step: check, clipping, update and the new loss scale."""
        self._made.apply()

    def gradients(self, unscaled: bool = True) -> dict[str, Any]:
        """Returns the gradients of `forward_backward` before `apply`, by parameter; unscaled in float32,
        else as the update reads them."""
        found = self._made.gradients(unscaled, self._model.framework)
        return {self._model.name(name): value for name, value in found.items()}

    def set_gradients(self, gradients: Mapping[str, Any], unscaled: bool = True) -> None:
        """Replaces the named gradients, between `forward_backward` and `apply`."""
        names = {self._model.name(name): name for name in self._names}
        self._made.set_gradients({names.get(name, name): value for name, value in gradients.items()}, unscaled)

    def _arrays(self, batch: Sequence[Any]) -> list[Any]:
        arrays = self._model.flatten(batch)
        types = self._made.batch_types
        if len(arrays) == len(types):
            arrays[-1] = _labels(arrays[-1], types[-1].dtype)
        return arrays

    def _sized(self, batch: Sequence[Any]) -> list[Any]:
        """The arrays of a batch, which may be the smaller last one of an epoch."""
        arrays = self._arrays(batch)
        size = next(iter(getattr(arrays[0], "shape", ())), 0) if arrays else 0
        if self._sizes is not None and size and size not in self._sizes:
            if (source := self._model.resized(size)) is not None:
                self._made.add_model(size, source)
            self._sizes.add(size)
        return arrays

    def metrics(self) -> dict[str, Any]:
        """Returns `loss` (mean of the batches), `accuracy` (None unless labels are classes) and the number
        of `batches` since the last call. Synchronizes with the device."""
        return _metrics(self._made.metrics())

    def evaluate(self, *arrays: Any) -> dict[str, Any]:
        """Returns the same metrics over examples, inputs then labels, without dropout and with running
        statistics."""
        given = self._arrays(arrays)
        types = self._made.batch_types
        if len(given) != len(types):
            raise InvalidArgument("evaluate", f"takes {len(types)} arrays (inputs, then labels), not {len(given)}")
        usual, size = types[0].shape[0], len(given[0])
        for wanted in {usual if size >= usual else size, size % usual} - {0, *self._evaluations}:
            if (source := self._model.evaluation(wanted)) is not None:
                self._evaluations[wanted] = source
        return _metrics(self._made.evaluate({v.name: a for v, a in zip(types[:-1], given)}, given[-1],
                                            self._evaluations))

    def fit(self, batches: Iterable[Any], epochs: int = 1, steps: int | None = None, progress: bool | None = None,
            tensorboard: str | os.PathLike[str] | None = None, log_every: int = 50) -> list[dict[str, Any]]:
        """Trains on `batches` (a list, a DataLoader, ...) for `epochs` epochs, or `steps` batches.

        `progress`: a tqdm bar; None: if tqdm is installed. `tensorboard`: folder for event files of loss,
        accuracy, loss scale and skipped steps, by tensorboardX. Returns the metrics of each interval of
        `log_every` batches, with its last `step`.
        """
        writer = _event_writer(tensorboard)
        history: list[dict[str, Any]] = []
        done = 0
        self._made.metrics()  # Those of earlier steps.
        try:
            for epoch in range(epochs):
                if done == steps:
                    break
                with _bar(batches, progress, f"epoch {epoch + 1}/{epochs}", steps and steps - done) as bar:
                    for batch in bar:
                        if done == steps:
                            break
                        self.step(batch)
                        done += 1
                        if done % log_every == 0 or done == steps:
                            self._log(history, done, bar, writer)
            if not history or history[-1]["step"] != done:
                self._log(history, done, None, writer)
        finally:
            if writer is not None:
                writer.close()
        return history

    def _log(self, history: list[dict[str, Any]], step: int, bar: Any, writer: Any) -> None:
        found = self.metrics()
        if not found["batches"]:
            return
        scale = self.loss_scale
        history.append({"step": step, **found, **scale})
        if hasattr(bar, "set_postfix"):
            bar.set_postfix(loss=found["loss"], scale=scale["scale"], refresh=False)
        if writer is not None:
            numbers = {"loss": found["loss"], "accuracy": found["accuracy"], "loss_scale": scale["scale"],
                       "skipped_steps": scale["skipped_steps"]}
            for name, value in numbers.items():
                if value is not None:
                    writer.add_scalar(f"train/{name}", value, step)

    # ===------------------------------------------------------------------=== #
    # Facts
    # ===------------------------------------------------------------------=== #

    @property
    def loss_scale(self) -> dict[str, Any]:
        """`scale` (1 without one), `skipped_steps` so far, and the last `overflowed` gradient ("" before
        that)."""
        scale, skipped, overflowed = self._made.loss_scale()
        return {"scale": scale, "skipped_steps": skipped, "overflowed": overflowed}

    @property
    def policy(self) -> Policy:
        return self._policy

    @property
    def batch_types(self) -> list[_mpc.Value]:
        """Name, element type and shape of each array of a batch."""
        return self._made.batch_types

    @property
    def parameters(self) -> list[str]:
        """Trained parameters, in the order of the optimizer's state."""
        return [self._model.name(name) for name in self._order]

    @property
    def trained(self) -> dict[str, str]:
        """Why each parameter is trained, by name."""
        return {self._model.name(name): why for name, why in self._made.weight_choices(trained=True)}

    @property
    def frozen(self) -> dict[str, str]:
        """Why each other tensor of the model is frozen, by name; excludes running statistics."""
        return {self._model.name(name): why for name, why in self._made.weight_choices(trained=False)}

    @property
    def layers(self) -> dict[str, str]:
        """For each layer the type of most of its computation."""
        return dict(self._made.layers)

    @property
    def updates(self) -> int:
        """Number of updates, without those that loss scaling skipped."""
        return int(self._made.state(_mpc.Framework.NumPy)["step"])

    # ===------------------------------------------------------------------=== #
    # State
    # ===------------------------------------------------------------------=== #

    def state_dict(self) -> dict[str, Any]:
        """Copies of the complete training state, for a bit-identical continuation.

        `model` has parameters and running statistics by name, `optimizer` is like
        `torch.optim.Optimizer.state_dict()` and `scaler` like `torch.amp.GradScaler.state_dict()`;
        `trainer` is the rest by mpc's names. Arrays are tensors for a torch module, else NumPy's. Between
        updates only: batches of an incomplete window are lost.
        """
        state = self._made.state(self._model.framework)
        kept = _optimizer.state_names(self._options.optimizer, self._names)
        model = [*self._names, *self._statistics]
        rest = {name: value for name, value in state.items() if name not in model and name not in kept}
        result: dict[str, Any] = {"model": {self._model.name(name): state[name] for name in model}}
        if self._options.optimizer.form == "torch":
            result["optimizer"] = _optimizer.to_torch(self._options.optimizer, self._options.schedule.base, self._order,
                                                      state, lambda: self._counter(state["step"]))
        else:
            rest.update({name: state[name] for name in kept if name in state})
        result["scaler"] = {name: int(value) if name in ("growth_interval", "_growth_tracker") else value
                            for name, value in self._made.scaler_state().items()}
        result["trainer"] = rest
        return result

    def _counter(self, step: Any) -> Any:
        # The type of torch's step counters.
        return step.clone().float() if self._model.framework == _mpc.Framework.PyTorch else step.astype("float32")

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Loads a `state_dict()`, or `model`, `optimizer` and `scaler` in torch's format; missing parts stay
        unchanged. Hyperparameters must be equal, except the learning rate. Fails, without changes, if a
        name, a shape or a hyperparameter differs; other entries of a torch module's state are ignored."""
        _need_parts("state", state, ("model", "optimizer", "scaler", "trainer"))
        for part in state.values():
            _need_parts("state", part)
        scaler = self._made.scaler_state()
        if state.get("scaler"):
            self._made.set_scaler_state({name: float(value) for name, value in state["scaler"].items()})
        try:
            self._made.set_state(self._merged(state))
        except Exception:
            if scaler:
                self._made.set_scaler_state(scaler)
            raise

    def _merged(self, given: Mapping[str, Any]) -> dict[str, Any]:
        state = self._made.state(_mpc.Framework.NumPy)
        scale = {name: value for name, value in state.items() if name in ("loss_scale.scale", "loss_scale.good_steps")}
        for name, value in given.get("trainer", {}).items():
            state[name] = value
        if given.get("scaler"):
            state.update(scale)
        if "model" in given:
            for name in [*self._names, *self._statistics]:
                public = self._model.name(name)
                if public not in given["model"]:
                    raise InvalidArgument(f"parameter '{public}'", "is missing in the state of the model")
                state[name] = given["model"][public]
            known = {self._model.name(name) for name in [*self._names, *self._statistics]} | self._model.others()
            if unknown := sorted(set(given["model"]) - known):
                raise InvalidArgument(f"parameter '{unknown[0]}'", "is not a parameter of this training")
        if given.get("optimizer"):
            arrays, steps = _optimizer.from_torch(self._options.optimizer, self._order, state, given["optimizer"])
            state.update(arrays)
            if steps is not None:
                state["step"] = _like(state["step"], steps)
        return state

    def __reduce__(self) -> Any:
        raise InvalidArgument(self._model.source.name, "is in training, which is not pickled or copied; state_dict() "
                              "is, and load_state_dict() of a trainer of the same model takes it")

    def sync(self) -> Any:
        """Writes the weights back: updates a torch module's parameters and running statistics and returns
        it; returns the tree of parameters of a JAX loss, else a dictionary by name."""
        state = self._made.state(self._model.framework)
        weights = {self._model.name(name): state[name] for name in [*self._names, *self._statistics]}
        return self._model.sync(weights)

    def export(self, path: str | os.PathLike[str]) -> None:
        """Writes the trained model as ONNX: the given file with new weights, or the torch module, which is
        synchronized, with a free dimension "batch". Raises `mpc.InvalidArgument` for other kinds of models."""
        self.sync()
        self._model.export(self._made, os.fspath(path))

    def __repr__(self) -> str:
        return (f"<mpc.Trainer of {self._model.source.name}: {len(self._names)} parameters, "
                f"{self._options.optimizer.kind}, {self._policy}>")


# ===----------------------------------------------------------------------=== #
# Options
# ===----------------------------------------------------------------------=== #


def _choose_loss(options: _mpc.LossOptions, text: str) -> None:
    kind, fields = _optimizer.split_kind(text, "loss")
    if kind not in _LOSSES:
        raise InvalidArgument("loss", f"is '{kind}', none of {', '.join(_LOSSES)}")
    options.kind = kind
    for key, value in fields.items():
        if key in ("output", "labels"):
            setattr(options, key, value)
        elif key in ("label_smoothing", "delta"):
            setattr(options, key, _optimizer.number("loss", key, value))
        elif key == "ignore_index":
            options.ignore_index = int(_optimizer.number("loss", key, value))
        else:
            raise InvalidArgument("loss", f"has no field '{key}'; it has output, labels, label_smoothing, "
                                  "ignore_index, delta")


def _choose_schedule(options: _mpc.ScheduleOptions, text: str, rate: float) -> None:
    kind, fields = _optimizer.split_kind(text, "schedule")
    options.kind, options.base = kind, rate
    for key, value in fields.items():
        if key not in ("warmup", "steps", "final", "period", "gamma"):
            raise InvalidArgument("schedule", f"has no field '{key}'; it has warmup, steps, final, period, gamma")
        found = _optimizer.number("schedule", key, value)
        setattr(options, key, found if key in ("final", "gamma") else int(found))
    if kind in ("cosine", "linear") and options.steps == 0:
        raise InvalidArgument("schedule", f"is {kind}, which has an end: give its length in updates, '{kind},steps=N'")


def _need_parts(what: str, given: Any, parts: Sequence[str] | None = None) -> None:
    """Raises unless `given` is a mapping with keys from `parts`."""
    if not isinstance(given, Mapping):
        raise InvalidArgument(what, f"has a {type(given).__name__}, expected a mapping")
    for name in given:
        if parts is not None and name not in parts:
            raise InvalidArgument(what, f"has a part '{name}', none of {', '.join(parts)}")


def _metrics(found: tuple[float, float | None, int]) -> dict[str, Any]:
    return dict(zip(("loss", "accuracy", "batches"), found))


# ===----------------------------------------------------------------------=== #
# Arrays
# ===----------------------------------------------------------------------=== #


def _labels(array: Any, wanted: str) -> Any:
    """Converts class labels to the step's integer type."""
    name = _INTEGERS.get(wanted)
    held = str(getattr(array, "dtype", "")).removeprefix("torch.")
    if name is None or held == name or held not in (*_INTEGERS.values(), "uint8", "uint16", "uint32"):
        return array
    if _source.is_tensor(array):
        import torch

        return array.to(getattr(torch, name))
    return array.astype(name)


def _like(array: Any, value: Any) -> Any:
    import numpy as np

    return np.full_like(array, value)


# ===----------------------------------------------------------------------=== #
# Progress
# ===----------------------------------------------------------------------=== #


class _Quiet:
    """Iterates over batches without a bar."""

    def __init__(self, batches: Iterable[Any]):
        self._batches = batches

    def __enter__(self) -> _Quiet:
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def __iter__(self) -> Any:
        return iter(self._batches)


def _bar(batches: Iterable[Any], progress: bool | None, title: str, most: int | None) -> Any:
    if progress is not False:
        try:
            from tqdm.auto import tqdm
        except ImportError:
            if progress:
                raise
        else:
            total = len(batches) if isinstance(batches, Sized) else most
            # By default show the bar on a terminal only.
            return tqdm(batches, desc=title, total=min(total, most) if total and most else total,
                        disable=None if progress is None else False)
    return _Quiet(batches)


def _event_writer(folder: str | os.PathLike[str] | None) -> Any:
    if folder is None:
        return None
    from tensorboardX import SummaryWriter

    return SummaryWriter(os.fspath(folder))
