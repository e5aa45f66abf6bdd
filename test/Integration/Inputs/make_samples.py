# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes random samples without NumPy.

usage: make_samples.py FOLDER COUNT NAME:SHAPE[:SCALE]...

Each FOLDER/sampleN.npz has an f32 array of normal numbers times SCALE for each NAME;
SHAPE is extents with x between. SCALE may be nan, iN for i32 numbers below N, or "uneven": small,
and for some positions of the second dimension 256 times larger. Sample N uses
seed N. FOLDER may be a file FOLDER.npz, whose arrays hold the samples concatenated.
"""
import math
import pathlib
import random
import struct
import sys
import zipfile

folder, count = pathlib.Path(sys.argv[1]), int(sys.argv[2])


def array_of(draw, shape, scale):
    """(type, bytes)"""
    size = math.prod(shape)
    if scale.startswith("i"):
        return "<i4", struct.pack(f"<{size}i", *[draw.randrange(int(scale[1:]))
                                                 for _ in range(size)])
    if scale == "uneven":
        run = math.prod(shape[2:])
        return "<f4", struct.pack(f"<{size}f", *[draw.gauss(0, 0.02) * 4.0 ** (at // run % shape[1] * 7 % 5 - 2)
                                                 for at in range(size)])
    return "<f4", struct.pack(f"<{size}f", *[draw.gauss(0, 1) * float(scale)
                                             for _ in range(size)])


def write(path, arrays):
    with zipfile.ZipFile(path, "w") as archive:
        for name, kind, shape, data in arrays:
            header = repr({"descr": kind, "fortran_order": False, "shape": shape})
            header += " " * (-(len(header) + 11) % 64) + "\n"
            archive.writestr(f"{name}.npy", b"\x93NUMPY\x01\x00"
                             + struct.pack("<H", len(header)) + header.encode() + data)


samples = []
for number in range(count):
    draw = random.Random(number)
    samples.append([])
    for array in sys.argv[3:]:
        name, extents, scale = (array + ":1").split(":")[:3]
        shape = tuple(int(extent) for extent in extents.split("x"))
        kind, data = array_of(draw, shape, scale)
        samples[-1].append((name, kind, shape, data))
if folder.suffix == ".npz":
    write(folder, [(parts[0][0], parts[0][1], (count, *parts[0][2]),
                    b"".join(part[3] for part in parts)) for parts in zip(*samples)])
else:
    folder.mkdir(parents=True, exist_ok=True)
    for number, sample in enumerate(samples):
        write(folder / f"sample{number}.npz", sample)
