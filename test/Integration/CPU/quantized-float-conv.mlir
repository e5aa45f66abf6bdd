// A convolution of 8-bit floats multiplies the numbers, which bf16 represents, and scales the sums, which exceed f16.
// RUN: mpc dump %s --after precision --policy mixed_bfloat16 | FileCheck %s --check-prefix=NUMBERS
// RUN: mpc check %s --policy mixed_bfloat16 | FileCheck %s
// RUN: mpc check %s --policy mixed_float16 --device cuda-host | FileCheck %s
// NUMBERS: mpc.conv {{.*}}xbf16>) -> tensor<1x4x8x8xf32>
// NUMBERS: mpc.mul
// CHECK: {{^}}y {{.*}} ok
// CHECK: all checks held
func.func @main(%x: tensor<1x16x8x8xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<1x4x8x8xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %s = mpc.constant dense<0.01> : tensor<f32>
  %q = mpc.div %x, %s : (tensor<1x16x8x8xf32>, tensor<f32>) -> tensor<1x16x8x8xf32>
  %c = mpc.encode_float %q format(f8E4M3FN) saturate : tensor<1x16x8x8xf32> to tensor<1x16x8x8xui8>
  %d = mpc.decode_float %c format(f8E4M3FN) : tensor<1x16x8x8xui8> to tensor<1x16x8x8xf32>
  %a = mpc.mul %d, %s : (tensor<1x16x8x8xf32>, tensor<f32>) -> tensor<1x16x8x8xf32>
  %w = mpc.constant dense<126> : tensor<4x16x3x3xui8>
  %ws = mpc.constant dense<0.003> : tensor<f32>
  %e = mpc.decode_float %w format(f8E4M3FN) : tensor<4x16x3x3xui8> to tensor<4x16x3x3xf32>
  %b = mpc.mul %e, %ws : (tensor<4x16x3x3xf32>, tensor<f32>) -> tensor<4x16x3x3xf32>
  %y = mpc.conv %a, %b strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) : (tensor<1x16x8x8xf32>, tensor<4x16x3x3xf32>) -> tensor<1x4x8x8xf32> loc("product")
  return %y : tensor<1x4x8x8xf32>
}
