# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the input of layer.mlir without NumPy. usage: make_input.py FILE.npy"""
import pathlib
import struct
import sys

header = repr({"descr": "<f4", "fortran_order": False, "shape": (64, 8)})
header += " " * (-(len(header) + 11) % 64) + "\n"
pathlib.Path(sys.argv[1]).write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
                                      + struct.pack("<512f", *([0.5] * 512)))
