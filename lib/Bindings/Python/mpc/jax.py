# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""JAX functions compiled by mpc: `mpc.jax.jit` in place of `jax.jit`."""

from __future__ import annotations

import functools
import inspect
import json
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import numpy as np

from . import _function, _mpc
from ._errors import InvalidArgument
from ._policy import PolicyLike, as_policy
from ._source import digest

# ===----------------------------------------------------------------------=== #
# Programs of flat lists of arrays
# ===----------------------------------------------------------------------=== #


class _Results:
    """Tracks JAX arrays in mpc's memory, in which donated ones may be overwritten in place.

    Arrays of other origin may share memory with NumPy, where an overwrite would be visible.
    """

    def __init__(self) -> None:
        self._kept: dict[int, tuple[weakref.ref[Any], _mpc.SharedResult]] = {}

    def array(self, result: _mpc.SharedResult) -> Any:
        array = result.to_array(_mpc.Framework.JAX)
        key = id(array)
        self._kept[key] = weakref.ref(array, lambda _: self._kept.pop(key, None)), result
        return array

    def take(self, array: Any) -> _mpc.SharedResult | None:
        """The result that an array was created from."""
        reference, result = self._kept.pop(id(array), (None, None))
        return result if reference is not None and reference() is array else None


_results = _Results()


class _Program:
    """A function of a flat list of arrays, traced for one set of types and compiled at its first call.

    `constants`, by index, are part of the compiled program, which is compiled anew for other arrays.
    """

    def __init__(self, function: Callable[..., Any], types: Sequence[Any], donated: Sequence[int],
                 options: dict[str, Any], constants: Sequence[int] = ()):
        # The results' leaves are known only after tracing.
        traced = jax.jit(function, keep_unused=True, donate_argnums=tuple(donated)).trace(*types)
        self.results = list(jax.tree.leaves(traced.out_info))
        self._options = options
        self._name = f"{getattr(function, '__name__', 'function')}.mlir"
        self._text = traced.lower().as_text()
        self._constants = list(constants)
        self._inputs = [i for i in range(len(types)) if i not in self._constants]
        self._numbers = [self._inputs.index(i) for i in donated]
        self._made: tuple[list[Any], _mpc.Function] | None = None
        _function.release_at_exit(self)

    def _release(self) -> None:
        """Frees compiled code; a later call would compile again."""
        self._made = None

    def _source(self, constants: Sequence[Any]) -> _mpc.ModelSource:
        if not constants:
            return _mpc.source_bytes(self._name, self._text.encode())
        arrays = [np.ascontiguousarray(array) for array in constants]
        digests = [digest(str(array.dtype), array.reshape(-1).view(np.uint8)) for array in arrays]
        names = [""] * (len(self._inputs) + len(constants))
        for i, name in zip(self._constants, digests):
            names[i] = name
        head, rest = self._text.split(" attributes {", 1)
        text = f"{head} attributes {{mpc.external = {json.dumps(names)}, {rest}"
        return _mpc.source_bytes(self._name, text.encode(), dict(zip(digests, arrays)))

    def _compiled(self, leaves: Sequence[Any]) -> _mpc.Function:
        constants = [leaves[i] for i in self._constants]
        for i, array in zip(self._constants, constants):
            if array.is_deleted():
                raise InvalidArgument(f"argument {i}", "is constant and was deleted")
        made = self._made
        if made is None or any(array is not known for array, known in zip(constants, made[0])):
            device = self._options.get("device") or _function.device_of(leaves)
            found = _function.compile(self._source(constants), **{**self._options, "device": device})
            made = self._made = constants, found._made
        return made[1]

    def __call__(self, leaves: Sequence[Any]) -> list[Any]:
        function = self._compiled(leaves)
        leaves = [leaves[i] for i in self._inputs]
        if not self._numbers:
            results = function(*leaves)
            return list(results) if isinstance(results, tuple) else [results]
        given, unique = list(leaves), set()
        for i in self._numbers:
            if leaves[i].is_deleted():
                raise InvalidArgument(f"argument {i}", "was deleted: it was donated to a call before, or twice to this "
                                      "one")
            result = _results.take(leaves[i])
            if result is None:
                continue
            leaves[i].delete()
            given[i] = result
            # Otherwise a NumPy view, an export or a pending JAX computation still reads it.
            if result.is_unique:
                unique.add(f"arg{self._inputs[i]}")
        results = function.call_in_place(unique, *given)
        for i in self._numbers:
            if not leaves[i].is_deleted():
                leaves[i].delete()
        return [_results.array(result) for result in results]


def _is_float(kind: Any) -> bool:
    return bool(jax.numpy.issubdtype(kind.dtype, jax.numpy.floating))


def _like(kind: Any) -> Any:
    # Weak types of Python numbers adopt the type of the other operand.
    return jax.ShapeDtypeStruct(kind.shape, kind.dtype, weak_type=getattr(kind, "weak_type", False))


def _run(program: _Program, leaves: Sequence[Any]) -> list[Any]:
    """Runs the program, inside a JAX trace as a host callback."""
    if not any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        return program(leaves)
    shapes = [_like(kind) for kind in program.results]
    return list(jax.pure_callback(lambda *arrays: program([jax.numpy.asarray(a) for a in arrays]), shapes, *leaves,
                                  vmap_method="sequential"))


# ===----------------------------------------------------------------------=== #
# Gradients
# ===----------------------------------------------------------------------=== #


class _Differentiable:
    """A function of leaves and the two programs of its gradient, each traced and compiled on demand.

    The residuals of the backward pass are those of `jax.vjp`: a forward program returns them after its
    results, and the backward program takes them.
    """

    def __init__(self, function: Callable[..., list[Any]], types: Sequence[Any], donated: Sequence[int],
                 options: dict[str, Any], constants: Sequence[int]):
        self._function, self._types, self._options, self._donated = function, types, options, donated
        self._direct = _Program(function, types, donated, options, constants)
        # Inside of a trace constants are arguments: a callback gets new arrays in every call.
        self._plain = None if constants else self._direct
        self._pair: tuple[_Program, _Program] | None = None
        self._kept: Any = None
        self.call = jax.custom_vjp(self._primal)
        self.call.defvjp(self._forward, self._backward)

    def __call__(self, leaves: Sequence[Any]) -> list[Any]:
        # Fast path without JAX if no gradient is traced.
        if not any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            return self._direct(leaves)
        return list(self.call(*leaves))

    def _primal(self, *leaves: Any) -> tuple[Any, ...]:
        if self._plain is None:
            self._plain = _Program(self._function, self._types, self._donated, self._options)
        return tuple(_run(self._plain, leaves))

    def _programs(self) -> tuple[_Program, _Program]:
        if self._pair is not None:
            return self._pair
        floats = [i for i, kind in enumerate(self._types) if _is_float(kind)]
        function, name = self._function, getattr(self._function, "__name__", "function")

        def forward(*leaves: Any) -> Any:
            def of_floats(*chosen: Any) -> Any:
                given = list(leaves)
                for i, leaf in zip(floats, chosen):
                    given[i] = leaf
                results = function(*given)
                return [r for r in results if _is_float(r)], [r for r in results if not _is_float(r)]

            results, pull, others = jax.vjp(of_floats, *[leaves[i] for i in floats], has_aux=True)
            residuals, self._kept = jax.tree.flatten(pull)
            return [results, others, residuals]

        forward.__name__ = f"{name}_forward"
        made = _Program(forward, self._types, (), self._options)
        results = [kind for kind in self._direct.results if _is_float(kind)]
        residuals = made.results[len(self._direct.results):]

        def backward(*arrays: Any) -> Any:
            pull = jax.tree.unflatten(self._kept, arrays[:len(residuals)])
            return pull(list(arrays[len(residuals):]))

        backward.__name__ = f"{name}_backward"
        self._pair = made, _Program(backward, [_like(kind) for kind in [*residuals, *results]], (), self._options)
        return self._pair

    def _forward(self, *leaves: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        found = _run(self._programs()[0], leaves)
        kinds = [_is_float(kind) for kind in self._direct.results]
        floats, others = iter(found[:sum(kinds)]), iter(found[sum(kinds):len(kinds)])
        return tuple(next(floats if is_float else others) for is_float in kinds), tuple(found[len(kinds):])

    def _backward(self, residuals: tuple[Any, ...], cotangents: Sequence[Any]) -> tuple[Any, ...]:
        given = [c for c, kind in zip(cotangents, self._direct.results) if _is_float(kind)]
        found = iter(_run(self._programs()[1], [*residuals, *given]))
        return tuple(next(found) if _is_float(kind) else np.zeros(kind.shape, jax.dtypes.float0)
                     for kind in self._types)


# ===----------------------------------------------------------------------=== #
# jit
# ===----------------------------------------------------------------------=== #


class _Chosen:
    """Arguments by number, counted from the end if negative, or by name; one implies the other."""

    def __init__(self, function: Callable[..., Any], what: str, numbers: int | Sequence[int],
                 names: str | Iterable[str]):
        self._numbers = {numbers} if isinstance(numbers, int) else set(numbers)
        self._names = {names} if isinstance(names, str) else set(names)
        try:
            kinds = inspect.signature(function).parameters.values()
        except (TypeError, ValueError):
            return
        places = [kind.name for kind in kinds if kind.kind in (kind.POSITIONAL_ONLY, kind.POSITIONAL_OR_KEYWORD)]
        if all(kind.kind is not kind.VAR_POSITIONAL for kind in kinds):
            if others := [i for i in self._numbers if not -len(places) <= i < len(places)]:
                raise InvalidArgument(f"{what}_argnums", f"has {others[0]}, but the function has {len(places)} "
                                      "positional arguments")
            self._numbers = {i + len(places) if i < 0 else i for i in self._numbers}
        if all(kind.kind is not kind.VAR_KEYWORD for kind in kinds):
            if unknown := sorted(self._names.difference(kind.name for kind in kinds)):
                raise InvalidArgument(f"{what}_argnames", f"has '{unknown[0]}', which is no argument of the function")
        by_name = {places.index(name) for name in self._names if name in places}
        self._names |= {places[i] for i in self._numbers if -len(places) <= i < len(places)}
        self._numbers |= by_name

    def numbers(self, count: int) -> set[int]:
        return {i % count for i in self._numbers if -count <= i < count}

    def names(self, named: Iterable[str]) -> list[str]:
        return sorted(self._names.intersection(named))


def _is_key(kind: Any) -> bool:
    # PRNG keys are not a NumPy type; check that first, since each call checks every leaf.
    return not isinstance(kind.dtype, np.dtype) and bool(jax.dtypes.issubdtype(kind.dtype, jax.dtypes.prng_key))


def _leaf(value: Any) -> Any:
    return value if isinstance(value, jax.Array) else jax.numpy.array(value)


class _Flat:
    """Flattens a function of trees to a list of leaves. PRNG keys are passed as their integer data, in both
    directions; the results' structure is known after tracing."""

    def __init__(self, function: Callable[..., Any], tree: Any, leaves: Sequence[Any], places: Sequence[int],
                 fixed: Sequence[tuple[int, Any]], fixed_names: dict[str, Any]):
        self._function, self._tree, self._places = function, tree, places
        self._fixed, self._fixed_names = fixed, fixed_names
        self._keys = [jax.random.key_impl(leaf) if _is_key(leaf) else None for leaf in leaves]
        self._results: Any = None
        self._result_keys: list[Any] = []
        self.__name__ = getattr(function, "__name__", "function")

    def __call__(self, *leaves: Any) -> list[Any]:
        given, named = jax.tree.unflatten(self._tree, self._wrap(leaves, self._keys))
        arguments = dict([*zip(self._places, given), *self._fixed])
        found = self._function(*(arguments[i] for i in range(len(arguments))), **named, **self._fixed_names)
        results, self._results = jax.tree.flatten(found)
        results = [_leaf(result) for result in results]
        self._result_keys = [jax.random.key_impl(result) if _is_key(result) else None for result in results]
        return self.bits(results)

    @staticmethod
    def bits(leaves: Sequence[Any]) -> list[Any]:
        return [jax.random.key_data(leaf) if _is_key(leaf) else leaf for leaf in leaves]

    @staticmethod
    def _wrap(leaves: Sequence[Any], keys: Sequence[Any]) -> list[Any]:
        return [leaf if key is None else jax.random.wrap_key_data(leaf, impl=key) for leaf, key in zip(leaves, keys)]

    def tree(self, results: Sequence[Any]) -> Any:
        return jax.tree.unflatten(self._results, self._wrap(results, self._result_keys))


def jit(function: Callable[..., Any], *, policy: PolicyLike | None = None, static_argnums: int | Sequence[int] = (),
        static_argnames: str | Iterable[str] = (), donate_argnums: int | Sequence[int] = (),
        donate_argnames: str | Iterable[str] = (), constant_argnums: int | Sequence[int] = (),
        constant_argnames: str | Iterable[str] = (), **options: Any) -> Callable[..., Any]:
    """Compiles `function` with mpc, tracing it by JAX for each new set of shapes and static values.

    Takes and returns trees of arrays as `jax.jit` does. Arguments of `static_argnums` and
    `static_argnames` are hashable Python values that the trace sees. `policy` and further `options` are
    those of `mpc.compile`; the default policy is that at the call of `jit`.

    Under `jax.grad`, `jax.vjp` and `jax.value_and_grad` the forward and backward pass are mpc programs
    too; inside of `jax.jit` and `jax.vmap` it is a host callback. Forward mode (`jax.jvp`) and
    higher-order gradients use the original function.

    Arrays of `donate_argnums` and `donate_argnames` are deleted by the call. If they are results of a
    function with donated arguments, they are overwritten in place when a result has their type and nobody
    else reads their memory; others are copied, since JAX may share their memory with NumPy.

    Arrays of `constant_argnums` and `constant_argnames`, `jax.Array`s alone, are constants of the compiled
    program: weights of inference are packed and rounded once, not in every call. A call with other arrays
    compiles anew and frees the program of those before. Gradients take them as arguments.

    Compiles and runs release the GIL; thread-safe.
    """
    static = _Chosen(function, "static", static_argnums, static_argnames)
    donated = _Chosen(function, "donate", donate_argnums, donate_argnames)
    constant = _Chosen(function, "constant", constant_argnums, constant_argnames)
    has_constants = bool(constant_argnames) or constant_argnums != ()
    options["policy"] = as_policy(policy)
    compiled: dict[Any, tuple[_Differentiable, _Flat]] = {}

    def make(leaves: Sequence[Any], arguments: Sequence[Any], named: dict[str, Any], places: Sequence[int],
             flat: _Flat) -> tuple[_Differentiable, _Flat]:
        counts = [len(jax.tree.leaves(arguments[i])) for i in places]
        counts += [len(jax.tree.leaves(named[name])) for name in sorted(named)]

        def leaves_of(chosen: _Chosen) -> list[int]:
            given = [i in chosen.numbers(len(arguments)) for i in places]
            given += [bool(chosen.names([name])) for name in sorted(named)]
            return [n for k, is_given in enumerate(given) if is_given
                    for n in range(sum(counts[:k]), sum(counts[:k + 1]))]

        constants, offered = leaves_of(constant), leaves_of(donated)
        if both := set(constants).intersection(offered):
            raise InvalidArgument(flat.__name__, f"leaf {min(both)} of its arguments is constant and donated; choose one")
        return _Differentiable(flat, [_like(leaf) for leaf in leaves], offered, options, constants), flat

    def check_constants(arguments: Sequence[Any], named: dict[str, Any]) -> None:
        given = [(f"argument {i}", arguments[i]) for i in sorted(constant.numbers(len(arguments)))]
        given += [(f"argument '{name}'", named[name]) for name in constant.names(named)]
        for what, value in given:
            for leaf in jax.tree.leaves(value):
                if not isinstance(leaf, jax.Array) or _is_key(leaf):
                    kind = "a PRNG key" if isinstance(leaf, jax.Array) else f"of type {type(leaf).__name__}"
                    raise InvalidArgument(what, f"is constant, but has a leaf that is {kind}; give jax.Array, which "
                                          "does not change, or make it static")

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        numbers = static.numbers(len(arguments))
        fixed = tuple((i, arguments[i]) for i in sorted(numbers))
        fixed_names = {name: named.pop(name) for name in static.names(named)}
        places = [i for i in range(len(arguments)) if i not in numbers]
        if has_constants:
            check_constants(arguments, named)
        leaves, tree = jax.tree.flatten(([arguments[i] for i in places], named))
        leaves = [_leaf(leaf) for leaf in leaves]
        kinds = tuple((leaf.shape, leaf.dtype, getattr(leaf, "weak_type", False)) for leaf in leaves)
        # 1, 1.0 and True are equal, but traced differently.
        static_kinds = tuple(type(value) for _, value in (*fixed, *fixed_names.items()))
        key = fixed, tuple(fixed_names.items()), static_kinds, tree, kinds
        try:
            found = compiled.get(key)
        except TypeError as error:
            raise InvalidArgument(getattr(function, "__name__", "function"),
                                  f"has a static argument that is no key of a dictionary: {error}") from None
        bits = _Flat.bits(leaves)
        if found is None:
            flat = _Flat(function, tree, leaves, places, fixed, fixed_names)
            found = compiled[key] = make(bits, arguments, named, places, flat)
        made, flat = found
        return flat.tree(made(bits))

    return call
