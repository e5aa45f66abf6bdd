# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A random JAX function, generated op by op during tracing.

Choices depend only on the seed, shapes and intervals, so that a float64 trace gives
the same function. Every value has an interval that bounds its elements and a flag
whether it is exact: equal in float64, float32 and bfloat16, so that discontinuous
ops (floor, comparisons, arg max) may use it.
"""

import dataclasses
import random

import jax
import jax.numpy as jnp
import numpy as np

EXTENTS = [1, 1, 2, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 31]
MAX_ELEMENTS = 10000
# Below float16's maximum by a margin for a short sum of squares.
MAX_MAGNITUDE = 100.0
RANGES = {}


class Skip(Exception):
    """The op does not fit; another is tried."""


@dataclasses.dataclass
class Value:
    array: object
    low: float = 0.0
    high: float = 1.0
    exact: bool = False
    used: bool = False

    @property
    def shape(self):
        return self.array.shape

    @property
    def rank(self):
        return len(self.array.shape)

    @property
    def size(self):
        return int(np.prod(self.array.shape, dtype=np.int64))

    @property
    def kind(self):
        """Kind character of the dtype: f, i, u or b."""
        return np.dtype(self.array.dtype).kind

    @property
    def magnitude(self):
        return max(-self.low, self.high)


class Pool:
    def __init__(self, seed, differentiated=False):
        self.differentiated = differentiated
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.values = []

    def chance(self, probability):
        return self.random.random() < probability

    def extents(self, rank, limit=1500):
        while True:
            shape = tuple(self.random.choice(EXTENTS) for _ in range(rank))
            if np.prod(shape, dtype=np.int64) <= limit:
                return shape

    def drawn(self, kind, shape, low=-3.0, high=3.0):
        """(array, whether it is exact)"""
        if kind == "b":
            return self.numbers.integers(0, 2, shape).astype(bool), True
        if kind in "iu":
            return self.numbers.integers(0 if kind == "u" else -40, 41, shape).astype(kind + "4"), True
        # Sums of round numbers are 0 in float64 and nearly 0 in float32, where a slope may jump.
        if not self.differentiated and self.chance(0.5) and (low * 8).is_integer() and (high * 8).is_integer() and max(-low, high) <= 16:
            return (low + self.numbers.integers(0, int((high - low) * 8) + 1, shape) / 8).astype("f4"), True
        return np.clip(self.numbers.uniform(low, high, shape).astype("f4"), np.float32(low), np.float32(high)), False

    def parameter(self, shape, low=-1.0, high=1.0, kind="f"):
        """A constant of the function."""
        array, exact = self.drawn(kind, shape, low, high)
        # A Python float: 64-bit in a float64 trace.
        return Value(jnp.asarray(array, float if kind == "f" else None), low, high, exact)

    def add(self, array, low=0.0, high=1.0, exact=False, *operands):
        """Registers a result; large floats are scaled down."""
        if np.prod(array.shape, dtype=np.int64) > MAX_ELEMENTS:
            raise Skip
        for operand in operands:
            operand.used = True
        value = Value(array, float(low), float(high), exact)
        if value.kind == "f" and not value.magnitude <= MAX_MAGNITUDE:
            value = self.fit(value, -4.0, 4.0)
        self.values.append(value)
        return value

    def fit(self, value, low, high):
        """`value` if its interval is inside [low, high], else mapped into it."""
        if low <= value.low and value.high <= high:
            return value
        if not np.isfinite(value.magnitude):
            raise Skip
        scale = np.float32(min((high - low) / max(value.high - value.low, 1e-3), 1.0))
        shift = np.float32((high + low) / 2 - float(scale) * (value.high + value.low) / 2)
        value.used = True
        return Value(value.array * scale + shift, low, high)

    def pick(self, kind="f", rank=None, least_rank=0, exact=False, where=lambda value: True):
        """A value, with a bias towards recent ones, or a new constant."""
        found = [v for v in self.values if v.kind in kind and (rank is None or v.rank == rank)
                 and v.rank >= least_rank and v.size and (v.exact or not exact) and where(v)]
        if found and self.chance(0.93):
            return self.random.choice(found[-5:] if self.chance(0.6) else found)
        for _ in range(30):
            shape = self.extents(rank if rank is not None else self.random.randint(least_rank, max(least_rank, 4)))
            made = self.parameter(shape, -3.0, 3.0, kind[0])
            if where(made) and (made.exact or not exact):
                return made
        raise Skip

    def partner(self, value, kind=None):
        """An operand that broadcasts with `value`."""
        kind = kind or value.kind
        if self.chance(0.5):
            def fits(other):
                try:
                    return np.prod(np.broadcast_shapes(other.shape, value.shape)) <= MAX_ELEMENTS
                except ValueError:
                    return False
            found = [v for v in self.values if v.kind == kind and fits(v)]
            if found:
                return self.random.choice(found)
        shape = [1 if self.chance(0.3) else self.random.choice([1, 2, 5]) if value.size < 200 and e == 1 else e
                 for e in value.shape]
        return self.parameter(tuple(shape[self.random.randint(0, len(shape)) if self.chance(0.4) else 0:]),
                              -3.0, 3.0, kind)

    def split(self, total):
        """(a, b) with a * b = total."""
        a = self.random.choice([d for d in range(1, total + 1) if total % d == 0])
        return a, total // a


def interval(name, function, low, high):
    """Bounds of a unary function over an interval, by sampling."""
    key = name, low, high
    if key not in RANGES:
        with jax.ensure_compile_time_eval():
            values = np.asarray(function(jnp.linspace(low, high, 257).astype("f4")), np.float64)
        if not np.isfinite(values).all():
            raise Skip
        slack = 0.02 * (values.max() - values.min()) + 1e-6
        RANGES[key] = values.min() - slack, values.max() + slack
    return RANGES[key]
