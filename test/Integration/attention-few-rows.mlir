// Decode attention of few tokens reads keys and values in place, on every instruction set:
// numbers of positions and heads that fill no vector and no group, grouped queries,
// masks, causal order, and caches with rows as their first dimension.
//
// RUN: mpc check %s --isa avx2 | FileCheck %s
// RUN: mpc check %s --isa avx2 --policy mixed_bfloat16 | FileCheck %s
// RUN: mpc check %s --isa avx2 --policy mixed_float16 | FileCheck %s
// RUN: mpc check %s --device cpu | FileCheck %s
// RUN: mpc check %s --device cpu --policy mixed_bfloat16 | FileCheck %s
// RUN: mpc check %s --device cpu --policy mixed_float16 | FileCheck %s
// CHECK: all checks held

func.func @main(
    %q1: tensor<1x6x1x32xf32> {mpc.name = "q1", mpc.role = #mpc.role<input>},
    %k1: tensor<37x1x2x32xf32> {mpc.name = "k1", mpc.role = #mpc.role<input>},
    %v1: tensor<37x1x2x64xf32> {mpc.name = "v1", mpc.role = #mpc.role<input>},
    %mask: tensor<1x1x1x37xf32> {mpc.name = "mask", mpc.role = #mpc.role<input>},
    %q3: tensor<2x5x3x16xf32> {mpc.name = "q3", mpc.role = #mpc.role<input>},
    %k3: tensor<2x5x19x16xf32> {mpc.name = "k3", mpc.role = #mpc.role<input>},
    %v3: tensor<2x5x19x160xf32> {mpc.name = "v3", mpc.role = #mpc.role<input>},
    %q4: tensor<4x4x16xf32> {mpc.name = "q4", mpc.role = #mpc.role<input>},
    %k4: tensor<4x3x16xf32> {mpc.name = "k4", mpc.role = #mpc.role<input>})
    -> (tensor<1x6x1x64xf32> {mpc.name = "y1", mpc.role = #mpc.role<output>},
        tensor<2x5x3x160xf32> {mpc.name = "y3", mpc.role = #mpc.role<output>},
        tensor<4x4x16xf32> {mpc.name = "y4", mpc.role = #mpc.role<output>}) {
  %kt = mpc.transpose %k1 [1, 2, 0, 3] : tensor<37x1x2x32xf32> to tensor<1x2x37x32xf32>
  %vt = mpc.transpose %v1 [1, 2, 0, 3] : tensor<37x1x2x64xf32> to tensor<1x2x37x64xf32>
  %0 = mpc.attention %q1, %kt, %vt mask(%mask) scale(0.17) : (tensor<1x6x1x32xf32>, tensor<1x2x37x32xf32>, tensor<1x2x37x64xf32>, tensor<1x1x1x37xf32>) -> tensor<1x6x1x64xf32>
  %1 = mpc.attention %q3, %k3, %v3 scale(0.25) causal : (tensor<2x5x3x16xf32>, tensor<2x5x19x16xf32>, tensor<2x5x19x160xf32>) -> tensor<2x5x3x160xf32>
  %2 = mpc.attention %q4, %k4, %k4 scale(0.25) : (tensor<4x4x16xf32>, tensor<4x3x16xf32>, tensor<4x3x16xf32>) -> tensor<4x4x16xf32>
  return %0, %1, %2 : tensor<1x6x1x64xf32>, tensor<2x5x3x160xf32>, tensor<4x4x16xf32>
}
