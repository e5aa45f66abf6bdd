# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes .npy files for dense.mlir, classes.mlir, overflow.mlir, top-k-input.onnx and shape-chain.onnx without NumPy. usage: make_arrays.py FOLDER"""
import pathlib
import struct
import sys
import zipfile


def write(path, code, shape, payload):
    header = repr({"descr": code, "fortran_order": False, "shape": shape})
    header += " " * (-(len(header) + 11) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + payload)


folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
write(folder / "x.npy", "<f4", (4, 8), struct.pack("<32f", *([0.5] * 32)))
write(folder / "k3.npy", "<i8", (1,), struct.pack("<q", 3))
write(folder / "k5.npy", "<i8", (1,), struct.pack("<q", 5))
write(folder / "k_wide.npy", "<f8", (1,), struct.pack("<d", 3))
write(folder / "ids.npy", "<i8", (4,), struct.pack("<4q", 0, 1, 0, 1))
write(folder / "within.npy", "<i8", (4,), struct.pack("<4q", 0, 4, -1, -5))
write(folder / "past.npy", "<i8", (4,), struct.pack("<4q", 0, 7, -1, -5))
write(folder / "x_wide.npy", "<f8", (4, 8), struct.pack("<32d", *([0.5] * 32)))
write(folder / "x_shape.npy", "<f4", (8, 4), struct.pack("<32f", *([0.5] * 32)))
write(folder / "ramp.npy", "<f4", (64, 64), struct.pack("<4096f", *((i - 2048) / 512 for i in range(4096))))
for n in (1, 7, 9):
    write(folder / f"chain{n}.npy", "<f4", (n, 3, 4), struct.pack(f"<{12 * n}f", *range(12 * n)))
for name in ("class", "farthest"):
    write(folder / f"{name}.npy", "<i8", (500,), bytes(4000))
with zipfile.ZipFile(folder / "classes.npz", "w") as archive:
    for name in ("class", "farthest"):
        archive.write(folder / f"{name}.npy", f"{name}.npy")
(folder / "cut.npy").write_bytes((folder / "x.npy").read_bytes()[:-5])
(folder / "text.npz").write_text("not a zip file")
