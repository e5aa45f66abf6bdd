# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes models whose files are far larger than their tensors, with holes.

sparse_model.py FOLDER   model.onnx: y = x + w, w four floats in the last bytes
                         of the 150 GiB of weights.bin; big.onnx: w of 16 TiB;
                         long.onnx: 150 GiB of nothing; hole.onnx: w of 2 GiB
                         in a hole; nothing.onnx: the same model with 2 GiB of
                         nothing after it; text.mlir, long.mlir: a hole after
                         a line of text, of 2 and 3 GiB
"""
import pathlib
import struct
import sys

folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
SIZE = 150 << 30


def varint(number):
    text = b""
    while number > 127:
        text += bytes([number & 127 | 128])
        number >>= 7
    return text + bytes([number])


def field(number, value):
    """A protobuf field: a number, or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def value_info(name, extent):
    shape = field(1, field(1, extent))
    return field(1, name) + field(2, field(1, field(1, 1) + field(2, shape)))


def model(extent, offset, inputs=None):
    pairs = {b"location": b"weights.bin", b"offset": str(offset).encode()}
    external = b"".join(field(13, field(1, key) + field(2, pairs[key])) for key in pairs)
    weight = field(1, extent) + field(2, 1) + field(8, b"w") + external + field(14, 1)
    node = field(1, b"x") + field(1, b"w") + field(2, b"y") + field(3, b"add") + field(4, b"Add")
    graph = (field(1, node) + field(2, b"g") + field(5, weight) +
             field(11, value_info(b"x", inputs or extent)) + field(12, value_info(b"y", extent)))
    return field(1, 8) + field(7, graph) + field(8, field(2, 17))


(folder / "model.onnx").write_bytes(model(4, SIZE - 16))
(folder / "big.onnx").write_bytes(model(1 << 42, 0))
(folder / "hole.onnx").write_bytes(model(1 << 29, 0, inputs=4))
for name, head, size in (("weights.bin", b"", SIZE), ("long.onnx", b"", SIZE), ("nothing.onnx", model(4, 0), (1 << 31) - 1),
                         ("text.mlir", b"module {}\n", (1 << 31) - 1), ("long.mlir", b"module {}\n", 3 << 30)):
    with open(folder / name, "wb") as file:
        file.write(head)
        file.truncate(size)
with open(folder / "weights.bin", "r+b") as file:
    file.seek(SIZE - 16)
    file.write(struct.pack("<4f", 1, 2, 3, 4))
