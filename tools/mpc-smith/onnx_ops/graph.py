# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A random ONNX graph, generated op by op.

Every value has its shape, an interval that bounds its elements, and a flag whether
it is exact: equal in float64, float32 and bfloat16, so that discontinuous ops
(Floor, comparisons, ArgMax) may use it.
"""

import dataclasses
import random

import numpy as np
import onnx
from onnx import helper, numpy_helper

FLOAT, INT64, INT32, BOOL = np.dtype("f4"), np.dtype("i8"), np.dtype("i4"), np.dtype("?")
INT8, UINT8 = np.dtype("i1"), np.dtype("u1")
EXTENTS = [1, 1, 1, 2, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 31, 33]
MAX_ELEMENTS = 20000
# Below float16's maximum by a margin for a short sum of squares.
MAX_MAGNITUDE = 100.0


class Skip(Exception):
    """The op does not fit; another is tried."""


@dataclasses.dataclass
class Value:
    name: str
    type: np.dtype
    shape: tuple
    low: float
    high: float
    exact: bool = False
    used: bool = False

    @property
    def rank(self):
        return len(self.shape)

    @property
    def size(self):
        return int(np.prod(self.shape, dtype=np.int64))


def element_type(dtype):
    return helper.np_dtype_to_tensor_dtype(dtype)


class Graph:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.opset = self.random.randint(7, 22)
        self.nodes, self.initializers, self.inputs, self.values, self.feeds = [], [], [], [], {}
        self.count = 0
        # Results for which a peer is inaccurate: name -> (error bound of an element, shape).
        self.coarse = {}

    def fresh(self, stem):
        self.count += 1
        return f"{stem}{self.count}"

    def chance(self, probability):
        return self.random.random() < probability

    def extents(self, rank, limit=2000):
        while True:
            shape = tuple(self.random.choice(EXTENTS) for _ in range(rank))
            if np.prod(shape, dtype=np.int64) <= limit:
                return shape

    def numbers_for(self, dtype, shape, low, high):
        """(array, whether it is exact)"""
        if dtype == BOOL:
            return self.numbers.integers(0, 2, shape).astype(bool), True
        if dtype != FLOAT:
            return self.numbers.integers(int(low), int(high) + 1, shape).astype(dtype), True
        if self.chance(0.5):
            steps = int((high - low) * 8)
            if steps >= 1 and (low * 8).is_integer() and max(-low, high) <= 16:
                return (low + self.numbers.integers(0, steps + 1, shape) / 8).astype(np.float32), True
        return np.clip(self.numbers.uniform(low, high, shape), low, high).astype(np.float32), False

    def input(self, dtype=FLOAT, shape=None, low=None, high=None):
        if shape is None:
            shape = self.extents(self.random.choice([0, 1, 2, 2, 3, 3, 4, 4, 5]))
        low = -3.0 if low is None else float(low)
        high = 3.0 if high is None else float(high)
        array, exact = self.numbers_for(dtype, shape, low, high)
        value = Value(self.fresh("in"), dtype, tuple(shape), low, high, exact)
        self.inputs.append(helper.make_tensor_value_info(value.name, element_type(dtype), shape))
        self.feeds[value.name] = np.asarray(array)
        self.values.append(value)
        return value

    def constant(self, array):
        """An initializer, or a Constant node."""
        array = np.asarray(array)
        name = self.fresh("c")
        tensor = numpy_helper.from_array(array, name)
        if self.chance(0.8):
            self.initializers.append(tensor)
        else:
            self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        low, high = (float(array.min()), float(array.max())) if array.size else (0.0, 0.0)
        exact = array.dtype != FLOAT or bool(np.all(array * 8 == np.floor(array * 8)) and max(-low, high) <= 16)
        return Value(name, array.dtype, array.shape, low, high, exact)

    def integers(self, *numbers):
        return self.constant(np.array(numbers, np.int64))

    def parameter(self, shape, low=-1.0, high=1.0, dtype=FLOAT):
        """Weights: mostly constants, sometimes inputs."""
        if self.chance(0.25):
            return self.input(dtype, shape, low, high)
        return self.constant(self.numbers_for(dtype, shape, float(low), float(high))[0])

    def emit(self, kind, operands, shape, low, high, dtype=FLOAT, exact=False, **attributes):
        return self.emit_many(kind, operands, [(shape, low, high, dtype, exact)], **attributes)[0]

    def emit_many(self, kind, operands, results, domain="", **attributes):
        """Results: (shape, low, high, type, exact); None for an omitted one."""
        made, names = [], []
        for result in results:
            if result is None:
                names.append("")
                continue
            shape, low, high, dtype, exact = result
            if np.prod(shape, dtype=np.int64) > MAX_ELEMENTS:
                raise Skip
            made.append(Value(self.fresh("v"), dtype, tuple(int(e) for e in shape), float(low), float(high), exact))
            names.append(made[-1].name)
        for operand in operands:
            if operand is not None:
                operand.used = True
        self.nodes.append(helper.make_node(kind, [o.name if o is not None else "" for o in operands], names,
                                           name=self.fresh("/n/"), domain=domain, **attributes))
        for i, value in enumerate(made):
            if value.type == FLOAT and max(-value.low, value.high) > MAX_MAGNITUDE:
                made[i] = self.fit(value, -4.0, 4.0)
        known = {value.name for value in self.values}
        self.values += [value for value in made if value.name not in known]
        return made

    def fit(self, value, low, high):
        """`value` if its interval is inside [low, high], else mapped into it."""
        if low <= value.low and value.high <= high:
            return value
        span = max(value.high - value.low, 1e-3)
        scale = min((high - low) / span, 1.0)
        shift = (high + low) / 2 - scale * (value.high + value.low) / 2
        if scale != 1.0:
            value = self.emit("Mul", [value, self.constant(np.float32(scale))], value.shape, scale * value.low,
                              scale * value.high)
        if low > value.low or value.high > high:
            value = self.emit("Add", [value, self.constant(np.float32(shift))], value.shape, low, high)
        return value

    def pick(self, dtype=FLOAT, rank=None, least_rank=0, exact=False, where=lambda value: True):
        """A value of the graph, with a bias towards recent ones, or a new input."""
        found = [v for v in self.values if v.type == dtype and v.size > 0 and (rank is None or v.rank == rank)
                 and v.rank >= least_rank and (v.exact or not exact) and where(v)]
        if found and self.chance(0.9):
            return self.random.choice(found[-4:] if self.chance(0.7) else found)
        if dtype == BOOL:
            low, high = 0, 1
        else:
            low, high = -3, 3
        for _ in range(30):
            shape = self.extents(rank if rank is not None else self.random.randint(least_rank, max(least_rank, 4)))
            trial = Value("", dtype, shape, low, high, exact)
            if where(trial):
                made = self.input(dtype, shape, low, high)
                if exact and not made.exact:
                    raise Skip
                return made
        raise Skip

    def partner(self, value, dtype=None):
        """A second operand for an elementwise op with `value`."""
        dtype = dtype or value.type
        if self.chance(0.4):
            def fits(other):
                try:
                    return np.prod(np.broadcast_shapes(other.shape, value.shape)) <= MAX_ELEMENTS
                except ValueError:
                    return False
            found = [v for v in self.values if v.type == dtype and v.size > 0 and fits(v)]
            if found:
                return self.random.choice(found)
        wider = value.size < 200
        shape = [1 if self.chance(0.3) else self.random.choice([1, 2, 5]) if wider and e == 1 else e
                 for e in value.shape]
        shape = shape[self.random.randint(0, len(shape)) if self.chance(0.4) else 0:]
        if self.chance(0.1) and len(shape) < 5:
            shape = [self.random.choice([1, 2, 3])] + [1] * (len(value.shape) - len(shape)) + shape
        return self.parameter(tuple(shape), *((0, 1) if dtype == BOOL else (-3, 3)), dtype=dtype)

    def axis(self, rank, negative_since=11):
        axis = self.random.randrange(rank)
        return axis, axis - rank if self.opset >= negative_since and self.chance(0.4) else axis

    def model(self):
        """(model, output values): the unused values, and one used value."""
        names = {name for node in self.nodes for name in node.output}
        made = [v for v in self.values if v.name in names]
        results = [v for v in made if not v.used]
        inner = [v for v in made if v.used]
        if inner and self.chance(0.4):
            results.append(self.random.choice(inner))
        infos = [helper.make_tensor_value_info(v.name, element_type(v.type), v.shape) for v in results]
        graph = helper.make_graph(self.nodes, "drawn", self.inputs, infos, self.initializers)
        imports = [helper.make_opsetid("", self.opset)]
        if any(node.domain for node in self.nodes):
            imports.append(helper.make_opsetid("com.microsoft", 1))
        model = helper.make_model(graph, opset_imports=imports)
        model.ir_version = 10 if self.opset > 20 else 8
        return model, results
