# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes FOLDER/train.npz: 32 images of 8 x 8, the first 16 with the label -100, the others of five classes."""
import array
import pathlib
import random
import sys
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tools"))

from onnx_file import npy_bytes  # noqa: E402

folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True)
pixels = array.array("B", random.Random(1).randbytes(32 * 8 * 8))
labels = array.array("q", [-100] * 16 + [i % 5 for i in range(16)])
with zipfile.ZipFile(folder / "train.npz", "w") as archive:
    archive.writestr("x.npy", npy_bytes("|u1", (32, 8, 8), pixels))
    archive.writestr("label.npy", npy_bytes("<i8", (32,), labels))
