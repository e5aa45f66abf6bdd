# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""mpc.jax.jit and arrays of JAX; skipped without it."""

import mpc
import numpy as np
import pytest

jax = pytest.importorskip("jax")

import mpc.jax  # noqa: E402


def network(parameters, x, depth):
    for _ in range(depth):
        x = jax.numpy.tanh(x @ parameters["w"] + parameters["b"])
    return {"y": x, "parts": (x.sum(), x[0])}


@pytest.fixture
def drawn():
    keys = jax.random.split(jax.random.key(0), 3)
    return {"w": jax.random.normal(keys[0], (32, 32)) / 6, "b": jax.random.normal(keys[1], (32,))}, \
        jax.random.normal(keys[2], (4, 32))


def distance(found, wanted):
    """The largest difference between two trees of arrays, of one structure."""
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    return max(jax.tree.leaves(jax.tree.map(lambda a, b: float(abs(a - b).max()), found, wanted)))


@pytest.mark.parametrize("policy, bound", [("float32", 1e-4), ("mixed_bfloat16", 1.0), ("mixed_float16", 0.1)])
def test_trees_go_in_and_come_out(drawn, policy, bound):
    parameters, x = drawn
    compiled = mpc.jax.jit(network, policy=policy, static_argnums=2)
    for depth in (1, 3):
        found = compiled(parameters, x, depth)
        assert isinstance(found["y"], jax.Array)
        assert distance(found, network(parameters, x, depth)) < bound


def test_gradients_are_taken_inside(drawn):
    parameters, x = drawn
    step = jax.value_and_grad(lambda parameters, x: network(parameters, x, 2)["y"].sum())
    assert distance(mpc.jax.jit(step, policy="float32")(parameters, x), step(parameters, x)) < 1e-4


def test_keywords_shapes_and_numbers(drawn):
    parameters, x = drawn
    compiled = mpc.jax.jit(lambda x, *, scale: x * scale, policy="float32")
    for rows in (1, 4):
        np.testing.assert_allclose(compiled(x[:rows], scale=2.0), 2 * x[:rows])


def test_a_function_is_a_model(drawn):
    _, x = drawn
    function = mpc.compile(lambda x: x.T, x, policy="float32")
    assert isinstance(function(x), jax.Array)
    np.testing.assert_array_equal(function(x), x.T)
