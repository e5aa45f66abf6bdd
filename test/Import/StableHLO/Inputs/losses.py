# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A loss and a whole training step of one network, as people write them with JAX."""

import sys

import jax
import jax.numpy as jnp
import numpy as np


def network(parameters, x):
    x = jax.nn.relu(x @ parameters["w1"] + parameters["b1"])
    return x @ parameters["w2"] + parameters["b2"]


def loss(parameters, x, labels):
    logits = network(parameters, x)
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1)
    return -jnp.mean(chosen), logits


def arguments(batch=16):
    random = np.random.RandomState(0)

    def drawn(*shape):
        return (random.randn(*shape) / np.sqrt(shape[0])).astype("f4")

    parameters = {"b1": np.zeros(32, "f4"), "b2": np.zeros(5, "f4"), "w1": drawn(64, 32), "w2": drawn(32, 5)}
    return parameters, random.rand(batch, 64).astype("f4"), random.randint(0, 5, batch).astype("i4")


def model_loss():
    """A batch of the small images of make_training_data.py."""
    return loss, arguments()


def adam(parameters, moments, squares, count, x, labels, gradient_of=lambda f: jax.value_and_grad(f, has_aux=True)):
    (value, _), gradients = gradient_of(loss)(parameters, x, labels)
    count = count + 1
    tree = jax.tree_util.tree_map
    moments = tree(lambda m, g: 0.9 * m + 0.1 * g, moments, gradients)
    squares = tree(lambda v, g: 0.999 * v + 0.001 * g * g, squares, gradients)
    time = count.astype(jnp.float32)
    parameters = tree(
        lambda p, m, v: p - 0.01 * (m / (1 - 0.9**time)) / (jnp.sqrt(v / (1 - 0.999**time)) + 1e-8),
        parameters, moments, squares)
    norm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree_util.tree_leaves(gradients)))
    return parameters, moments, squares, count, value, norm


def model_step():
    """Training state comes first and is donated by --donate 0 1 2 3."""
    parameters, x, labels = arguments()
    zeros = jax.tree_util.tree_map(np.zeros_like, parameters)
    return adam, (parameters, zeros, zeros, np.array(0, "i4"), x, labels)


def model_small():
    """A step of a loss so small that its gradients are no float16."""

    def step(parameters, x, labels):
        value, gradients = jax.value_and_grad(lambda p: 1e-7 * loss(p, x, labels)[0])(parameters)
        return jax.tree_util.tree_map(lambda p, g: p - 1e5 * g, parameters, gradients), value

    return step, arguments()
