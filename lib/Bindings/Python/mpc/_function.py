# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiled models as functions of arrays."""

from __future__ import annotations

import atexit
import os
import statistics
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import _mpc, _program
from ._errors import InvalidArgument, Unavailable
from ._policy import Policy, PolicyLike, advise, as_policy, for_target
from ._reports import CheckReport, Explanation
from ._source import exported, source

# Devices and engines by name and threads; the Gpu of a device is shared by all calls on it.
_devices: dict[tuple[str, int], tuple[_mpc.Device, _mpc.Gpu | None]] = {}
_engines: dict[tuple[str, int], _mpc.Engine] = {}
_lock = threading.RLock()

# DLPack device types: CUDA memory and CUDA managed memory.
_ON_GPU = (2, 13)


def _device(device: str | None, threads: int) -> tuple[_mpc.Device, _mpc.Gpu | None]:
    key = (device or "cpu", threads)
    if key[0].startswith("cuda"):
        # Threads only apply to the host; all names of one GPU are one device.
        key = ("cuda" if device == "cuda:0" else key[0], 0)
    with _lock:
        if key not in _devices:
            made = _mpc.device(*key)
            _devices[key] = made, _mpc.Gpu(made) if made.has_own_memory else None
        return _devices[key]


def _engine(device: str | None, threads: int) -> tuple[_mpc.Device, _mpc.Engine]:
    key = (device or "cpu", threads)
    with _lock:
        made, _ = _device(device, threads)
        if key not in _engines:
            _engines[key] = _mpc.engine(made)
        return made, _engines[key]


def device_of(arrays: Iterable[Any]) -> str | None:
    """The GPU of the first array on one."""
    for array in arrays:
        tell = getattr(array, "__dlpack_device__", None)
        try:
            kind, number = tell() if callable(tell) else (0, 0)
        except (BufferError, RuntimeError, TypeError, ValueError):
            continue  # No device that DLPack knows, or several.
        if kind in _ON_GPU:
            return f"cuda:{number}"
    return None


# Owners of extension objects that may themselves be referenced beyond the interpreter's end: by the caches of
# Dynamo and JAX.
_holders: weakref.WeakSet[Any] = weakref.WeakSet()


def release_at_exit(holder: Any) -> None:
    """Registers `holder._release()` to be called at the interpreter's end."""
    _holders.add(holder)


@atexit.register
def _release_all() -> None:
    for holder in list(_holders):
        holder._release()
    if threading.active_count() > 1:
        _mpc.end_under_threads()


class _Ended:
    """Replaces a function at the interpreter's end."""

    inputs: list[Any] = []

    def __call__(self, *_: Any, **__: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            time.sleep(1)  # The thread ends with the interpreter.
        raise Unavailable("", "functions of mpc cannot be called while the interpreter exits")

    def __getattr__(self, name: str) -> Any:
        return self()


@dataclass(frozen=True)
class _LoadedFile:
    """Replaces the model of a loaded function."""
    name: str
    is_file: bool = True


@dataclass(frozen=True)
class _Text:
    """An exported module's text for some shapes."""
    name: str
    text: bytes
    is_file: bool = False

    def read(self) -> bytes:
        return self.text


class Function:
    """A model as a function of arrays.

    Call it with one array per input, by position or by name: NumPy, PyTorch, JAX or anything with DLPack
    or the buffer protocol, of the model's types. Contiguous arrays are used without a copy; results are
    new arrays of the inputs' framework, one or a tuple of several, and of a torch module in the structure
    that its forward() returns. With arrays on the function's GPU the results are there too: the run is
    asynchronous, on the current stream of PyTorch or CuPy. New shapes are compiled (tens of milliseconds
    to seconds, cancelled by Ctrl-C). Every member releases the GIL while it compiles or runs, and is
    thread-safe.

    Raises `mpc.InvalidArgument` if an input is missing or has another type, and what a compile raises.
    """

    def __init__(self, made: _mpc.Function, policy: Policy | None, model: _mpc.ModelSource | _LoadedFile,
                 flags: Sequence[str], exported: Any = None):
        # `flags` are the equivalent flags of the program mpc; `exported` is the program of a torch module.
        self._made, self._policy, self._model, self._flags = made, policy, model, list(flags)
        self._exported = exported
        release_at_exit(self)

    def _release(self) -> None:
        """Frees compiled code; there are no further calls."""
        self._made, self._model = _Ended(), _LoadedFile(self._model.name)  # type: ignore[assignment]

    def __copy__(self) -> Function:
        return self

    def __deepcopy__(self, _: Any) -> Function:
        return self

    def __reduce__(self) -> Any:
        raise InvalidArgument(self._model.name, "is a compiled function, which is not pickled; save() it as .mpcx and "
                              "mpc.load() that where it runs, or compile there")

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        if self._exported is None:
            return self._made(*arrays, **named)
        arrays, named = self._exported.arguments(arrays, named)
        return self._exported.result(self._made(*arrays, **named))

    def _tensors(self, arrays: Any, named: Any) -> Any:
        return (arrays, named) if self._exported is None else self._exported.arguments(arrays, named)

    def compile(self, *arrays: Any, **named: Any) -> Function:
        """Compiles for arrays of these shapes without running; returns itself."""
        arrays, named = self._tensors(arrays, named)
        self._made.prepare(*arrays, **named)
        return self

    def bench(self, *arrays: Any, seconds: float = 1.0, **named: Any) -> dict[str, float]:
        """Times runs on these arrays, without Python's call overhead: `median_ms`, `min_ms` and the number
        of consecutive `runs` in about `seconds`."""
        arrays, named = self._tensors(arrays, named)
        times = self._made.time(seconds, *arrays, **named)
        return {"median_ms": statistics.median(times), "min_ms": min(times), "runs": len(times)}

    def explain(self, *arrays: Any, errors: bool = False, **named: Any) -> Explanation:
        """Reports the compute type of each op, the reason, and its kernel; displayed as tables in a
        notebook.

        For arrays of these shapes, by default those of the last compile. With `errors` also runs the
        model on the arrays in float64 (seconds to minutes) and reports each op's share of the error and
        each value's range. Runs the package's program mpc. Raises `mpc.InvalidArgument` if dynamic
        extents are unknown, or the function was loaded from a file.
        """
        if self._policy is None:
            raise InvalidArgument(self._model.name, "was loaded from a file; explain the model that it was compiled from")
        given = self._named(arrays, named)
        if errors and not given:
            raise InvalidArgument(self._model.name, "has no errors without arrays; give those of a sample")
        if given:
            self.compile(*arrays, **named)
        flags = [*self._flags, *([] if errors else self._dims())]
        model = self._static(given)

        def explained(how: Callable[[list[str]], Any]) -> Any:
            if not errors:
                return how(flags)
            with _program.arrays_file(given) as file:
                return how([*flags, f"--inputs={file}"])

        return Explanation(explained(lambda found: _program.run("explain", model, found)),
                           lambda path: explained(lambda found: _program.write_page("explain", model, found, path)))

    def _static(self, given: Mapping[str, Any]) -> Any:
        """The model for the program mpc: of an exported module the text for the shapes of these arrays, by
        default of the last compile."""
        if self._exported is None:
            return self._model
        shapes = {name: list(getattr(array, "shape", ())) for name, array in given.items()} or dict(self._made.shapes)
        if not shapes:
            raise InvalidArgument(self._model.name, "was not compiled for any shapes yet; give arrays")
        return _Text(self._model.name, self._exported.whole_text(shapes))

    def _named(self, arrays: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        arrays, named = self._tensors(arrays, named)
        inputs = [value.name for value in self._made.inputs]
        if len(arrays) > len(inputs):
            raise InvalidArgument(self._model.name, f"takes {len(inputs)} inputs, not {len(arrays)}")
        return {**dict(zip(inputs, arrays)), **named}

    def _dims(self) -> list[str]:
        """Flags for the symbolic extents of the last compile; an exported module's text has none."""
        if self._exported is not None:
            return []
        shapes, flags = dict(self._made.shapes), []
        for value in self._made.inputs:
            for extent, symbol, found in zip(value.shape, value.symbols, shapes.get(value.name, ())):
                flag = f"--dim={symbol}={found}"
                if extent < 0 and symbol and flag not in flags:
                    flags.append(flag)
        return [flag for flag in flags if flag not in self._flags]

    def check(self, *arrays: Any, per_op: bool = False, **named: Any) -> CheckReport:
        """Checks the results on these arrays against the float64 oracle, with a tolerance for the policy's
        types; with `per_op` also each op. Without arrays inputs are random.

        Runs the package's program mpc, which executes the model once in float64: seconds to minutes. The
        report is true if every output is within its tolerance.
        """
        given = self._named(arrays, named)
        flags = [*self._flags, *(["--per-op"] if per_op else []), *([] if given else self._dims())]
        with _program.arrays_file(given) as file:
            return CheckReport(_program.run("check", self._static(given),
                                            [*flags, *(["--inputs", file] if given else [])]))

    def save(self, path: str | os.PathLike[str], targets: str | Sequence[str] = "cpu:native",
             dims: Mapping[str, int] | Iterable[Mapping[str, int]] = ()) -> None:
        """Writes an .mpcx file for `mpc.load`, `mpc run` and C++ hosts.

        `targets`: "cpu:avx512", "cuda:sm_90a", ...; `dims`: extents of symbolic dimensions, one set per
        specialization in the file, as in `[{"batch": 1}, {"batch": 8}]`. Other dimensions are those of the
        last compile.
        """
        if isinstance(self._made, _mpc.LoadedFunction):
            raise InvalidArgument(self._model.name, "was loaded from a file; copy that file")
        wanted = [targets] if isinstance(targets, str) else list(targets)
        sets = [dims] if isinstance(dims, Mapping) else dims
        self._made.save(os.fspath(path), wanted, [dict(one) for one in sets])

    @property
    def policy(self) -> Policy | str:
        """The policy of the compile, for "auto" the selected one; of a loaded file its name or file name."""
        return self._policy or self._made.policy

    @property
    def inputs(self) -> list[_mpc.Input]:
        """Name, element type and shape of each input; -1 is a dynamic extent."""
        return self._made.inputs

    @property
    def outputs(self) -> list[str]:
        """Names of the results, in order; empty before the first compile."""
        return self._made.outputs

    @property
    def layers(self) -> dict[str, str]:
        """For each layer the type of most of its computation; empty before the first compile."""
        return dict(self._made.layers)

    @property
    def counts(self) -> _mpc.Counts:
        """Number of compiles, cache hits and evictions so far, of all functions of the same device."""
        return self._made.counts

    def __repr__(self) -> str:
        inputs = ", ".join(f"{i.name}: {i.dtype}{[e if e >= 0 else (s or '?') for e, s in zip(i.shape, i.symbols)]}"
                           for i in self.inputs)
        return f"<mpc.Function({inputs}) in {self.policy}>"


def as_overrides(overrides: Any) -> dict[str, str]:
    """Returns overrides as a dictionary; raises `mpc.InvalidArgument` unless they are pairs of strings."""
    try:
        pairs = None if isinstance(overrides, (str, bytes)) else dict(overrides)
    except (TypeError, ValueError):
        pairs = None
    if pairs is None or not all(isinstance(part, str) for pair in pairs.items() for part in pair):
        raise InvalidArgument("overrides", f'is {overrides!r}, not a mapping of keys to types, such as '
                              '{"layer:head": "float32"}')
    return pairs


def change_policy(policy: Policy, device: str, threads: int, overrides: Mapping[str, str]) -> Policy:
    """Returns the policy with additional overrides, which need not match any op."""
    target = _target(_device(device, threads)[0])
    return Policy(for_target(policy, target), overrides=overrides) if overrides else policy


def _target(device: _mpc.Device) -> str:
    """The target of a device; empty for the CPU."""
    return f"cuda:{device.architecture}" if device.architecture else ""


def choose(policy: PolicyLike | None, device: str | None, overrides: Mapping[str, str] | Iterable[tuple[str, str]],
           dims: Mapping[str, int] | None, batch: int | None, rounding: str, threads: int,
           cache: bool) -> tuple[_mpc.Device, _mpc.CompileOptions, Policy]:
    """Common set-up of functions and training steps."""
    if rounding not in ("strict", "relaxed"):
        raise ValueError(f'rounding is "{rounding}", neither "strict" nor "relaxed"')
    made, _ = _engine(device, threads)
    options = _mpc.CompileOptions()
    wanted = as_policy(policy)
    advise(wanted, _target(made))
    chosen = for_target(wanted, _target(made))
    options.policy = chosen.for_compiler()
    options.sets = list(as_overrides(overrides).items())
    options.dims = dict(dims or {})
    options.batch = batch
    options.relaxed_rounding = rounding == "relaxed"
    options.use_cache = cache
    return made, options, chosen


def compile(model: Any, /, *example: Any, policy: PolicyLike | None = None, device: str | None = None,
            overrides: Mapping[str, str] | Iterable[tuple[str, str]] = (),
            dims: Mapping[str, int] | None = None, batch: int | None = None,
            buckets: Mapping[str, Sequence[int]] | None = None, rounding: str = "strict",
            threads: int = 0, max_memory: int = 0, dump_dir: str | os.PathLike[str] = "",
            cache: bool = True, dynamic_shapes: Any = None, reproducible: bool = False,
            verify: bool = False, **named: Any) -> Function:
    """Compiles a model to a function of arrays.

    `model`: a path (.onnx, .mlir, the folder of a Hugging Face model), ONNX bytes, text of the mpc or
    StableHLO dialect, a `torch.nn.Module`, a program of `torch.export` or a JAX function. Given an
    `example`, by position or by the inputs' names, compiles for its shapes now, else at the first call.

    A module is exported by `torch.export` on its example, in inference mode; a JAX function is traced. The
    first dimension of a module's tensors is open unless its code fixes it; `dynamic_shapes`, as for
    `torch.export.export`, opens others: `{"input_ids": {1: torch.export.Dim("length")}}`.

    `policy`: an `mpc.Policy` or its constructor's argument: a built-in policy's name, a path that ends in
    .json, or "auto" for the best of the device; None: that of `with mpc.policy(...)`, else the global
    one, which is "float32" unless `mpc.set_global_policy` was called. `overrides`: types for ops, layers or
    names: `{"layer:encoder/.*": "float32"}`. `device`: "cpu", "cuda" or "cuda:N"; None: the GPU of the
    example, else the CPU. `dims`, `batch`: extents of symbolic dimensions. `buckets`: extents that calls
    with host arrays are padded to. `rounding`: "strict" executes every cast, "relaxed" may drop one that
    is undone inside a kernel. `reproducible`: whether results have the same bits on every CPU of a bit class,
    with any number of threads; CPUs only. `verify`: whether to prove of each compile that its fused program
    equals the model's graph, without the on-disk compile cache; a difference raises `mpc.Error`. `threads`: maximum threads of a run, 0: all cores. `max_memory`: memory
    limit of the program in bytes, 0: none. `dump_dir`: folder for the IR of every stage. `cache`: whether
    to use the on-disk compile cache.

    Raises `mpc.InvalidArgument` for an invalid model, policy or argument, `mpc.NotFound` for a missing
    file, `mpc.Unavailable` for a device that this machine lacks.
    """
    for option, value in {"batch": batch, "threads": threads, "max_memory": max_memory}.items():
        if value is not None and not isinstance(value, int):
            raise InvalidArgument(option, f"is a {type(value).__name__}, but an option of mpc.compile, an integer; give "
                                  "an input of this name by position")
    if max_memory < 0:
        raise InvalidArgument("max_memory", f"is {max_memory}, expected at least 0")
    device = device or device_of((*example, *named.values()))
    _, options, chosen = choose(policy, device, overrides, dims, batch, rounding, threads, cache)
    _, engine = _engine(device, threads)
    options.buckets = {name: list(extents) for name, extents in (buckets or {}).items()}
    options.reproducible = reproducible
    options.verify = verify
    options.max_memory = max_memory
    options.dump_dir = os.fspath(dump_dir)
    program = exported(model, example, named, dynamic_shapes)
    read = program.source() if program else source(model, example)
    flags = [f"--policy={options.policy}", f"--device={device or 'cpu'}", f"--rounding={rounding}",
             *(f"--set={key}={kind}" for key, kind in options.sets),
             *([] if program else [f"--dim={name}={extent}" for name, extent in options.dims.items()]),
             *([f"--batch={batch}"] if batch and not program else []), *([f"--threads={threads}"] if threads else []),
             *(["--reproducible"] if reproducible else [])]
    _, gpu = _device(device, threads)
    function = Function(_mpc.CompiledFunction(engine, gpu, read, options), chosen, read, flags, program)
    return function.compile(*example, **named) if example or named else function


def load(path: str | os.PathLike[str], *, device: str | None = None, threads: int = 0) -> Function:
    """Loads the function of an .mpcx file. Its machine code runs in this process: load trusted files only.
    Raises `mpc.NotFound` if the file is missing or corrupt, and `mpc.InvalidArgument` at a call for
    shapes that the file lacks."""
    made, gpu = _device(device, threads)
    flags = [f"--device={device or 'cpu'}", *([f"--threads={threads}"] if threads else [])]
    file = os.fspath(path)
    return Function(_mpc.LoadedFunction(made, gpu, file), None, _LoadedFile(file), flags)
