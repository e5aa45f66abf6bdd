// An f32 override applies to the operands of an op as well as to its results: by kind, by
// layer and by name, and where a layer has its own policy.
// RUN: mpc-opt %s --mpc-assign-precision="policy=mixed_bfloat16 set=op:reduce_sum=float32" | FileCheck %s
// RUN: mpc-opt %s --mpc-assign-precision="policy=mixed_bfloat16 set=layer:pool=float32" | FileCheck %s
// RUN: mpc-opt %s --mpc-assign-precision="policy=mixed_bfloat16 set=name:sum=float32" | FileCheck %s
// RUN: mpc-opt %s --mpc-assign-precision="policy=%S/Inputs/float32-layer.json" | FileCheck %s
// RUN: mpc-opt %s --mpc-assign-precision=policy=mixed_bfloat16 | FileCheck %s --check-prefix=WITHOUT

// CHECK: %[[SUM:.*]] = mpc.matmul
// CHECK: %[[COPY:.*]] = mpc.cast %[[SUM]] : tensor<64x64xf32> to tensor<64x64xbf16>
// CHECK: mpc.matmul %[[COPY]]
// CHECK: mpc.reduce_sum %[[SUM]]

// WITHOUT: %[[SUM:.*]] = mpc.matmul
// WITHOUT: %[[STORED:.*]] = mpc.cast %[[SUM]] : tensor<64x64xf32> to tensor<64x64xbf16>
// WITHOUT: %[[READ:.*]] = mpc.cast %[[STORED]] : tensor<64x64xbf16> to tensor<64x64xf32>
// WITHOUT: mpc.reduce_sum %[[READ]]
func.func @main(%x: tensor<64x64xf32>) -> tensor<64xf32> {
  %w = mpc.constant dense<0.3> : tensor<64x64xf32>
  %0 = mpc.matmul %x, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = mpc.matmul %0, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %2 = mpc.reduce_sum %0 axes([1]) {mpc.layer = "pool"} : tensor<64x64xf32> -> tensor<64xf32> loc("sum")
  %3 = mpc.reduce_sum %1 axes([1]) : tensor<64x64xf32> -> tensor<64xf32> loc("other")
  %4 = mpc.add %2, %3 : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %4 : tensor<64xf32>
}
