# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Copies the named arrays of one .npz into another: keep_arrays.py FROM TO NAME..."""
import sys
import zipfile

source, target, *names = sys.argv[1:]
with zipfile.ZipFile(source) as given, zipfile.ZipFile(target, "w") as kept:
    for name in names:
        kept.writestr(f"{name}.npy", given.read(f"{name}.npy"))
