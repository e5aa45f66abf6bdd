# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes samples of drawn numbers without NumPy.

usage: make_samples.py FOLDER COUNT NAME:SHAPE[:SCALE]...

Each FOLDER/sampleN.npz has an f32 array of normal numbers times SCALE for each NAME;
SHAPE is extents with x between. SCALE may be nan, or "uneven": small, and of some
positions of the second dimension 256 times what it is of others. Sample N is drawn by seed N.
"""
import math
import pathlib
import random
import struct
import sys
import zipfile

folder, count = pathlib.Path(sys.argv[1]), int(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
for number in range(count):
    draw = random.Random(number)
    with zipfile.ZipFile(folder / f"sample{number}.npz", "w") as archive:
        for array in sys.argv[3:]:
            name, extents, scale = (array + ":1").split(":")[:3]
            shape = tuple(int(extent) for extent in extents.split("x"))
            size = math.prod(shape)
            if scale == "uneven":
                run = math.prod(shape[2:])
                values = [draw.gauss(0, 0.02) * 4.0 ** (at // run % shape[1] * 7 % 5 - 2) for at in range(size)]
            else:
                values = [draw.gauss(0, 1) * float(scale) for _ in range(size)]
            header = repr({"descr": "<f4", "fortran_order": False, "shape": shape})
            header += " " * (-(len(header) + 11) % 64) + "\n"
            archive.writestr(f"{name}.npy",
                             b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header))
                             + header.encode() + struct.pack(f"<{size}f", *values))
