# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""JAX functions compiled by mpc: `mpc.jax.jit` in place of `jax.jit`."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from . import _function, _mpc
from ._errors import InvalidArgument
from ._policy import PolicyLike, as_policy

# ===----------------------------------------------------------------------=== #
# Programs of flat lists of arrays
# ===----------------------------------------------------------------------=== #


class _Results:
    """Which arrays of JAX lie in memory of mpc, where a donated one may be written in place.

    An array of another origin may share its memory with NumPy; writing there would be seen.
    """

    def __init__(self) -> None:
        self._kept: dict[int, tuple[weakref.ref[Any], _mpc.SharedResult]] = {}

    def array(self, result: _mpc.SharedResult) -> Any:
        array = result.to_array(_mpc.Framework.JAX)
        key = id(array)
        self._kept[key] = weakref.ref(array, lambda _: self._kept.pop(key, None)), result
        return array

    def take(self, array: Any) -> _mpc.SharedResult | None:
        """What an array that came from here lies in."""
        reference, result = self._kept.pop(id(array), (None, None))
        return result if reference is not None and reference() is array else None


_results = _Results()


class _Program:
    """A function of a flat list of arrays, traced for one set of types and compiled at its first call."""

    def __init__(self, function: Callable[..., Any], types: Sequence[Any], donated: Sequence[int],
                 options: dict[str, Any]):
        # Which leaves come out is known behind the trace.
        traced = jax.jit(function, keep_unused=True, donate_argnums=tuple(donated)).trace(*types)
        self.results = list(jax.tree.leaves(traced.out_info))
        self._types, self._options = types, options
        self._source = _mpc.source_bytes(f"{getattr(function, '__name__', 'function')}.mlir",
                                         traced.lower().as_text().encode())
        self._donated = {f"arg{i}" for i in donated}
        self._numbers = list(donated)
        self._made: _mpc.Function | None = None

    def __call__(self, leaves: Sequence[Any]) -> list[Any]:
        if self._made is None:
            device = self._options.get("device") or _function.device_of(leaves)
            self._made = _function.compile(self._source, **{**self._options, "device": device})._made
        if not self._donated:
            results = self._made(*leaves)
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
            # Else a view of NumPy, an export or a computation that JAX has begun still reads it.
            if result.is_unique:
                unique.add(f"arg{i}")
        results = self._made.call_in_place(unique, *given)
        for i in self._numbers:
            if not leaves[i].is_deleted():
                leaves[i].delete()
        return [_results.array(result) for result in results]


def _is_float(kind: Any) -> bool:
    return bool(jax.numpy.issubdtype(kind.dtype, jax.numpy.floating))


def _like(kind: Any) -> Any:
    return jax.ShapeDtypeStruct(kind.shape, kind.dtype)


def _run(program: _Program, leaves: Sequence[Any]) -> list[Any]:
    """Runs it now, or inside a trace of JAX as a call of the host."""
    if not any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        return program(leaves)
    shapes = [_like(kind) for kind in program.results]
    return list(jax.pure_callback(lambda *arrays: program([jax.numpy.asarray(a) for a in arrays]), shapes, *leaves,
                                  vmap_method="sequential"))


# ===----------------------------------------------------------------------=== #
# Gradients
# ===----------------------------------------------------------------------=== #


class _Differentiable:
    """A function of leaves and the two programs of its gradient, each traced and compiled when first
    asked for.

    What the backward pass reads of the forward pass is what `jax.vjp` keeps: a forward program gives
    it behind its results, and the backward program takes it.
    """

    def __init__(self, function: Callable[..., list[Any]], types: Sequence[Any], donated: Sequence[int],
                 options: dict[str, Any]):
        self._function, self._types, self._options = function, types, options
        self._plain = _Program(function, types, donated, options)
        self._pair: tuple[_Program, _Program] | None = None
        self._kept: Any = None
        self.call = jax.custom_vjp(self._primal)
        self.call.defvjp(self._forward, self._backward)

    def __call__(self, leaves: Sequence[Any]) -> list[Any]:
        # Without a gradient in sight nothing of JAX is asked.
        if not any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            return self._plain(leaves)
        return list(self.call(*leaves))

    def _primal(self, *leaves: Any) -> tuple[Any, ...]:
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
        results = [kind for kind in self._plain.results if _is_float(kind)]
        residuals = made.results[len(self._plain.results):]

        def backward(*arrays: Any) -> Any:
            pull = jax.tree.unflatten(self._kept, arrays[:len(residuals)])
            return pull(list(arrays[len(residuals):]))

        backward.__name__ = f"{name}_backward"
        self._pair = made, _Program(backward, [_like(kind) for kind in [*residuals, *results]], (), self._options)
        return self._pair

    def _forward(self, *leaves: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        found = _run(self._programs()[0], leaves)
        kinds = [_is_float(kind) for kind in self._plain.results]
        floats, others = iter(found[:sum(kinds)]), iter(found[sum(kinds):len(kinds)])
        return tuple(next(floats if is_float else others) for is_float in kinds), tuple(found[len(kinds):])

    def _backward(self, residuals: tuple[Any, ...], cotangents: Sequence[Any]) -> tuple[Any, ...]:
        given = [c for c, kind in zip(cotangents, self._plain.results) if _is_float(kind)]
        found = iter(_run(self._programs()[1], [*residuals, *given]))
        return tuple(next(found) if _is_float(kind) else np.zeros(kind.shape, jax.dtypes.float0)
                     for kind in self._types)


# ===----------------------------------------------------------------------=== #
# jit
# ===----------------------------------------------------------------------=== #


def _numbers(given: int | Sequence[int]) -> set[int]:
    return {given} if isinstance(given, int) else set(given)


def jit(function: Callable[..., Any], *, policy: PolicyLike | None = None, static_argnums: int | Sequence[int] = (),
        donate_argnums: int | Sequence[int] = (), **options: Any) -> Callable[..., Any]:
    """`function`, traced by JAX for each new set of shapes and static values, compiled by mpc.

    Takes and returns trees of arrays as `jax.jit` does. Arguments of `static_argnums` are Python
    values that the trace sees. `policy` and further `options` are those of `mpc.compile`; without a
    policy that which is in force here, where `jit` is called.

    Under `jax.grad`, `jax.vjp` and `jax.value_and_grad` the forward and the backward pass are
    programs of mpc too; inside of `jax.jit` and `jax.vmap` it is a call of the host. Forward mode
    (`jax.jvp`) and gradients of gradients are of the function inside.

    Arrays of `donate_argnums` are deleted by the call. Those that a function with donated arguments
    returned are written in place where a result has their type and nobody else reads their memory;
    others are copied, since JAX may have it from NumPy.

    Compiles and runs release the interpreter's lock; any thread may call.
    """
    static, donated = _numbers(static_argnums), _numbers(donate_argnums)
    options["policy"] = as_policy(policy)
    compiled: dict[Any, tuple[_Differentiable, Any]] = {}

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        fixed = tuple((i, arguments[i]) for i in sorted(static) if i < len(arguments))
        places = [i for i in range(len(arguments)) if i not in static]
        leaves, tree = jax.tree.flatten(([arguments[i] for i in places], named))
        leaves = [leaf if isinstance(leaf, jax.Array) else jax.numpy.array(leaf) for leaf in leaves]
        key = fixed, tree, tuple((leaf.shape, leaf.dtype) for leaf in leaves)
        if key not in compiled:
            shape = None

            def flat(*flat_leaves: Any) -> Any:
                nonlocal shape
                given, keywords = jax.tree.unflatten(tree, flat_leaves)
                given = list(given)
                for i, value in fixed:
                    given.insert(i, value)
                results, shape = jax.tree.flatten(function(*given, **keywords))
                return results

            flat.__name__ = getattr(function, "__name__", "function")
            counts = [len(jax.tree.leaves(arguments[i])) for i in places]
            offered = [n for k, i in enumerate(places) if i in donated
                       for n in range(sum(counts[:k]), sum(counts[:k + 1]))]
            made = _Differentiable(flat, [_like(leaf) for leaf in leaves], offered, options)
            compiled[key] = made, shape
        made, shape = compiled[key]
        return jax.tree.unflatten(shape, made(leaves))

    return call
