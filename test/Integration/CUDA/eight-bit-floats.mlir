// GEMMs of 8-bit floats with a scale in the epilogue, by mma on sm_89 and wgmma on sm_90a, against the oracle, whose
// storage-rounding mode sums as these tensor cores: 13 fraction bits, or f32 after every 128 products.
// RUN: mpc check %s --device cuda-host --target cuda:sm_89 | FileCheck %s
// RUN: mpc check %s --device cuda-host --target cuda:sm_90a | FileCheck %s
// CHECK: fast f32[72,136]
// CHECK: promoted bf16[72,136]
// CHECK: all checks held

// No other device has such units.
// RUN: not mpc check %s --device cuda-host --target cuda:sm_80 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: multiplies 8-bit floats, which needs a target with matrix units of these types and an f32 result

func.func @main(%a: tensor<72x400xf8E4M3FN> {mpc.role = #mpc.role<input>, mpc.name = "a"},
                %b: tensor<136x400xf8E5M2> {mpc.role = #mpc.role<input>, mpc.name = "b"},
                %scale: tensor<f32> {mpc.role = #mpc.role<input>, mpc.name = "scale"})
    -> (tensor<72x136xf32> {mpc.role = #mpc.role<output>, mpc.name = "fast"},
        tensor<72x136xbf16> {mpc.role = #mpc.role<output>, mpc.name = "promoted"}) {
  %0 = mpc.matmul %a, %b transpose_rhs : (tensor<72x400xf8E4M3FN>, tensor<136x400xf8E5M2>) -> tensor<72x136xf32>
  %1 = mpc.mul %0, %scale : (tensor<72x136xf32>, tensor<f32>) -> tensor<72x136xf32>
  %2 = mpc.matmul %a, %b transpose_rhs accumulate(f32) : (tensor<72x400xf8E4M3FN>, tensor<136x400xf8E5M2>) -> tensor<72x136xf32>
  %3 = mpc.mul %2, %scale : (tensor<72x136xf32>, tensor<f32>) -> tensor<72x136xf32>
  %4 = mpc.cast %3 : tensor<72x136xf32> to tensor<72x136xbf16>
  return %1, %4 : tensor<72x136xf32>, tensor<72x136xbf16>
}
