# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes a quantized convolution and a quantized matmul as imported from QDQ nodes: activations ui8
with a zero point, weights i8, the matmul with one scale per column."""

import random

random.seed(3)


def literal(*extents):
    if not extents:
        return str(random.randint(-127, 127))
    return "[" + ", ".join(literal(*extents[1:]) for _ in range(extents[0])) + "]"


def quantize(name, value, shape):
    """`value` to bytes and back, in ops %NAME0 to %NAME9."""
    f, u, i = (f"tensor<{shape}x{t}>" for t in ("f32", "ui8", "i64"))
    print(f"""  %{name}0 = mpc.mul %{value}, %rate : ({f}, tensor<f32>) -> {f}
  %{name}1 = mpc.add %{name}0, %zero : ({f}, tensor<f32>) -> {f}
  %{name}2 = mpc.round %{name}1 : {f}
  %{name}3 = mpc.clamp %{name}2, %low, %high : ({f}, tensor<f32>, tensor<f32>) -> {f}
  %{name}4 = mpc.cast %{name}3 : {f} to {u}
  %{name}5 = mpc.cast %{name}4 : {u} to {i}
  %{name}6 = mpc.cast %point : tensor<ui8> to tensor<i64>
  %{name}7 = mpc.sub %{name}5, %{name}6 : ({i}, tensor<i64>) -> {i}
  %{name}8 = mpc.cast %{name}7 : {i} to {f}
  %{name}9 = mpc.mul %{name}8, %scale : ({f}, tensor<f32>) -> {f}""")


print("""func.func @main(%x: tensor<2x20x6x7xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<2x21xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %scale = mpc.constant dense<3.125000e-02> : tensor<f32>
  %rate = mpc.constant dense<32.0> : tensor<f32>
  %zero = mpc.constant dense<121.0> : tensor<f32>
  %point = mpc.constant dense<121> : tensor<ui8>
  %low = mpc.constant dense<0.0> : tensor<f32>
  %high = mpc.constant dense<255.0> : tensor<f32>""")
quantize("a", "x", "2x20x6x7")
print(f"""  %f = mpc.constant dense<{literal(9, 20, 3, 3)}> : tensor<9x20x3x3xi8>
  %fs = mpc.constant dense<6.103515625e-05> : tensor<f32>
  %f0 = mpc.cast %f : tensor<9x20x3x3xi8> to tensor<9x20x3x3xf32>
  %f1 = mpc.mul %f0, %fs : (tensor<9x20x3x3xf32>, tensor<f32>) -> tensor<9x20x3x3xf32>
  %c = mpc.conv %a9, %f1 strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) : (tensor<2x20x6x7xf32>, tensor<9x20x3x3xf32>) -> tensor<2x9x6x7xf32>
  %r = mpc.relu %c : tensor<2x9x6x7xf32>""")
quantize("b", "r", "2x9x6x7")
scales = ", ".join(f"{2.0 ** -random.randint(9, 13):e}" for _ in range(21))
print(f"""  %flat = mpc.reshape %b9 : tensor<2x9x6x7xf32> to tensor<2x378xf32>
  %w = mpc.constant dense<{literal(378, 21)}> : tensor<378x21xi8>
  %ws = mpc.constant dense<[[{scales}]]> : tensor<1x21xf32>
  %w0 = mpc.cast %w : tensor<378x21xi8> to tensor<378x21xf32>
  %w1 = mpc.mul %w0, %ws : (tensor<378x21xf32>, tensor<1x21xf32>) -> tensor<378x21xf32>
  %y = mpc.matmul %flat, %w1 : (tensor<2x378xf32>, tensor<378x21xf32>) -> tensor<2x21xf32>
  return %y : tensor<2x21xf32>
}}""")
