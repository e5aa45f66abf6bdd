# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""JAX functions compiled by mpc: `mpc.jax.jit` in place of `jax.jit`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax

from . import _function


def jit(function: Callable[..., Any], *, policy: str = "auto", static_argnums: int | Sequence[int] = (),
        **options: Any) -> Callable[..., Any]:
    """`function`, traced by JAX for each new set of shapes and static values, compiled by mpc.

    Takes and returns trees of arrays as `jax.jit` does. Arguments of `static_argnums` are Python
    values that the trace sees. `policy` and further `options` are those of `mpc.compile`. The
    result is no JAX transformation: take `jax.grad` or `jax.vmap` of the function inside.
    """
    static = {static_argnums} if isinstance(static_argnums, int) else set(static_argnums)
    compiled: dict[Any, tuple[Any, Any]] = {}

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        fixed = tuple((i, arguments[i]) for i in sorted(static) if i < len(arguments))
        free = [argument for i, argument in enumerate(arguments) if i not in static]
        leaves, tree = jax.tree.flatten((free, named))
        leaves = [leaf if isinstance(leaf, jax.Array) else jax.numpy.asarray(leaf) for leaf in leaves]
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
            compiled[key] = _function.compile(flat, *leaves, policy=policy, **options), shape
        made, shape = compiled[key]
        results = made(*leaves)
        return jax.tree.unflatten(shape, results if isinstance(results, tuple) else [results])

    return call
