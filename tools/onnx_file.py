# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes .onnx models and reads their weights, with only the standard library.

The format is protobuf's: fields with a number and a wire type, nested ones with a length prefix. The
field numbers are those of onnx.proto.
"""
import array
import pathlib
import random
import statistics
import struct

FLOAT, INT64, BOOL = 1, 7, 9
CODES = {"f": FLOAT, "q": INT64}

# ===----------------------------------------------------------------------=== #
# Writing
# ===----------------------------------------------------------------------=== #


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7f:
        out.append(value & 0x7f | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class Message:
    """A message as a list of parts, so that weights are copied only once, into the file."""

    def __init__(self):
        self.parts, self.size = [], 0

    def add(self, *parts):
        for part in parts:
            self.parts.append(part)
            self.size += len(part)
        return self

    def integer(self, number, value):
        return self.add(varint(number << 3), varint(value))

    def real(self, number, value):
        return self.add(varint(number << 3 | 5), struct.pack("<f", value))

    def raw(self, number, data):
        return self.add(varint(number << 3 | 2), varint(len(data)), data)

    def text(self, number, value):
        return self.raw(number, value.encode())

    def nested(self, number, message):
        self.add(varint(number << 3 | 2), varint(message.size)).parts.extend(message.parts)
        self.size += message.size
        return self


def _tensor(name, shape, values):
    message = Message()
    for extent in shape:
        message.integer(1, extent)
    return message.integer(2, CODES[values.typecode]).text(8, name).raw(9, memoryview(values).cast("B"))


def _attribute(name, value):
    message = Message().text(1, name)
    if isinstance(value, float):
        return message.real(2, value).integer(20, 1)
    if isinstance(value, int):
        return message.integer(3, value).integer(20, 2)
    if isinstance(value, Graph):
        return message.nested(6, value.body).integer(20, 5)
    for each in value:
        message.integer(8, each)
    return message.integer(20, 7)


def _value(name, code, shape):
    extents = Message()
    for extent in shape:
        dim = Message()
        extents.nested(1, dim.text(2, extent) if isinstance(extent, str) else dim.integer(1, extent))
    tensor = Message().integer(1, code).nested(2, extents)
    return Message().text(1, name).nested(2, Message().nested(1, tensor))


class Graph:
    """Nodes, weights, inputs and outputs in order of addition."""

    def __init__(self, opset=20):
        self.body, self.opset, self.known = Message(), opset, set()

    def op(self, kind, inputs, name, outputs=1, **attributes):
        """Adds a node; returns the name of its result, which is the node's, or the names."""
        results = [name] if outputs == 1 else [f"{name}.{i}" for i in range(outputs)]
        node = Message()
        for value in inputs:
            node.text(1, value)
        for value in results:
            node.text(2, value)
        node.text(3, name).text(4, kind)
        for key, value in attributes.items():
            node.nested(5, _attribute(key, value))
        self.body.nested(1, node)
        return results[0] if outputs == 1 else results

    def weight(self, name, shape, values):
        self.body.nested(5, _tensor(name, shape, values))
        return name

    def integers(self, *values, scalar=False):
        """An integer constant; equal ones are shared."""
        name = "_".join(["scalar" if scalar else "list", *map(str, values)])
        if name not in self.known:
            self.known.add(name)
            self.weight(name, () if scalar else (len(values),), array.array("q", values))
        return name

    def real(self, name, value):
        return self.weight(name, (), array.array("f", [value]))

    def input(self, name, code, shape):
        self.body.nested(11, _value(name, code, shape))
        return name

    def output(self, name, code, shape):
        self.body.nested(12, _value(name, code, shape))

    def write(self, path):
        self.body.text(2, "main")
        model = Message().integer(1, 10).nested(8, Message().text(1, "").integer(2, self.opset)).nested(7, self.body)
        with open(path, "wb") as file:
            file.writelines(model.parts)


def npy_bytes(code, shape, values):
    """The bytes of an .npy file; `code` is NumPy's type string, such as "<f4"."""
    header = repr({"descr": code, "fortran_order": False, "shape": tuple(shape)})
    header += " " * (-(len(header) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + values.tobytes()


# ===----------------------------------------------------------------------=== #
# Reading
# ===----------------------------------------------------------------------=== #


def _fields(data):
    """Number and value of each field: an integer, or bytes."""
    at = 0

    def integer():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value
    while at < len(data):
        key = integer()
        kind = key & 7
        if kind == 0:
            yield key >> 3, integer()
            continue
        size = integer() if kind == 2 else {1: 8, 5: 4}[kind]
        yield key >> 3, data[at:at + size]
        at += size


def read_weights(path):
    """Shape and values of each float32 weight by name."""
    weights = {}
    graph = next(value for number, value in _fields(memoryview(pathlib.Path(path).read_bytes())) if number == 7)
    for number, tensor in _fields(graph):
        if number != 5:
            continue
        shape, code, name, raw = [], 0, "", b""
        for field, value in _fields(tensor):
            if field == 1:
                # Unpacked, or packed with a length prefix.
                shape += [value] if isinstance(value, int) else list(_packed(value))
            elif field == 2:
                code = value
            elif field == 8:
                name = bytes(value).decode()
            elif field == 9:
                raw = value
        if code == FLOAT:
            weights[name] = tuple(shape), array.array("f", bytes(raw))
    return weights


def _packed(data):
    value = shift = 0
    for byte in data:
        value |= (byte & 0x7f) << shift
        shift += 7
        if byte < 0x80:
            yield value
            value = shift = 0


# ===----------------------------------------------------------------------=== #
# Numbers
# ===----------------------------------------------------------------------=== #


class Normal:
    """Fast normally distributed numbers from the standard library: each is one of 65,536 quantiles."""

    def __init__(self, seed):
        distribution = statistics.NormalDist()
        self.quantiles = [distribution.inv_cdf((i + 0.5) / 65536) for i in range(65536)]
        self.source = random.Random(seed)

    def draw(self, count, deviation):
        table = array.array("f", [deviation * value for value in self.quantiles])
        picks = array.array("H", self.source.randbytes(2 * count))
        return array.array("f", map(table.__getitem__, picks))
