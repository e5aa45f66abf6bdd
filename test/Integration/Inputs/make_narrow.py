# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layers whose weights a policy quantizes, as MLIR: matmuls of one row and of many, of
extents that no group and no panel divides, and convolutions.

Usage: make_narrow.py ROWS [stored]

stored: the weights of the matmuls are already quantized: groups of 4 bits
with a scale and a zero point each, and int8.
"""
import random
import struct
import sys

rows = int(sys.argv[1])
stored = len(sys.argv) > 2
rng = random.Random(7)


def single(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def resource(values):
    data = struct.pack(f"<{len(values)}f", *values)
    return '"0x04000000' + data.hex().upper() + '"'


def normal(count):
    return [rng.gauss(0, 0.1) for _ in range(count)]


def matrix(depth, columns, form):
    """[depth][columns]; of groups of `form[0]` positions with `form[1]` levels."""
    if not stored or form is None:
        return normal(depth * columns)
    group, levels = form
    values = [0.0] * (depth * columns)
    for column in range(columns):
        for first in range(0, depth, group):
            scale = single(rng.uniform(0.01, 0.1) * 16 / levels)
            zero = rng.randrange(levels)
            for k in range(first, first + group):
                values[k * columns + column] = scale * (rng.randrange(levels) - zero)
    return values


products = [  # depth, columns, form
    (256, 130, (64, 16)),
    (130, 97, (130, 256)),
    (97, 96, None),
    (96, 1056, (32, 16)),
    (1056, 40, (1056, 16)),
]
lines, resources, value, width = [], {}, "%x", products[0][0]
for i, (depth, columns, form) in enumerate(products):
    resources[f"w{i}"] = resource(matrix(depth, columns, form))
    lines += [
        f"  %w{i} = mpc.constant dense_resource<w{i}> : tensor<{depth}x{columns}xf32>",
        f"  %p{i} = mpc.matmul {value}, %w{i} : (tensor<{rows}x{depth}xf32>, "
        f'tensor<{depth}x{columns}xf32>) -> tensor<{rows}x{columns}xf32> loc("fc{i}")',
        f"  %t{i} = mpc.tanh %p{i} : tensor<{rows}x{columns}xf32>",
    ]
    value = f"%t{i}"
resources["v"] = resource(normal(24 * 40))
resources["f"] = resource(normal(48 * 8 * 9))
resources["g"] = resource(normal(32 * 24 * 1))
def role(kind, name):
    return f'{{mpc.role = #mpc.role<{kind}>, mpc.name = "{name}"}}'


print(f"""func.func @main(%x: tensor<{rows}x{width}xf32> {role("input", "x")},
                %i: tensor<1x8x9x9xf32> {role("input", "i")})
    -> (tensor<{rows}x24xf32> {role("output", "y")},
        tensor<1x32x5x5xf32> {role("output", "z")}) {{""")
print("\n".join(lines))
print(f"""  %v = mpc.constant dense_resource<v> : tensor<24x40xf32>
  %y = mpc.matmul {value}, %v transpose_rhs : (tensor<{rows}x40xf32>, tensor<24x40xf32>) -> tensor<{rows}x24xf32> loc("last")
  %f = mpc.constant dense_resource<f> : tensor<48x8x3x3xf32>
  %g = mpc.constant dense_resource<g> : tensor<32x24x1x1xf32>
  %c = mpc.conv %i, %f strides([2, 2]) pad([1, 1], [1, 1]) dilations([1, 1]) : (tensor<1x8x9x9xf32>, tensor<48x8x3x3xf32>) -> tensor<1x48x5x5xf32> loc("conv")
  %r = mpc.relu %c : tensor<1x48x5x5xf32>
  %z = mpc.conv %r, %g strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) groups(2) : (tensor<1x48x5x5xf32>, tensor<32x24x1x1xf32>) -> tensor<1x32x5x5xf32> loc("grouped")
  return %y, %z : tensor<{rows}x24xf32>, tensor<1x32x5x5xf32>
}}
{{-#
  dialect_resources: {{
    builtin: {{""")
print(",\n".join(f"      {name}: {text}" for name, text in resources.items()))
print("""    }
  }
#-}""")
