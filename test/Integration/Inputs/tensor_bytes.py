# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tensor_bytes.py NAME FILE...: exits with 1 unless the tensor NAME has the same bytes, not all zero, in
all safetensors files; prints their number."""
import json
import struct
import sys


def bytes_of(path, name):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        begin, end = header[name]["data_offsets"]
        file.seek(begin, 1)
        return file.read(end - begin)


first, *others = (bytes_of(path, sys.argv[1]) for path in sys.argv[2:])
if any(other != first for other in others):
    sys.exit(f"'{sys.argv[1]}' differs")
if not any(first):
    sys.exit(f"'{sys.argv[1]}' is zero")
print(f"{len(first)} equal bytes")
