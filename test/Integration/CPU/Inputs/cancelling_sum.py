# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes a mean of three numbers, in order and reversed, and the numbers."""
import pathlib
import struct
import sys

folder = pathlib.Path(sys.argv[1])
header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }".ljust(117) + b"\n"
(folder / "x.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header +
                               struct.pack("<3f", 2.7746503, -2.122063, -0.6950564))
for name, turn in (("forwards", ""), ("backwards", "%t = mpc.reverse %x axes([0]) : tensor<3xf32>\n")):
    (folder / f"{name}.mlir").write_text(
        'func.func @main(%x: tensor<3xf32> {mpc.name = "x", mpc.role = #mpc.role<input>}) '
        '-> (tensor<1xf32> {mpc.name = "y", mpc.role = #mpc.role<output>}) {\n' + turn +
        f"%0 = mpc.reduce_mean {'%t' if turn else '%x'} axes([0]) keep_dims : tensor<3xf32> -> tensor<1xf32>\n"
        "return %0 : tensor<1xf32>\n}\n")
