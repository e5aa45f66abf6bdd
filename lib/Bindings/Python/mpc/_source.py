# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Conversion of users' models to ONNX bytes or text of the mpc or StableHLO dialect."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from . import _mpc
from ._errors import InvalidArgument


def digest(kind: str, data: Any) -> str:
    """A name for the elements of a row-major array of type `kind`."""
    made = hashlib.sha256(kind.encode())
    made.update(data)
    return made.hexdigest()[:32]


def exported(model: Any, example: Sequence[Any], named: Mapping[str, Any], dynamic_shapes: Any) -> Any:
    """A torch module or exported program as an `_exported.Exported`; None for other models."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        if not example and not named:
            need((), "a torch.nn.Module")
        from . import _exported

        return _exported.trace(model, example, named, dynamic_shapes)
    if dynamic_shapes is not None:
        raise InvalidArgument("dynamic_shapes", "are those of a torch.nn.Module that mpc.compile exports; others have "
                              "dynamic dimensions of their own")
    if torch is not None and isinstance(model, torch.export.ExportedProgram):
        from . import _exported

        return _exported.Exported("exported.mlir", model)
    return None


def source(model: Any, example: Sequence[Any]) -> _mpc.ModelSource:
    """Returns a source for a path, ONNX bytes, `.mlir` text or a JAX function."""
    if isinstance(model, _mpc.ModelSource):
        return model
    if isinstance(model, (bytes, bytearray, memoryview)):
        return _from_bytes(bytes(model))
    if isinstance(model, str) and "\n" in model:
        return _mpc.source_bytes("text.mlir", model.encode())
    if isinstance(model, (str, os.PathLike)):
        return _mpc.source_file(os.fspath(model))
    if callable(model) and "jax" in sys.modules:
        return _mpc.source_bytes(f"{getattr(model, '__name__', 'function')}.mlir", _trace_jax(model, example))
    raise InvalidArgument("model", f"is a {type(model).__name__}, none of a path, ONNX bytes, .mlir text, "
                          "a torch.nn.Module, an exported program and a JAX function")


def _from_bytes(data: bytes) -> _mpc.ModelSource:
    # An ONNX protobuf starts with a field tag, which is never one of these.
    if data[:1] in (b"m", b"f", b"/", b"#"):
        return _mpc.source_bytes("text.mlir", data)
    return _mpc.source_bytes("model.onnx", data)


def need(example: Sequence[Any], what: str) -> None:
    """Raises if there is no example to trace `what` on."""
    if not example:
        raise InvalidArgument("model", f"is {what}, which is traced: give an array for each of its inputs")


def _trace_jax(function: Any, example: Sequence[Any]) -> bytes:
    import jax

    need(example, "a JAX function")
    if jax.tree.structure(tuple(example)) != jax.tree.structure((0,) * len(example)):
        raise InvalidArgument("model", "is a JAX function of trees of arrays; mpc.jax.jit() takes it, mpc.compile() "
                              "one of arrays")
    return jax.jit(function, keep_unused=True).lower(*example).as_text().encode()


def is_tensor(array: Any) -> bool:
    """Returns true for a PyTorch tensor, without importing PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, getattr(torch, "Tensor", ()))


def to_host(array: Any) -> Any:
    """Copies a GPU array to host memory; a tensor stays a tensor."""
    return array.detach().cpu() if is_tensor(array) else to_numpy(array)


def to_numpy(array: Any) -> Any:
    """Converts an array of any framework to NumPy; bfloat16 as its bits if NumPy has no such type."""
    import numpy as np

    if is_tensor(array):
        array = array.detach().cpu().resolve_neg().contiguous()
        if str(array.dtype) == "torch.bfloat16":
            import torch

            array = array.view(torch.uint16)
        return array.numpy()
    if type(array).__module__.startswith("cupy"):
        return array.get()
    return array.numpy() if isinstance(array, _mpc.GpuArray) else np.asarray(array)
