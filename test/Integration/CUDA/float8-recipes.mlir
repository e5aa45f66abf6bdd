// Recipes with a scale per tensor or row multiply 8-bit floats, by mma on sm_89 and wgmma on sm_90a, against the
// oracle, whose storage-rounding mode sums as these tensor cores. Blocks are multiplied in bf16.
// RUN: mpc check %s --policy float8_current --device cuda-host --target cuda:sm_89 | FileCheck %s
// RUN: echo '{"name": "rows", "extends": "mixed_bfloat16", "operands": {"scaling": "row", "forward": "float8_e4m3fn"}}' > %t.json
// RUN: mpc check %s --policy %t.json --device cuda-host --target cuda:sm_90a | FileCheck %s
// CHECK: y f32[64,64]
// CHECK: all checks held
// RUN: mpc dump %s --policy float8_current --target cuda:sm_90a --after fuse | FileCheck %s --check-prefix=FUSED
// RUN: mpc dump %s --policy float8_block --target cuda:sm_90a --after fuse | FileCheck %s --check-prefix=BLOCK

// The weight of the second layer is a constant of 8-bit floats, along k.
// FUSED: mpc.matmul {{.*}} transpose_rhs {{.*}} (tensor<64x256xf8E4M3FN>, tensor<128x256xf8E4M3FN>) -> tensor<64x128xf32>
// FUSED: mpc.constant {{.*}} tensor<64x128xf8E4M3FN>
// FUSED: mpc.matmul {{.*}} transpose_rhs {{.*}} (tensor<64x128xf8E4M3FN>, tensor<64x128xf8E4M3FN>) -> tensor<64x64xf32>
// BLOCK: mpc.matmul {{.*}} (tensor<64x256xbf16>, tensor<256x128xbf16>)

func.func @main(%x: tensor<64x256xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"},
                %w: tensor<256x128xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "w"})
    -> (tensor<64x64xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %v = mpc.constant dense<0.7> : tensor<128x64xf32>
  %0 = mpc.matmul %x, %w : (tensor<64x256xf32>, tensor<256x128xf32>) -> tensor<64x128xf32> loc("first")
  %1 = mpc.relu %0 : tensor<64x128xf32>
  %2 = mpc.matmul %1, %v : (tensor<64x128xf32>, tensor<128x64xf32>) -> tensor<64x64xf32> loc("last")
  return %2 : tensor<64x64xf32>
}
