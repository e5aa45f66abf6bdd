#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Keeps a model small whose weights are many zeros and short floats of four bytes.

usage: sparse_file.py pack FILE PACKED
       sparse_file.py unpack PACKED FILE

PACKED is xz of the file's number of bytes (eight bytes), of a bit for each of its words
that says whether it is zero, of the words that are not, and of the bytes behind the last word.
"""
import array
import lzma
import sys

# Words of four bytes, the last of which holds sign and exponent.
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 2, "lp": 2, "pb": 2}]


def pack(data):
    words = array.array("I", data[:len(data) & ~3])
    kept = bytearray((len(words) + 7) // 8)
    for i, word in enumerate(words):
        kept[i >> 3] |= (word != 0) << (i & 7)
    dense = array.array("I", filter(None, words))
    parts = (len(data).to_bytes(8, "little"), kept, dense.tobytes(), data[len(words) * 4:])
    return lzma.compress(b"".join(parts), filters=FILTERS)


def unpack(packed):
    data = lzma.decompress(packed)
    count = int.from_bytes(data[:8], "little") // 4
    begin = 8 + (count + 7) // 8
    kept = data[8:begin]
    end = begin + 4 * sum(byte.bit_count() for byte in kept)
    dense = iter(array.array("I", data[begin:end]))
    words = (next(dense) if kept[i >> 3] >> (i & 7) & 1 else 0 for i in range(count))
    return array.array("I", words).tobytes() + data[end:]


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in ("pack", "unpack"):
        sys.exit(__doc__)
    with open(sys.argv[2], "rb") as source:
        data = source.read()
    with open(sys.argv[3], "wb") as target:
        target.write(pack(data) if sys.argv[1] == "pack" else unpack(data))


if __name__ == "__main__":
    main()
