// QDQ of 8-bit floats multiplies the numbers in bf16, where the level has a unit for it, and scales the sums, which
// exceed f16.
// RUN: mpc dump %s --after fuse --target cpu:amx | FileCheck %s --check-prefix=UNIT
// RUN: mpc dump %s --after precision --target cuda:sm_89 --policy mixed_bfloat16 | FileCheck %s --check-prefix=CUDA
// RUN: mpc check %s --isa avx2 | FileCheck %s
// RUN: mpc check %s --isa avx512bf16 --emulate-units | FileCheck %s
// RUN: mpc check %s --isa amx --emulate-units | FileCheck %s
// RUN: mpc check %s --isa amx --emulate-units --policy mixed_bfloat16 | FileCheck %s
// RUN: mpc check %s --isa amxfp16 --emulate-units --policy mixed_float16 | FileCheck %s
// UNIT: mpc.matmul {{.*}}depth = 2{{.*}}xbf16>) -> tensor<16x32xf32>
// UNIT: mpc.mul
// CUDA: mpc.matmul {{.*}} : (tensor<16x64xf8E4M3FN>, tensor<32x64xf8E4M3FN>) -> tensor<16x32xf32>
// CHECK: {{^}}y {{.*}} ok
// CHECK: all checks held
func.func @main(%x: tensor<16x64xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<16x32xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %s = mpc.constant dense<0.01> : tensor<f32>
  %q = mpc.div %x, %s : (tensor<16x64xf32>, tensor<f32>) -> tensor<16x64xf32>
  %c = mpc.encode_float %q format(f8E4M3FN) saturate : tensor<16x64xf32> to tensor<16x64xui8>
  %d = mpc.decode_float %c format(f8E4M3FN) : tensor<16x64xui8> to tensor<16x64xf32>
  %a = mpc.mul %d, %s : (tensor<16x64xf32>, tensor<f32>) -> tensor<16x64xf32>
  %w = mpc.constant dense<126> : tensor<64x32xui8>
  %ws = mpc.constant dense<0.003> : tensor<f32>
  %e = mpc.decode_float %w format(f8E4M3FN) : tensor<64x32xui8> to tensor<64x32xf32>
  %b = mpc.mul %e, %ws : (tensor<64x32xf32>, tensor<f32>) -> tensor<64x32xf32>
  %y = mpc.matmul %a, %b : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32> loc("product")
  return %y : tensor<16x32xf32>
}
