# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A matmul whose weights are dequantized blocks of 32 as in GGUF files, as MLIR.

Usage: make_blocks.py ROWS FORMAT, with FORMAT Q4_0, Q4_1, Q4_K, Q5_1, Q6_K or Q8_0
"""
import random
import struct
import sys

rows, form = int(sys.argv[1]), sys.argv[2]
rng = random.Random(3)
DEPTH, COLUMNS = 256, 264
# Smallest and largest integer, elements per scale.
LOW, HIGH, BLOCK = {"Q4_0": (-8, 7, 32), "Q4_1": (0, 15, 32), "Q4_K": (0, 15, 32), "Q5_1": (0, 31, 32),
                    "Q6_K": (-32, 31, 16), "Q8_0": (-127, 127, 32)}[form]


def half(low, high):
    return struct.unpack("<e", struct.pack("<e", rng.uniform(low, high)))[0]


def single(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


values = [0.0] * (DEPTH * COLUMNS)
for column in range(COLUMNS):
    factors = half(0.0001, 0.001), half(0.001, 0.01)
    for first in range(0, DEPTH, BLOCK):
        if form.endswith("_K"):
            scale, least = factors[0] * rng.randrange(1, 64), -factors[1] * rng.randrange(64)
        else:
            scale, least = half(0.001, 0.01), -half(0.01, 0.1)
        if LOW < 0:
            scale, least = scale * rng.choice([1, -1]), 0.0
        # One number of the largest magnitude, as quantizers choose scales.
        for k in range(first, first + BLOCK):
            integer = LOW if k == first else rng.randint(LOW, HIGH)
            values[k * COLUMNS + column] = single(single(scale * integer) + least)
data = struct.pack(f"<{len(values)}f", *values).hex().upper()


def role(kind, name):
    return f'{{mpc.role = #mpc.role<{kind}>, mpc.name = "{name}"}}'


print(f"""func.func @main(%x: tensor<{rows}x{DEPTH}xf32> {role("input", "x")})
    -> (tensor<{rows}x{COLUMNS}xf32> {role("output", "y")}) {{
  %w = mpc.constant dense_resource<w> : tensor<{DEPTH}x{COLUMNS}xf32>
  %y = mpc.matmul %x, %w : (tensor<{rows}x{DEPTH}xf32>, tensor<{DEPTH}x{COLUMNS}xf32>) -> tensor<{rows}x{COLUMNS}xf32>
  return %y : tensor<{rows}x{COLUMNS}xf32>
}}
{{-#
  dialect_resources: {{
    builtin: {{
      w: "0x04000000{data}"
    }}
  }}
#-}}""")
