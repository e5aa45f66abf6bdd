# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes model.onnx with input `sound` of two unnamed dimensions, as exporters of audio models leave
them, and arrays for it: sound.npz, wrong.npz under another name, and data.npz for training.

usage: open_shapes.py FOLDER
"""
import array
import pathlib
import sys
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tools"))

from onnx_file import FLOAT, Graph, npy_bytes  # noqa: E402

folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
graph = Graph()
graph.input("sound", FLOAT, ("", ""))
graph.weight("w", (8, 4), array.array("f", [i / 16 - 1 for i in range(32)]))
graph.op("MatMul", ["sound", "w"], "sums")
graph.op("Relu", ["sums"], "loud")
graph.output("loud", FLOAT, ("", 4))
graph.write(folder / "model.onnx")
with zipfile.ZipFile(folder / "data.npz", "w") as archive:
    for part in ("train", "test"):
        for name, width in (("x", 8), ("y", 4)):
            values = array.array("f", [i % 7 / 8 for i in range(8 * width)])
            archive.writestr(f"{name}_{part}.npy", npy_bytes("<f4", (8, width), values))
for name, file in (("sound", "sound.npz"), ("noise", "wrong.npz")):
    with zipfile.ZipFile(folder / file, "w") as archive:
        archive.writestr(f"{name}.npy", npy_bytes("<f4", (2, 8), array.array("f", [i / 8 for i in range(16)])))
