# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes FILE.npz with one array of float32 zeros, compressed: zeros.py FILE NAME EXTENT..."""

import sys
import zipfile


def main():
    path, name, *extents = sys.argv[1:]
    shape = tuple(map(int, extents))
    header = repr({"descr": "<f4", "fortran_order": False, "shape": shape})
    header = header.ljust(117) + "\n"
    size = 4
    for extent in shape:
        size *= extent
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open(name + ".npy", "w", force_zip64=True) as entry:
            entry.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
            block = bytes(1 << 20)
            while size > 0:
                entry.write(block[:size])
                size -= len(block)


if __name__ == "__main__":
    main()
