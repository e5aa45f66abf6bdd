# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A chain of convolutions whose filters are numbers of four bits times a scale, as MLIR: of several
panels of output channels, of windows, and of an odd number of channels.

Usage: make_narrow_conv.py
"""
import random
import struct

rng = random.Random(5)
layers = [  # outputs, channels, groups, window, dilation
    (40, 64, 1, (3, 3), 1),
    (33, 40, 1, (2, 3), 1),
    (64, 33, 1, (2, 3), 2),
    (48, 64, 2, (3, 1), 1),
    (96, 48, 1, (1, 1), 1),
    (24, 96, 1, (3, 3), 2),
]


def shape(*extents):
    return "tensor<" + "x".join(map(str, extents)) + "xf32>"


def role(kind, name):
    return f'{{mpc.role = #mpc.role<{kind}>, mpc.name = "{name}"}}'


height = width = 10
value, type = "%x", shape(1, layers[0][1], height, width)
lines, resources = [], []
first = type
for i, (outputs, channels, groups, window, dilation) in enumerate(layers):
    filter = shape(outputs, channels // groups, *window)
    numbers = []
    for _ in range(outputs):
        scale = rng.choice([1, 1.25, 1.5]) / 256
        numbers += [7 * scale] + [rng.randrange(-7, 8) * scale
                                  for _ in range(channels // groups * window[0] * window[1] - 1)]
    resources.append(f'      w{i}: "0x04000000{struct.pack(f"<{len(numbers)}f", *numbers).hex().upper()}"')
    pads = [dilation * (extent - 1) for extent in window]
    low, high = [pad // 2 for pad in pads], [pad - pad // 2 for pad in pads]
    result = shape(1, outputs, height, width)
    lines.append(f"""  %w{i} = mpc.constant dense_resource<w{i}> : {filter}
  %c{i} = mpc.conv {value}, %w{i} strides([1, 1]) pad({low}, {high}) dilations([{dilation}, {dilation}]) groups({groups})
      : ({type}, {filter}) -> {result} loc("conv{i}")
  %t{i} = mpc.tanh %c{i} : {result}""")
    value, type = f"%t{i}", result
print(f"""func.func @main(%x: {first} {role("input", "x")}) -> ({type} {role("output", "y")}) {{""")
print("\n".join(lines))
print(f"""  return {value} : {type}
}}
{{-#
  dialect_resources: {{
    builtin: {{""")
print(",\n".join(resources))
print("""    }
  }
#-}""")
