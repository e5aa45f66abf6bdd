# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A training step of JAX, compiled by mpc: loss, gradients and update in one program. Needs jax.

usage: python jax_step.py
"""
import functools

import jax
import jax.numpy as jnp
import mpc.jax


def loss_of(parameters, x, y):
    h = jax.nn.gelu(x @ parameters["w1"] + parameters["b1"])
    scores = jax.nn.log_softmax(h @ parameters["w2"] + parameters["b2"])
    return -jnp.take_along_axis(scores, y[:, None], axis=1).mean()


# As jax.jit with a policy; the donated parameters are updated in place.
@functools.partial(mpc.jax.jit, policy="mixed_bfloat16", donate_argnums=0)
def step(parameters, x, y):
    loss, gradients = jax.value_and_grad(loss_of)(parameters, x, y)
    return jax.tree.map(lambda p, g: p - 0.5 * g, parameters, gradients), loss


keys = jax.random.split(jax.random.key(0), 3)
parameters = {"w1": 0.2 * jax.random.normal(keys[0], (16, 64)), "b1": jnp.zeros(64),
              "w2": 0.1 * jax.random.normal(keys[1], (64, 4)), "b2": jnp.zeros(4)}
x = jax.random.normal(keys[2], (256, 16))
y = jnp.argmax(x[:, :4], axis=1)
losses = []
for _ in range(60):
    parameters, loss = step(parameters, x, y)
    losses.append(float(loss))
print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}; parameters stay {parameters['w1'].dtype}")
assert losses[-1] < 0.5 * losses[0]
