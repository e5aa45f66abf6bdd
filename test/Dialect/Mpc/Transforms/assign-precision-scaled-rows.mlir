// RUN: mpc-opt %s --mpc-assign-precision="policy=mixed_bfloat16 target=cpu:avx512bf16" | FileCheck %s --check-prefixes=CHECK,CPU
// RUN: mpc-opt %s --mpc-assign-precision="policy=mixed_float16 target=cpu:avx2" | FileCheck %s --check-prefixes=CHECK,HALF
// RUN: mpc-opt %s --mpc-assign-precision="policy=mixed_bfloat16 target=cuda:sm_80" | FileCheck %s --check-prefixes=CHECK,CUDA
// RUN: mpc-opt %s --mpc-assign-precision="policy=mixed_bfloat16 set=op:attention=bfloat16 target=cpu:avx512bf16" | FileCheck %s --check-prefixes=CHECK,SET

// Quantized keys and values (8 bits) are exact as integers and scales: a CPU's attention rounds the
// queries only. A GPU's multiplies 16-bit fragments, as does an overridden op.
// CHECK-LABEL: func.func @narrow_cache(
// CPU: mpc.cast %{{.*}} : tensor<1x2x1x16xf32> to tensor<1x2x1x16xbf16>
// CPU-NOT: xbf16>
// CPU: mpc.cast %{{.*}} : tensor<1x2x1x16xbf16> to tensor<1x2x1x16xf32>
// CPU-NOT: xbf16>
// CPU: mpc.attention {{.*}}"8-bit keys and values are not rounded again"{{.*}} : (tensor<1x2x1x16xf32>, tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>)
// HALF: mpc.attention {{.*}} : (tensor<1x2x1x16xf32>, tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>)
// CUDA: mpc.attention {{.*}} : (tensor<1x2x1x16xbf16>, tensor<1x2x8x16xbf16>, tensor<1x2x8x16xbf16>)
// SET: mpc.attention {{.*}} : (tensor<1x2x1x16xbf16>, tensor<1x2x8x16xbf16>, tensor<1x2x8x16xbf16>)
func.func @narrow_cache(%q: tensor<1x2x1x16xf32>, %k: tensor<8x1x2x16xi8>, %ks: tensor<8x1x2x1xf32>,
                        %v: tensor<8x1x2x16xui8>, %vs: tensor<8x1x2x1xf32>) -> tensor<1x2x1x16xf32> {
  %0 = mpc.cast %k : tensor<8x1x2x16xi8> to tensor<8x1x2x16xf32>
  %1 = mpc.mul %0, %ks : (tensor<8x1x2x16xf32>, tensor<8x1x2x1xf32>) -> tensor<8x1x2x16xf32>
  %2 = mpc.transpose %1 [1, 2, 0, 3] : tensor<8x1x2x16xf32> to tensor<1x2x8x16xf32>
  %3 = mpc.decode_float %v format(f8E4M3FN) : tensor<8x1x2x16xui8> to tensor<8x1x2x16xf32>
  %4 = mpc.mul %3, %vs : (tensor<8x1x2x16xf32>, tensor<8x1x2x1xf32>) -> tensor<8x1x2x16xf32>
  %5 = mpc.transpose %4 [1, 2, 0, 3] : tensor<8x1x2x16xf32> to tensor<1x2x8x16xf32>
  %6 = mpc.attention %q, %2, %5 scale(0.25) : (tensor<1x2x1x16xf32>, tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>) -> tensor<1x2x1x16xf32>
  return %6 : tensor<1x2x1x16xf32>
}

// Values that are not such a product are rounded, and so are the keys next to them.
// CHECK-LABEL: func.func @narrow_keys(
// CPU: mpc.attention {{.*}} : (tensor<1x2x1x16xbf16>, tensor<1x2x8x16xbf16>, tensor<1x2x8x16xbf16>)
func.func @narrow_keys(%q: tensor<1x2x1x16xf32>, %k: tensor<8x1x2x16xi8>, %ks: tensor<8x1x2x1xf32>,
                       %v: tensor<1x2x8x16xf32>) -> tensor<1x2x1x16xf32> {
  %0 = mpc.cast %k : tensor<8x1x2x16xi8> to tensor<8x1x2x16xf32>
  %1 = mpc.mul %0, %ks : (tensor<8x1x2x16xf32>, tensor<8x1x2x1xf32>) -> tensor<8x1x2x16xf32>
  %2 = mpc.transpose %1 [1, 2, 0, 3] : tensor<8x1x2x16xf32> to tensor<1x2x8x16xf32>
  %3 = mpc.attention %q, %2, %v scale(0.25) : (tensor<1x2x1x16xf32>, tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>) -> tensor<1x2x1x16xf32>
  return %3 : tensor<1x2x1x16xf32>
}
