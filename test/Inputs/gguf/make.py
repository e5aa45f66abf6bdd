#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the GGUF files of this folder, with the PyPI packages gguf and transformers.

blocks.gguf: for each quantized format of ggml two blocks of random bytes and some with f16 scales that are subnormal,
infinite and NaN, and under NAME.expected what the package dequantizes them to.
llama.gguf: a Llama of two layers with random weights in Q4_0.
"""
import pathlib
import sys

import gguf
import numpy as np
from gguf.quants import dequantize

FORMATS = "Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K".split()
# Offsets of the f16 numbers in a block.
SCALES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}
# The smallest and the largest subnormal, infinity, NaN.
SPECIAL = [0x0001, 0x83FF, 0x7C00, 0x7E01]

FOLDER = pathlib.Path(__file__).resolve().parent
writer = gguf.GGUFWriter(str(FOLDER / "blocks.gguf"), "test")
rng = np.random.default_rng(0)
for name in FORMATS:
    kind = gguf.GGMLQuantizationType[name]
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    special = SPECIAL if elements == 32 else SPECIAL[:2]
    blocks = rng.integers(0, 256, (2 + len(special), size), dtype=np.uint8)
    for i, block in enumerate(blocks):
        for at in SCALES[name]:
            # Random numbers of either sign between 2^-12 and 8.
            half = special[i - 2] if i >= 2 else int(rng.integers(0xC00, 0x4800)) | int(rng.integers(2)) << 15
            block[at:at + 2] = np.frombuffer(half.to_bytes(2, "little"), np.uint8)
    with np.errstate(all="ignore"):
        numbers = dequantize(blocks, kind)
    writer.add_tensor(name, blocks, raw_dtype=kind)
    writer.add_tensor(name + ".expected", numbers)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()

sys.path.insert(0, str(FOLDER.parents[1] / "Python"))
import gguf_models  # noqa: E402

gguf_models.make(FOLDER / "llama.gguf", "llama", "Q4_0", hidden_size=32, intermediate_size=64, rope_theta=500.0)
