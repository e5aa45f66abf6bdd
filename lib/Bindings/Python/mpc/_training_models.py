# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is trained: a model file, a torch module or a JAX loss, each with its names and its arrays."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from . import _mpc, _source
from ._errors import InvalidArgument, ModelWarning


class TrainedModel:
    """A model in a file, in bytes or in text: names are its own, arrays NumPy's."""

    framework = _mpc.Framework.NumPy

    def __init__(self, source: _mpc.ModelSource):
        self.source = source
        # What parameters begin with, by the model's names.
        self.values: dict[str, Any] = {}

    def adjust(self, options: _mpc.TrainingOptions) -> None:
        """Adds to `options` what the model knows itself."""

    def name(self, parameter: str) -> str:
        """What users call a parameter or statistic."""
        return parameter

    def order(self, parameters: Sequence[str]) -> list[str]:
        """Trained parameters in the order in which an optimizer counts them."""
        return list(parameters)

    def others(self) -> set[str]:
        """Names that a state of the model may have beside what is trained."""
        return set()

    def flatten(self, batch: Sequence[Any]) -> list[Any]:
        """The arrays of a batch, labels last."""
        if len(batch) == 1 and isinstance(batch[0], (tuple, list)):
            batch = batch[0]
        return list(batch)

    def sync(self, weights: Mapping[str, Any], updates: int) -> Any:
        """Gives the weights back to whoever brought the model."""
        return dict(weights)

    def export(self, made: _mpc.Training, path: str) -> None:
        made.export_onnx(path)


def read(model: Any, example: Sequence[Any]) -> TrainedModel:
    """What `mpc.Trainer` got."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        return TorchModule(torch, model, example)
    if callable(model) and not isinstance(model, (str, bytes, os.PathLike)) and "jax" in sys.modules:
        return JaxLoss(model, example)
    if example:
        raise InvalidArgument("model", "is read, not traced: it takes no example")
    return TrainedModel(_source.source(model, ()))


# ===----------------------------------------------------------------------=== #
# PyTorch
# ===----------------------------------------------------------------------=== #


class TorchModule(TrainedModel):
    """A module as the exporter by tracing writes it in training mode, batch norms for the trainer to
    train, dropouts by the names of their modules."""

    framework = _mpc.Framework.PyTorch

    def __init__(self, torch: Any, module: Any, example: Sequence[Any]):
        self._torch, self._module, self._example = torch, module, tuple(example)
        self._dropouts = {name.replace(".", "/"): m.p for name, m in module.named_modules()
                          if type(m) is torch.nn.Dropout and m.p > 0}
        data = self._export()
        super().__init__(_mpc.source_bytes(f"{type(module).__name__}.onnx", data))
        self._trained = [name for name, p in module.named_parameters() if p.requires_grad and _has_tensor(data, name)]
        self._updates = 0

    def _export(self) -> bytes:
        _source.need(self._example, "a torch.nn.Module")
        torch, module, buffer = self._torch, self._module, io.BytesIO()
        with _marked_dropouts(torch, module), _functional_dropouts(torch), torch.no_grad():
            # Weights under their names, nothing folded into them.
            torch.onnx.export(module, self._example, buffer, dynamo=False, opset_version=18, do_constant_folding=False,
                              training=torch.onnx.TrainingMode.PRESERVE)
        return buffer.getvalue()

    def adjust(self, options: _mpc.TrainingOptions) -> None:
        options.dropout = {**self._dropouts, **options.dropout}
        if not options.trainable:
            # What is frozen by name or expression is none of them.
            options.trainable = [name for name in self._trained
                                 if not any(text == name or re.fullmatch(text, name) for text in options.freeze)]
        momenta = {m.momentum for m in self._module.modules() if isinstance(m, _batch_norm(self._torch))}
        if len(momenta) > 1 or None in momenta:
            raise InvalidArgument("module", f"has batch norms with the momenta {sorted(map(str, momenta))}; "
                                  "running statistics have one here, and a number")
        for momentum in momenta:
            options.statistics_momentum = momentum

    def order(self, parameters: Sequence[str]) -> list[str]:
        names = [name for name, _ in self._module.named_parameters()]
        if unknown := sorted(set(parameters) - set(names)):
            raise InvalidArgument("module", f"has no parameters {', '.join(unknown)}, which the exporter wrote")
        return [name for name in names if name in parameters]

    def others(self) -> set[str]:
        return set(self._module.state_dict())

    def sync(self, weights: Mapping[str, Any], updates: int) -> Any:
        torch, done = self._torch, updates - self._updates
        tensors = dict(self._module.named_parameters()) | dict(self._module.named_buffers())
        with torch.no_grad():
            for name, value in weights.items():
                tensors[name].copy_(value)
            for module in self._module.modules():
                if isinstance(module, _batch_norm(torch)) and module.num_batches_tracked is not None:
                    module.num_batches_tracked += done
        self._updates = updates
        return self._module

    def export(self, made: _mpc.Training, path: str) -> None:
        # The module as it is called, with its dropouts and without marks of them.
        with open(path, "wb") as file:
            file.write(_source.export_torch(self._torch, self._module, self._example))


def _batch_norm(torch: Any) -> Any:
    return torch.nn.modules.batchnorm._BatchNorm


def _has_tensor(data: bytes, name: str) -> bool:
    """Whether ONNX bytes have an initializer of that name: field 8 of a TensorProto. The exporter
    leaves out what the forward pass does not read."""
    text = name.encode()
    length = bytes([len(text)]) if len(text) < 128 else bytes([len(text) & 127 | 128, len(text) >> 7])
    return b"\x42" + length + text in data


@contextlib.contextmanager
def _marked_dropouts(torch: Any, module: Any) -> Iterator[None]:
    """Training mode, with batch norms as in inference and in place of each dropout an op in its
    scope, by which the trainer finds where to put one."""

    class Mark(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return x * 1.0

    modes = {m: m.training for m in module.modules()}
    replaced = [(parent, name, child) for parent in module.modules() for name, child in parent.named_children()
                if type(child) is torch.nn.Dropout]
    try:
        module.train()
        for m in modes:
            if isinstance(m, _batch_norm(torch)):
                m.eval()
        for parent, name, child in replaced:
            setattr(parent, name, Mark() if child.p > 0 else torch.nn.Identity())
        yield
    finally:
        for parent, name, child in replaced:
            setattr(parent, name, child)
        for m, training in modes.items():
            m.training = training


def _functional_dropouts(torch: Any) -> Any:
    """A mode of torch that leaves out dropouts that are no modules, and says so."""
    from torch.overrides import TorchFunctionMode

    functional = torch.nn.functional
    plain = {getattr(functional, name) for name in ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout",
                                                    "feature_alpha_dropout")}
    told: set[str] = set()

    def tell(function: Any) -> None:
        if function.__name__ not in told:
            told.add(function.__name__)
            warnings.warn(f"training leaves out the dropout in calls of {function.__name__}; a torch.nn.Dropout is "
                          "kept", ModelWarning, stacklevel=2)

    class Mode(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            named = dict(kwargs or {})
            if function in plain:
                given = {**dict(zip(("input", "p", "training"), args)), **named}
                if given.get("training") is not False and given.get("p") != 0:
                    tell(function)
                return given["input"]
            if function is functional.scaled_dot_product_attention:
                if named.get("dropout_p") or (len(args) > 4 and args[4]):
                    tell(function)
                    named["dropout_p"], args = 0.0, args[:4]
            elif function is functional.multi_head_attention_forward and named.get("training"):
                if args[9] > 0:
                    tell(function)
                named["training"] = False
            return function(*args, **named)

    return Mode()


# ===----------------------------------------------------------------------=== #
# JAX
# ===----------------------------------------------------------------------=== #


class JaxLoss(TrainedModel):
    """A function of (parameters, *batch) that returns a scalar loss, or a tuple that begins with it.

    Leaves of the parameters have the names of their paths: "layers.0.w".
    """

    def __init__(self, function: Any, example: Sequence[Any]):
        import jax

        if len(example) < 3:
            raise InvalidArgument("model", "is a JAX loss, which is traced: give its parameters, and a batch of at "
                                  "least two arrays, the last of which are the labels")
        self._jax = jax
        paths, self._tree = jax.tree_util.tree_flatten_with_path(example[0])
        names = [jax.tree_util.keystr(path, simple=True, separator=".") or "parameter" for path, _ in paths]
        leaves = [leaf for _, leaf in paths]
        for name, leaf in zip(names, leaves):
            if str(jax.numpy.asarray(leaf).dtype) != "float32":
                raise InvalidArgument(f"parameter '{name}'", f"has elements of type {leaf.dtype}, not float32; close "
                                      "over what is not trained")
        data = jax.tree.leaves(tuple(example[1:]))
        structure = jax.tree.structure(tuple(example[1:]))

        def flat(*arrays: Any) -> Any:
            parameters = jax.tree.unflatten(self._tree, arrays[:len(leaves)])
            results = function(parameters, *jax.tree.unflatten(structure, arrays[len(leaves):]))
            return jax.tree.leaves(results)

        flat.__name__ = getattr(function, "__name__", "loss")
        super().__init__(_source.source(flat, [*leaves, *data]))
        self._public = {f"arg{i}": name for i, name in enumerate(names)}
        self.values = {f"arg{i}": leaf for i, leaf in enumerate(leaves)}
        self._labels = f"arg{len(leaves) + len(data) - 1}"

    def adjust(self, options: _mpc.TrainingOptions) -> None:
        model = {public: name for name, public in self._public.items()}
        options.parameters = list(self._public)
        for field in ("freeze", "trainable"):
            setattr(options, field, [model.get(name, name) for name in getattr(options, field)])
        options.loss.kind, options.loss.output = "output", "out0"
        options.loss.labels = self._labels

    def name(self, parameter: str) -> str:
        return self._public.get(parameter, parameter)

    def flatten(self, batch: Sequence[Any]) -> list[Any]:
        return list(self._jax.tree.leaves(super().flatten(batch)))

    def sync(self, weights: Mapping[str, Any], updates: int) -> Any:
        # What is frozen stays as it came.
        leaves = [self._jax.numpy.array(weights.get(public, self.values[name]))
                  for name, public in self._public.items()]
        return self._jax.tree.unflatten(self._tree, leaves)

    def export(self, made: _mpc.Training, path: str) -> None:
        raise InvalidArgument(path, "cannot be made from a JAX loss; sync() gives its parameters")
