# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes a small GPT (gpt.onnx: vocabulary 11, 2 sequences of 8 tokens) and texts of a pattern that
it can learn: tokens as .bin, .npy and a folder of both parts.

usage: make_text.py FOLDER
"""
import array
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tools"))
from gpt import Gpt  # noqa: E402
from onnx_file import npy_bytes  # noqa: E402

PATTERN = [1, 2, 3, 1, 2, 4, 5, 9, 1, 0]
folder = pathlib.Path(sys.argv[1])
(folder / "parts").mkdir(parents=True, exist_ok=True)
gpt = Gpt(vocabulary=11, positions=8, layers=1, heads=2, width=32)
gpt.write_trained(folder / "gpt.onnx", gpt.draw(1), batch=2)
text = PATTERN * 40
(folder / "text.bin").write_bytes(array.array("H", text).tobytes())
(folder / "short.bin").write_bytes(array.array("H", text[:8]).tobytes())
(folder / "large.bin").write_bytes(array.array("H", [*text[:20], 11]).tobytes() * 2)
(folder / "text.npy").write_bytes(npy_bytes("<i4", [len(text)], array.array("i", text)))
(folder / "parts" / "train.npy").write_bytes(npy_bytes("<u2", [len(text)], array.array("H", text)))
(folder / "parts" / "val.bin").write_bytes(array.array("H", text[:83]).tobytes())
