# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""JAX functions that generate random bits from a state: each function and its arguments."""

import jax
import numpy as np
from jax import lax
import jax.numpy as jnp

RANDOM_CASES = {}


def bits(algorithm, *shapes, dtype="uint32"):
    """Random bits of one generator in several shapes, and the states after them."""
    algorithm = getattr(lax.RandomAlgorithm, "RNG_" + algorithm)
    return lambda state: [lax.rng_bit_generator(state, shape, jnp.dtype(dtype), algorithm) for shape in shapes]


# The second state's counter wraps around.
for name, state in (("bits", [1, 2, 3, 4]), ("bits_wrap", [7, 8, 2**32 - 1, 2**32 - 1])):
    RANDOM_CASES[name] = (
        lambda state: (
            bits("THREE_FRY", (), (3,), (4, 6), (3, 5), (5, 3, 2))(state),
            bits("THREE_FRY", (5,), (2, 2), dtype="uint8")(state),
            bits("PHILOX", (), (3,), (4, 6), (3, 5))(state),
            bits("DEFAULT", (5, 3), dtype="uint16")(state),
        ),
        (np.array(state, "u4"),),
    )


def rbg(function):
    """A function of a key of JAX's fast generator."""
    return lambda state: function(jax.random.wrap_key_data(state, impl="unsafe_rbg"))


RANDOM_CASES["rbg"] = (
    rbg(
        lambda key: (
            jax.random.normal(key, (5, 3), "f"),
            jax.random.uniform(key, (7,), "f"),
            jax.random.bernoulli(key, jnp.float32(0.3), (9,)),
            jax.random.key_data(jax.random.split(key, 3)),
            jax.random.key_data(jax.random.fold_in(key, 5)),
        )
    ),
    (np.array([1, 2, 3, 4], "u4"),),
)
