# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes small images of five classes in the format of MNIST: a bright block on noise, at a position
that is the label. usage: make_training_data.py FOLDER [SIZE]"""
import gzip
import pathlib
import random
import struct
import sys

CLASSES, PLACES = 5, [(0, 0), (0, 4), (4, 0), (4, 4), (2, 2)]


def image(random, label, size):
    rows, columns = PLACES[label]
    scale = size // 8
    return bytes(
        random.randrange(150, 256) if rows <= y // scale < rows + 4 and columns <= x // scale < columns + 4
        else random.randrange(0, 120)
        for y in range(size) for x in range(size))


folder = pathlib.Path(sys.argv[1])
size = int(sys.argv[2]) if len(sys.argv) > 2 else 8
folder.mkdir(parents=True, exist_ok=True)
for part, count, seed in (("train", 330, 1), ("t10k", 70, 2)):
    source = random.Random(seed)
    labels = [source.randrange(CLASSES) for _ in range(count)]
    pixels = b"".join(image(source, label, size) for label in labels)
    with gzip.open(folder / f"{part}-images-idx3-ubyte.gz", "wb") as file:
        file.write(struct.pack(">4B3I", 0, 0, 8, 3, count, size, size) + pixels)
    (folder / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">4BI", 0, 0, 8, 1, count) + bytes(labels))
