# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes random f32 numbers in [-1, 1) as .npy without NumPy. usage: draw_array.py FILE EXTENT..."""
import array
import math
import pathlib
import random
import struct
import sys

shape = tuple(map(int, sys.argv[2:]))
header = repr({"descr": "<f4", "fortran_order": False, "shape": shape})
header += " " * (-(len(header) + 11) % 64) + "\n"
values = array.array("f", (byte / 128 - 1 for byte in random.Random(1).randbytes(math.prod(shape))))
pathlib.Path(sys.argv[1]).write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
                                      + values.tobytes())
