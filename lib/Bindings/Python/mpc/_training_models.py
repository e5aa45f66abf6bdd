# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models in training: a model file, a torch module or a JAX loss, each with its names and arrays."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import _mpc, _source
from ._errors import InvalidArgument, ModelWarning


class TrainedModel:
    """A model from a file, bytes or text: with its own names and NumPy arrays."""

    framework = _mpc.Framework.NumPy

    def __init__(self, source: _mpc.ModelSource):
        self.source = source
        # Initial values of parameters, by the model's names.
        self.values: dict[str, Any] = {}

    def adjust(self, options: _mpc.TrainingOptions) -> None:
        """Adds options that follow from the model."""

    def name(self, parameter: str) -> str:
        """The user-visible name of a parameter or statistic."""
        return parameter

    def order(self, parameters: Sequence[str]) -> list[str]:
        """Trained parameters in the order of an optimizer's state."""
        return list(parameters)

    def others(self) -> set[str]:
        """Additional names that a state of the model may have."""
        return set()

    def flatten(self, batch: Sequence[Any]) -> list[Any]:
        """The arrays of a batch, labels last."""
        if len(batch) == 1 and isinstance(batch[0], (tuple, list)):
            batch = batch[0]
        return list(batch)

    def evaluation(self, size: int) -> _mpc.ModelSource | None:
        """The forward model for a batch size, for a model that computes its own gradients."""

    def resized(self, size: int) -> _mpc.ModelSource | None:
        """The model for batches of another size, for a model that was traced on an example."""

    def sync(self, weights: Mapping[str, Any]) -> Any:
        """Writes the weights back to the user's model."""
        return dict(weights)

    def export(self, made: _mpc.Training, path: str) -> None:
        made.export_onnx(path)


def read(model: Any, example: Sequence[Any], part: int | None, training: _mpc.TrainingOptions,
         loss: Callable[..., Any] | None) -> TrainedModel:
    """Reads the model of `mpc.Trainer`, with `part` examples per batch of this rank if given; `loss` is the
    loss of a torch module if it is a function."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        return TorchModule(model, example, part, training, loss)
    if loss is not None:
        raise InvalidArgument("loss", "is a function, which is that of a torch.nn.Module; other models take the name "
                              "of a loss")
    if callable(model) and not isinstance(model, (str, bytes, os.PathLike)) and "jax" in sys.modules:
        return JaxLoss(model, example)
    if example:
        raise InvalidArgument("model", "is read, not traced: it takes no example")
    return TrainedModel(_source.source(model, ()))


# ===----------------------------------------------------------------------=== #
# PyTorch
# ===----------------------------------------------------------------------=== #


class TorchModule(TrainedModel):
    """A module as the joint graph of its forward and backward pass (_joint.py), in its parts' modes."""

    framework = _mpc.Framework.PyTorch

    def __init__(self, module: Any, example: Sequence[Any], part: int | None, training: _mpc.TrainingOptions,
                 loss: Callable[..., Any] | None):
        _source.need(example, "a torch.nn.Module")
        if loss is not None and len(example) < 2:
            raise InvalidArgument("loss", "is a function, which is traced too: give an example of the labels after the "
                                  "inputs")
        from . import _joint

        self._trace, self._module = _joint, module
        self._example = _joint.resized(example, part) if part else tuple(example)
        if still := _joint.modes_that_differ(module):
            warnings.warn(f"the module is in inference mode, in which it is trained: {', '.join(still[:5])} "
                          f"{'and others ' if len(still) > 5 else ''}work as in inference; module.train() changes that",
                          ModelWarning, stacklevel=4)
        self._loss, self._dropout = loss, dict(training.dropout)
        self._modes = {part: part.training for part in module.modules()}
        self._output = training.loss.output
        self._joint = self._trained(self._example)
        super().__init__(self._source(self._joint))
        tensors = _joint.tensors_of(module)
        # Copies: parts that are compiled later read them too, when the module may have changed.
        self.values = {name: tensor.detach().clone() for name, tensor in tensors.items()
                       if _joint.is_representable(tensor)}

    def _trained(self, example: Sequence[Any]) -> Any:
        return self._trace.trace(self._module, example, self._output, self._dropout, training=True, loss=self._loss)

    def resized(self, size: int) -> _mpc.ModelSource:
        # In the modes that the parts had when the training began.
        with self._trace.module_mode(self._module, training=True):
            for part, training in self._modes.items():
                part.training = training
            return self._source(self._trained(self._trace.resized(self._example, size)))

    def _source(self, joint: Any) -> _mpc.ModelSource:
        return _mpc.source_bytes(f"{type(self._module).__name__}.mlir", joint.text.encode())

    def adjust(self, options: _mpc.TrainingOptions) -> None:
        joint, options.dropout = self._joint, {}
        if not joint.gradients:
            raise InvalidArgument(f"module {type(self._module).__name__}", "has no parameter that needs a gradient and "
                                  f"on which output '{joint.output}' depends")
        for name in options.trainable:
            if name in self.values and name not in joint.gradients:
                raise InvalidArgument(f"parameter '{name}'", "has no gradient: it needs none (requires_grad) or the "
                                      f"output '{joint.output}' does not depend on it")
        inputs = [name for name in self.values if name not in joint.statistics]
        options.parameters = [re.escape(name) for name in inputs]
        options.freeze = [*options.freeze, *(re.escape(name) for name in inputs if name not in joint.gradients)]
        options.gradients = [f"{name}={result}" for name, result in joint.gradients.items()]
        options.cotangent, options.loss.output = self._trace.COTANGENT, joint.output
        if self._loss is not None:
            options.loss.kind, options.loss.labels = "output", self._trace.LABELS

    def evaluation(self, size: int) -> _mpc.ModelSource:
        joint = self._trace.trace(self._module, self._trace.resized(self._example, size), self._joint.output, {},
                                  training=False, statistics=self._joint.statistics, loss=self._loss)
        return self._source(joint)

    def order(self, parameters: Sequence[str]) -> list[str]:
        return [name for name, _ in self._module.named_parameters() if name in parameters]

    def others(self) -> set[str]:
        return set(self._module.state_dict())

    def sync(self, weights: Mapping[str, Any]) -> Any:
        import torch

        tensors = self._trace.tensors_of(self._module)
        with torch.no_grad():
            for name, value in weights.items():
                tensors[name].copy_(value)
        return self._module

    def export(self, made: _mpc.Training, path: str) -> None:
        from . import _exported

        _exported.write_onnx(self._module, self._example if self._loss is None else self._example[:-1], path)


# ===----------------------------------------------------------------------=== #
# JAX
# ===----------------------------------------------------------------------=== #


class JaxLoss(TrainedModel):
    """A function of (parameters, *batch) that returns a scalar loss, or a tuple that starts with it.

    Leaves of the parameters are named by their paths: "layers.0.w".
    """

    def __init__(self, function: Any, example: Sequence[Any]):
        import jax
        import numpy as np

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
        self._data = example[1:]
        data = jax.tree.leaves(self._data)
        structure = jax.tree.structure(self._data)

        def flat(leaves: Sequence[Any], arrays: Sequence[Any]) -> tuple[Any, list[Any]]:
            found = function(jax.tree.unflatten(self._tree, leaves), *jax.tree.unflatten(structure, arrays))
            loss, *others = jax.tree.leaves(found)
            if jax.numpy.ndim(loss) != 0:
                raise InvalidArgument("model", f"is a JAX function that returns an array of shape "
                                      f"{jax.numpy.shape(loss)}, no scalar loss")
            return jax.numpy.asarray(loss, jax.numpy.float32), others

        def forward(*arrays: Any) -> list[Any]:
            loss, others = flat(arrays[:len(leaves)], arrays[len(leaves):])
            return [loss, *others]

        def joint(*arrays: Any) -> list[Any]:
            batch = arrays[len(leaves):-1]
            loss, pull, others = jax.vjp(lambda *given: flat(given, batch), *arrays[:len(leaves)], has_aux=True)
            self._count = 1 + len(others)
            return [loss, *others, *pull(arrays[-1])]

        joint.__name__ = forward.__name__ = getattr(function, "__name__", "loss")
        self._forward, self._arrays = forward, [*leaves, *data]
        super().__init__(_source.source(joint, [*self._arrays, np.float32(1)]))
        self._public = {f"arg{i}": name for i, name in enumerate(names)}
        self.values = {f"arg{i}": leaf for i, leaf in enumerate(leaves)}

    def adjust(self, options: _mpc.TrainingOptions) -> None:
        if options.dropout:
            raise InvalidArgument("dropout", "cannot be put into a JAX loss, whose gradient is JAX's: write it there")
        model = {public: name for name, public in self._public.items()}
        options.parameters = list(self._public)
        options.gradients = [f"{name}=out{self._count + i}" for i, name in enumerate(self._public)]
        options.cotangent = f"arg{len(self._arrays)}"
        for field in ("freeze", "trainable"):
            setattr(options, field, [model.get(name, name) for name in getattr(options, field)])
        options.loss.kind, options.loss.output = "output", "out0"
        options.loss.labels = f"arg{len(self._arrays) - 1}"

    def evaluation(self, size: int) -> _mpc.ModelSource | None:
        # The batch size is the traced one.
        return _source.source(self._forward, self._arrays)

    def name(self, parameter: str) -> str:
        return self._public.get(parameter, parameter)

    def flatten(self, batch: Sequence[Any]) -> list[Any]:
        return list(self._jax.tree.leaves(super().flatten(batch)))

    def sync(self, weights: Mapping[str, Any]) -> Any:
        # Frozen leaves stay unchanged.
        leaves = [self._jax.numpy.array(weights.get(public, self.values[name]))
                  for name, public in self._public.items()]
        return self._jax.tree.unflatten(self._tree, leaves)

    def export(self, made: _mpc.Training, path: str) -> None:
        raise InvalidArgument(path, "cannot be made from a JAX loss; sync() gives its parameters")
