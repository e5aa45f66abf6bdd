# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builder of mpc dialect text, and the table of lowerings."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

ELEMENT = {torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16",
           torch.bool: "i1", torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64",
           torch.uint8: "ui8"}
_SIGN_AND_EXPONENT = {"f16": ("0x{:04X}", 0x7C00, 0x7E00, 0x8000), "bf16": ("0x{:04X}", 0x7F80, 0x7FC0, 0x8000),
                      "f32": ("0x{:08X}", 0x7F800000, 0x7FC00000, 1 << 31),
                      "f64": ("0x{:016X}", 0x7FF << 52, 0xFFF << 51, 1 << 63)}


# Represents a tensor without elements, which mpc does not support.
EMPTY = "%empty"


class Unsupported(Exception):
    """An op or variant without a lowering; it runs in eager mode."""


@dataclass(frozen=True)
class Type:
    """Shape and element type of a value."""
    shape: tuple[int, ...]
    element: str

    def __str__(self) -> str:
        return "tensor<" + "".join(f"{extent}x" for extent in self.shape) + self.element + ">"


@dataclass(frozen=True)
class Value:
    """A value of the function being emitted."""
    name: str
    type: Type

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def element(self) -> str:
        return self.type.element

    @property
    def rank(self) -> int:
        return len(self.type.shape)

    @property
    def is_float(self) -> bool:
        return is_float(self.type.element)


@dataclass(frozen=True)
class Memory:
    """The storage of a tensor: its elements from `start` on as a rank-1 value, and the tensor's strides and
    offset in it, in elements."""
    value: Value
    start: int
    strides: tuple[int, ...]
    offset: int

    def first(self, shape: Sequence[int], strides: Sequence[int], offset: int | None) -> int:
        """Index into `value` of the first element of a view, which must be inside of it."""
        first = (self.offset if offset is None else offset) - self.start
        last = first + sum((extent - 1) * stride for extent, stride in zip(shape, strides))
        if first < 0 or last >= self.value.shape[0]:
            raise Unsupported(f"elements {first + self.start} to {last + self.start} of a storage of which only "
                              f"{self.start} to {self.start + self.value.shape[0] - 1} are known")
        return first


Operand = Any  # A Value or a Python number.
Lowering = Callable[..., Any]
TABLE: dict[Any, Lowering] = {}


def lowers(*names: str) -> Callable[[Lowering], Lowering]:
    """Registers a lowering under op names such as `add.Tensor`. It is called with the builder, then with the
    op's arguments, with values for tensors; `builder.results` are the op's result types. Names that this
    version of PyTorch does not have are ignored."""

    def enter(function: Lowering) -> Lowering:
        for name in names:
            space, _, rest = name.rpartition("::")
            packet, _, overload = rest.partition(".")
            found = getattr(getattr(torch.ops, space or "aten"), packet, None)
            if found is not None and (overload or "default") in found.overloads():
                TABLE[getattr(found, overload or "default")] = function
        return function

    return enter


def is_float(element: str) -> bool:
    return element in _SIGN_AND_EXPONENT


def is_narrow(element: str) -> bool:
    return element in ("f16", "bf16")


def wide(element: str) -> str:
    """The type in which PyTorch computes inside an op with 16-bit operands."""
    return "f32" if is_narrow(element) else element


def holds(element: str, value: float | int | bool) -> bool:
    """Returns true if a 16-bit element type can represent the number, and for other types."""
    dtype = {"f16": torch.float16, "bf16": torch.bfloat16}.get(element)
    return dtype is None or math.isnan(value) or float(torch.tensor(value, dtype=torch.float64).to(dtype)) == value


def number(value: float | int | bool, element: str) -> str:
    """A literal of the element type."""
    if element == "i1":
        return "true" if value else "false"
    if not is_float(element):
        return str(int(value))
    value = float(value)
    if math.isfinite(value):
        mantissa, exponent, power = repr(value).partition("e")
        return (mantissa if "." in mantissa else mantissa + ".0") + exponent + power
    form, infinity, nan, sign = _SIGN_AND_EXPONENT[element]
    return form.format(nan if math.isnan(value) else infinity + (sign if value < 0 else 0))


def f64(value: float) -> str:
    """A literal of an attribute."""
    return number(value, "f64")


def dense_order(shape: Sequence[int], strides: Sequence[int]) -> list[int] | None:
    """Dimensions in storage order, outermost first; None if elements overlap or have gaps."""
    order = sorted(range(len(shape)), key=lambda i: (-strides[i], shape[i] == 1, i))
    wanted = 1
    for i in reversed(order):
        if shape[i] != 1 and strides[i] != wanted:
            return None
        wanted *= shape[i]
    return order


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    return tuple(torch.broadcast_shapes(*shapes))


class Builder:
    """Emits one function of tensors on `device`, op by op."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.lines: list[str] = []
        self.results: list[Type] = []
        self.used: list[bool] = []
        self.place = ""
        self.layer = ""
        self.memory: Callable[[], Memory]  # Storage of the first operand.
        self.starts: dict[Any, int] = {}  # Storage offsets of arguments on which the text depends.
        self._count = 0
        self._constants: dict[tuple[Any, ...], Value] = {}

    # Ops

    def emit(self, text: str, operands: Sequence[Value], types: Sequence[Type], form: str = "call",
             after: str = "", checked: bool = False) -> list[Value]:
        """Emits `%r = mpc.text %operands after : types`, with the types in the form of the result ("same"),
        of a function ("call"), or "from to" or "from arrow". With `checked` an index out of range is a
        run-time error, as in eager mode."""
        if any(value.name == EMPTY for value in operands):
            raise Unsupported("an empty tensor")
        self._count += 1
        name = f"%v{self._count}"
        names = [name] if len(types) == 1 else [f"{name}#{i}" for i in range(len(types))]
        given, made = [str(value.type) for value in operands], ", ".join(map(str, types))
        if form == "same":
            signature = str(types[0])
        elif form == "call":
            signature = f"({', '.join(given)}) -> " + (made if len(types) == 1 else f"({made})")
        else:
            signature = f"{given[0]} {'to' if form == 'to' else '->'} {made}"
        left = name if len(types) == 1 else f"{name}:{len(types)}"
        arguments = ", ".join(value.name for value in operands)
        space = " " if arguments and after else ""
        after = after.strip()
        head = f"mpc.{text} {arguments}" if "{}" not in text else "mpc." + text.format(*[v.name for v in operands])
        attributes = self.layer
        if checked:
            attributes = attributes.replace("{", "{mpc.checked, ", 1) if attributes else " {mpc.checked}"
        self.lines.append(f"  {left} = {head}{space}{after}{attributes} : {signature}{self.place}")
        return [Value(n, t) for n, t in zip(names, types)]

    def unary(self, text: str, x: Value, after: str = "") -> Value:
        return self.emit(text, [x], [x.type], "same", after)[0]

    def binary(self, text: str, x: Value, y: Value) -> Value:
        return self.emit(text, [x, y], [Type(broadcast_shapes(x.shape, y.shape), x.element)])[0]

    def compare(self, predicate: str, x: Value, y: Value) -> Value:
        return self.emit(f"compare {predicate}", [x, y], [Type(broadcast_shapes(x.shape, y.shape), "i1")])[0]

    def select(self, condition: Value, yes: Value, no: Value) -> Value:
        shape = broadcast_shapes(condition.shape, yes.shape, no.shape)
        return self.emit("select", [condition, yes, no], [Type(shape, yes.element)])[0]

    def add(self, x: Value, y: Value) -> Value:
        return self.binary("add", x, y)

    def sub(self, x: Value, y: Value) -> Value:
        return self.binary("sub", x, y)

    def mul(self, x: Value, y: Value) -> Value:
        return self.binary("mul", x, y)

    def div(self, x: Value, y: Value) -> Value:
        return self.binary("div", x, y)

    # Constants

    def scalar(self, value: float | int | bool, element: str) -> Value:
        """A constant of rank 0."""
        return self.constant(number(value, element), (), element)

    def constant(self, text: str, shape: Sequence[int], element: str) -> Value:
        key = text, tuple(shape), element
        if key not in self._constants:
            kind = Type(tuple(shape), element)
            self._count += 1
            self.lines.append(f"  %v{self._count} = mpc.constant dense<{text}> : {kind}")
            self._constants[key] = Value(f"%v{self._count}", kind)
        return self._constants[key]

    def full(self, value: float | int | bool, shape: Sequence[int], element: str) -> Value:
        return self.constant(number(value, element), shape, element)

    def vector(self, values: Sequence[float | int], element: str) -> Value:
        return self.constant("[" + ", ".join(number(v, element) for v in values) + "]", (len(values),), element)

    def iota(self, shape: Sequence[int], axis: int, element: str = "i64") -> Value:
        return self.emit("iota", [], [Type(tuple(shape), element)], "same", f"axis({axis})")[0]

    # Types and shapes

    def cast(self, x: Value, element: str, pinned: bool = False) -> Value:
        if x.element == element:
            return x
        return self.emit("cast", [x], [Type(x.shape, element)], "to", "pinned" if pinned else "")[0]

    def rounded(self, x: Value) -> Value:
        """Rounds a result that was computed in a wider type to the op's type, as eager mode does."""
        return self.cast(x, self.results[0].element, pinned=True)

    def to_bool(self, x: Value) -> Value:
        return x if x.element == "i1" else self.compare("ne", x, self.scalar(0, x.element))

    def operand(self, x: Operand, element: str) -> Value:
        """A tensor cast to the element type, or a number as a constant of it."""
        return self.cast(x, element) if isinstance(x, Value) else self.scalar(x, element)

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        shape = tuple(shape)
        if x.shape == shape:
            return x
        return self.emit("reshape", [x], [Type(shape, x.element)], "to")[0]

    def broadcast(self, x: Value, shape: Sequence[int]) -> Value:
        shape = tuple(shape)
        if x.shape == shape:
            return x
        return self.emit("broadcast", [x], [Type(shape, x.element)], "to")[0]

    def transpose(self, x: Value, permutation: Sequence[int]) -> Value:
        permutation = list(permutation)
        if permutation == list(range(x.rank)):
            return x
        kind = Type(tuple(x.shape[i] for i in permutation), x.element)
        return self.emit("transpose", [x], [kind], "to", str(permutation))[0]

    def slice(self, x: Value, offsets: Sequence[int], sizes: Sequence[int],
              strides: Sequence[int] | None = None) -> Value:
        if tuple(sizes) == x.shape:
            return x
        if 0 in sizes:
            raise Unsupported("an empty tensor")
        tail = f" strides {list(strides)}" if strides and any(s != 1 for s in strides) else ""
        return self.emit("slice", [x], [Type(tuple(sizes), x.element)], "to",
                         f"{list(offsets)} {list(sizes)}{tail}")[0]

    def slice_axis(self, x: Value, axis: int, offset: int, size: int, stride: int = 1) -> Value:
        offsets, sizes, strides = [0] * x.rank, list(x.shape), [1] * x.rank
        offsets[axis], sizes[axis], strides[axis] = offset, size, stride
        return self.slice(x, offsets, sizes, strides)

    def concat(self, values: Sequence[Value], axis: int) -> Value:
        if len(values) == 1:
            return values[0]
        shape = list(values[0].shape)
        shape[axis] = sum(value.shape[axis] for value in values)
        return self.emit("concat", values, [Type(tuple(shape), values[0].element)], after=f"axis({axis})")[0]

    def pad(self, x: Value, low: Sequence[int], high: Sequence[int], value: float | int | bool = 0,
            mode: str = "constant") -> Value:
        if not any(low) and not any(high):
            return x
        shape = tuple(l + e + h for l, e, h in zip(low, x.shape, high))
        if 0 in shape:
            raise Unsupported("an empty tensor")
        tail = f" mode({mode})" if mode != "constant" else ""
        return self.emit("pad", [x, self.scalar(value, x.element)], [Type(shape, x.element)],
                         after=f"low({list(low)}) high({list(high)}){tail}")[0]

    # Reductions and gathers

    def reduce(self, text: str, x: Value, axes: Sequence[int], keep: bool = False) -> Value:
        """A reduction of `axes`; sums of 16-bit elements accumulate in f32."""
        axes = sorted(axes)
        if x.rank == 0:
            return x
        shape = tuple(1 if i in axes else e for i, e in enumerate(x.shape) if keep or i not in axes)
        tail = f"axes({axes})" + (" keep_dims" if keep else "")
        if is_narrow(x.element) and text in ("reduce_sum", "reduce_mean", "reduce_prod"):
            tail += " accumulate(f32)"
        return self.emit(text, [x], [Type(shape, x.element)], "arrow", tail)[0]

    def gather(self, x: Value, indices: Value, axis: int, checked: bool = False) -> Value:
        shape = x.shape[:axis] + indices.shape + x.shape[axis + 1:]
        return self.emit("gather", [x, indices], [Type(shape, x.element)], after=f"axis({axis})", checked=checked)[0]

    def places(self, shape: Sequence[int], strides: Sequence[int], offset: int = 0) -> Value:
        """Storage index of each element of a view with these strides."""
        place = self.scalar(offset, "i64")
        for axis, (extent, stride) in enumerate(zip(shape, strides)):
            line = self.reshape(self.iota((extent,), 0), [extent if i == axis else 1 for i in range(len(shape))])
            place = self.add(place, self.mul(line, self.scalar(stride, "i64")))
        return self.broadcast(place, shape)

    def strided(self, x: Value, shape: Sequence[int], strides: Sequence[int], offset: int = 0) -> Value:
        """`as_strided` of the elements of x in row-major order."""
        flat, order = self.reshape(x, (math.prod(x.shape),)), dense_order(shape, strides)
        if order is None:
            return self.gather(flat, self.places(shape, strides, offset), 0)
        part = self.reshape(self.slice(flat, [offset], [math.prod(shape)]), [shape[i] for i in order])
        return self.transpose(part, [order.index(i) for i in range(len(order))])


def axis_of(dim: int, rank: int) -> int:
    return dim % rank if rank else 0


def axes_of(dims: int | Sequence[int] | None, rank: int) -> list[int]:
    """Normalized axes; no axes means all."""
    if dims is None or (not isinstance(dims, int) and not dims):
        return list(range(rank))
    return sorted({axis_of(d, rank) for d in ([dims] if isinstance(dims, int) else dims)})
