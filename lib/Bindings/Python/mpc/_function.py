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
from ._policy import Policy, PolicyLike, as_policy, for_target
from ._reports import CheckReport, Explanation
from ._source import source

# The Gpu of a device is what calls on it share, so that there is one of each.
_devices: dict[tuple[str, int], tuple[_mpc.Device, _mpc.Gpu | None]] = {}
_engines: dict[tuple[str, int], _mpc.Engine] = {}
_lock = threading.RLock()

# DLPack's numbers of a GPU's memory, and of memory that host and GPU share.
_ON_GPU = (2, 13)


def _device(device: str | None, threads: int) -> tuple[_mpc.Device, _mpc.Gpu | None]:
    key = (device or "cpu", threads)
    if key[0].startswith("cuda"):
        # Threads are the host's; names of one GPU are one device.
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
    """The GPU of the first array that lies on one."""
    for array in arrays:
        tell = getattr(array, "__dlpack_device__", None)
        try:
            kind, number = tell() if callable(tell) else (0, 0)
        except (BufferError, RuntimeError, TypeError, ValueError):
            continue  # Of no device that DLPack knows, or of several.
        if kind in _ON_GPU:
            return f"cuda:{number}"
    return None


# What holds objects of the extension and may be held itself by what outlives the interpreter: the caches
# of Dynamo and JAX.
_holders: weakref.WeakSet[Any] = weakref.WeakSet()


def release_at_exit(holder: Any) -> None:
    """Has `holder._release()` called where the interpreter ends."""
    _holders.add(holder)


@atexit.register
def _release_all() -> None:
    for holder in list(_holders):
        holder._release()
    if threading.active_count() > 1:
        _mpc.end_under_threads()


class _Ended:
    """What stands for a function where the interpreter ends."""

    inputs: list[Any] = []

    def __call__(self, *_: Any, **__: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            time.sleep(1)  # The end takes the thread with it, which has no more to say.
        raise Unavailable("", "the interpreter ends, and functions of mpc with it")

    def __getattr__(self, name: str) -> Any:
        return self()


@dataclass(frozen=True)
class _LoadedFile:
    """What stands for the model of a loaded function."""
    name: str
    is_file: bool = True


class Function:
    """A model as a function of arrays.

    Call it with one array per input, by position or by name: NumPy, PyTorch, JAX or anything with
    DLPack or the buffer protocol, of the model's types. Contiguous arrays are read where they lie;
    results are new arrays of the framework that the inputs came from, one or a tuple of several.
    Arrays on the function's GPU stay there, and so do the results: the run is enqueued on the stream
    on which PyTorch or CuPy works now, and nothing waits for it. Shapes that are new are compiled for
    (tens of milliseconds to seconds), which Ctrl-C ends. Every member releases the interpreter's lock while it compiles or runs, and may be
    called from several threads.

    Raises `mpc.InvalidArgument` where an input is missing or has another type, and what a compile
    raises.
    """

    def __init__(self, made: _mpc.Function, policy: Policy | None, model: _mpc.ModelSource | _LoadedFile,
                 flags: Sequence[str]):
        # `flags` are those of the program mpc for the same compile.
        self._made, self._policy, self._model, self._flags = made, policy, model, list(flags)
        release_at_exit(self)

    def _release(self) -> None:
        """Frees what was compiled: no call comes any more."""
        self._made, self._model = _Ended(), _LoadedFile(self._model.name)  # type: ignore[assignment]

    def __copy__(self) -> Function:
        return self

    def __deepcopy__(self, _: Any) -> Function:
        return self

    def __reduce__(self) -> Any:
        raise InvalidArgument(self._model.name, "is a compiled function, which is not pickled; save() it as .mpcx and "
                              "mpc.load() that where it runs, or compile there")

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        return self._made(*arrays, **named)

    def compile(self, *arrays: Any, **named: Any) -> Function:
        """Compiles for arrays of these shapes now and runs nothing; returns itself."""
        self._made.prepare(*arrays, **named)
        return self

    def bench(self, *arrays: Any, seconds: float = 1.0, **named: Any) -> dict[str, float]:
        """Milliseconds of a run on these arrays, without the call from Python: `median`, `least`
        and the number of `runs`, one behind the other for about `seconds`."""
        times = self._made.time(seconds, *arrays, **named)
        return {"median": statistics.median(times), "least": min(times), "runs": len(times)}

    def explain(self, *arrays: Any, errors: bool = False, **named: Any) -> Explanation:
        """In which type each op computes, why, and in which kernel; a notebook shows it as tables.

        For arrays of these shapes; without arrays for those that it was compiled for last. With
        `errors` the model is run on the arrays in float64 as well, for seconds to minutes, and each
        op has its share of the error, each value its range. Runs the program mpc of the package.
        Raises `mpc.InvalidArgument` where extents that are the caller's are not known, or the
        function was loaded from a file.
        """
        if self._policy is None:
            raise InvalidArgument(self._model.name, "was loaded from a file; explain the model that it was made from")
        given = self._named(arrays, named)
        if errors and not given:
            raise InvalidArgument(self._model.name, "has no errors without arrays; give those of a sample")
        if given:
            self.compile(*arrays, **named)
        flags = [*self._flags, *([] if errors else self._dims())]

        def explained(how: Callable[[list[str]], Any]) -> Any:
            if not errors:
                return how(flags)
            with _program.arrays_file(given) as file:
                return how([*flags, f"--inputs={file}"])

        return Explanation(explained(lambda found: _program.run("explain", self._model, found)),
                           lambda path: explained(lambda found: _program.write_page("explain", self._model, found, path)))

    def _named(self, arrays: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        inputs = [value.name for value in self._made.inputs]
        if len(arrays) > len(inputs):
            raise InvalidArgument(self._model.name, f"takes {len(inputs)} inputs, not {len(arrays)}")
        return {**dict(zip(inputs, arrays)), **named}

    def _dims(self) -> list[str]:
        """Flags for the symbolic extents, as the last compile had them."""
        shapes, flags = dict(self._made.shapes), []
        for value in self._made.inputs:
            for extent, symbol, found in zip(value.shape, value.symbols, shapes.get(value.name, ())):
                flag = f"--dim={symbol}={found}"
                if extent < 0 and symbol and flag not in flags:
                    flags.append(flag)
        return [flag for flag in flags if flag not in self._flags]

    def check(self, *arrays: Any, per_op: bool = False, **named: Any) -> CheckReport:
        """How far the results on these arrays are from float64, and whether that is within what the
        policy's types can do; with `per_op` the same of each op. Without arrays inputs are drawn.

        Runs the program mpc of the package, which executes the model once in float64: seconds to
        minutes. The report is true where every output is within its tolerance.
        """
        given = self._named(arrays, named)
        flags = [*self._flags, *(["--per-op"] if per_op else []), *([] if given else self._dims())]
        with _program.arrays_file(given) as file:
            return CheckReport(_program.run("check", self._model, [*flags, *(["--inputs", file] if given else [])]))

    def save(self, path: str | os.PathLike[str], targets: str | Sequence[str] = "cpu:native",
             dims: Iterable[Mapping[str, int]] = ()) -> None:
        """Writes an .mpcx file, which `mpc.load`, `mpc run` and C++ hosts read.

        `targets`: "cpu:avx512", "cuda:sm_90a", ...; `dims`: extents of symbolic dimensions, a set
        for each specialisation that the file shall hold.
        """
        if isinstance(self._made, _mpc.LoadedFunction):
            raise InvalidArgument(self._model.name, "was loaded from a file; copy that file")
        wanted = [targets] if isinstance(targets, str) else list(targets)
        self._made.save(os.fspath(path), wanted, [dict(one) for one in dims])

    @property
    def policy(self) -> Policy | None:
        """The policy it is compiled under, of "auto" what that stood for; None of a loaded file."""
        return self._policy

    @property
    def inputs(self) -> list[_mpc.Input]:
        """Name, element type and shape of each input; an extent of -1 is the caller's choice."""
        return self._made.inputs

    @property
    def outputs(self) -> list[str]:
        """Names of the results, in order; empty before the first compile."""
        return self._made.outputs

    @property
    def layers(self) -> dict[str, str]:
        """For each layer the type in which most of its work is computed; empty before the first
        compile."""
        return dict(self._made.layers)

    @property
    def counts(self) -> _mpc.Counts:
        """Compiles, hits and evictions so far, of all functions of the same device."""
        return self._made.counts

    def __repr__(self) -> str:
        inputs = ", ".join(f"{i.name}: {i.dtype}{[e if e >= 0 else (s or '?') for e, s in zip(i.shape, i.symbols)]}"
                           for i in self.inputs)
        return f"<mpc.Function({inputs}) in {self._policy or 'a file'}>"


def as_overrides(overrides: Any) -> dict[str, str]:
    """Overrides as a dictionary; raises `mpc.InvalidArgument` where they are no pairs of texts."""
    try:
        pairs = None if isinstance(overrides, (str, bytes)) else dict(overrides)
    except (TypeError, ValueError):
        pairs = None
    if pairs is None or not all(isinstance(part, str) for pair in pairs.items() for part in pair):
        raise InvalidArgument("overrides", f'is {overrides!r}, no mapping of keys to types, such as '
                              '{"layer:head": "float32"}')
    return pairs


def change_policy(policy: Policy, device: str, threads: int, overrides: Mapping[str, str]) -> Policy:
    """The policy with overrides of its own: one that no op has is no mistake there."""
    return Policy(_on_device(policy, _device(device, threads)[0]), overrides=overrides) if overrides else policy


def _on_device(policy: Policy, device: _mpc.Device) -> Policy:
    """What "auto" stands for on a device; any other policy as it is."""
    return for_target(policy, f"cuda:{device.architecture}" if device.architecture else "")


def choose(policy: PolicyLike | None, device: str | None, overrides: Mapping[str, str] | Iterable[tuple[str, str]],
           dims: Mapping[str, int] | None, batch: int | None, rounding: str, threads: int,
           cache: bool) -> tuple[_mpc.Device, _mpc.CompileOptions, Policy]:
    """What compiles of functions and of training steps have in common."""
    if rounding not in ("strict", "relaxed"):
        raise ValueError(f'rounding is "{rounding}", neither "strict" nor "relaxed"')
    made, _ = _engine(device, threads)
    options = _mpc.CompileOptions()
    chosen = _on_device(as_policy(policy), made)
    options.policy = chosen.for_compiler()
    options.sets = list(as_overrides(overrides).items())
    options.dims = dict(dims or {})
    options.batch = batch
    options.relaxed_rounding = rounding == "relaxed"
    options.use_cache = cache
    return made, options, chosen


def compile(model: Any, *example: Any, policy: PolicyLike | None = None, device: str | None = None,
            overrides: Mapping[str, str] | Iterable[tuple[str, str]] = (),
            dims: Mapping[str, int] | None = None, batch: int | None = None,
            buckets: Mapping[str, Sequence[int]] | None = None, rounding: str = "strict",
            threads: int = 0, max_memory: int = 0, dump_dir: str | os.PathLike[str] = "",
            cache: bool = True) -> Function:
    """A model as a function of arrays.

    `model`: a path (.onnx, .mlir), ONNX bytes, text of the mpc or StableHLO dialect, a
    `torch.nn.Module`, a program of `torch.export` or a JAX function; the last three are traced on
    `example`, an exported program without one on its own. Given an `example`, it is compiled for its
    shapes now, else at the first call.

    `policy`: an `mpc.Policy` or what makes one: a built-in policy's name, a path that ends in .json,
    or "auto" for what suits the device; None takes that of `with mpc.policy(...)`, else the global
    one, which is "auto" unless `mpc.set_global_policy` was called. `overrides`: types for ops, layers
    or names: `{"layer:encoder/.*": "float32"}`. `device`: "cpu", "cuda" or "cuda:N"; None takes the
    GPU on which the example lies, else the processor.
    `dims`, `batch`: extents of symbolic dimensions.
    `buckets`: extents that calls are padded to, of arrays in host memory. `rounding`: "strict"
    executes every cast, "relaxed" may drop one that is undone inside a kernel. `threads`: most that a
    run uses, 0 for all cores. `max_memory`: most bytes that the program may need, 0 for no limit. `dump_dir`: a folder that
    receives the IR of every stage. `cache`: whether the user's cache of compiles is used.

    Raises `mpc.InvalidArgument` for a wrong model, policy or argument, `mpc.NotFound` for a file
    that is not there, `mpc.Unavailable` for a device that this machine lacks.
    """
    if max_memory < 0:
        raise InvalidArgument("max_memory", f"is {max_memory}, expected at least 0")
    device = device or device_of(example)
    _, options, chosen = choose(policy, device, overrides, dims, batch, rounding, threads, cache)
    _, engine = _engine(device, threads)
    options.buckets = {name: list(extents) for name, extents in (buckets or {}).items()}
    options.max_memory = max_memory
    options.dump_dir = os.fspath(dump_dir)
    read = source(model, example)
    flags = [f"--policy={options.policy}", f"--device={device or 'cpu'}", f"--rounding={rounding}",
             *(f"--set={key}={kind}" for key, kind in options.sets),
             *(f"--dim={name}={extent}" for name, extent in options.dims.items()),
             *([f"--batch={batch}"] if batch else []), *([f"--threads={threads}"] if threads else [])]
    _, gpu = _device(device, threads)
    function = Function(_mpc.CompiledFunction(engine, gpu, read, options), chosen, read, flags)
    return function.compile(*example) if example else function


def load(path: str | os.PathLike[str], *, device: str | None = None, threads: int = 0) -> Function:
    """The function of an .mpcx file. Its machine code runs in this process: load only files that
    you trust. Raises `mpc.NotFound` where there is no such file or it is damaged, and
    `mpc.InvalidArgument` at a call for shapes that the file lacks."""
    made, gpu = _device(device, threads)
    flags = [f"--device={device or 'cpu'}", *([f"--threads={threads}"] if threads else [])]
    file = os.fspath(path)
    return Function(_mpc.LoadedFunction(made, gpu, file), None, _LoadedFile(file), flags)
