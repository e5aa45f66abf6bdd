// Between two dense layers one cast ends the chain, after the activation: it is fused into
// the first matmul's epilogue, and the stored value has 16 bits.
// RUN: mpc-opt %s --mpc-pipeline-precision=policy=mixed_float16 | FileCheck %s --check-prefix=CHECK-PRECISION
// RUN: mpc-opt %s --mpc-pipeline-precision=policy=mixed_float16 --mpc-pipeline-layout --mpc-pipeline-fuse | FileCheck %s --check-prefix=CHECK-FUSED

// CHECK-PRECISION-LABEL: func.func @main(
// CHECK-PRECISION: %[[P:.*]] = mpc.matmul {{.*}} -> tensor<4x16xf32>
// CHECK-PRECISION-NEXT: %[[S:.*]] = mpc.add %[[P]], {{.*}} -> tensor<4x16xf32>
// CHECK-PRECISION-NEXT: %[[A:.*]] = mpc.relu %[[S]] {{.*}} : tensor<4x16xf32>
// CHECK-PRECISION-NEXT: %[[H:.*]] = mpc.cast %[[A]] {{.*}}: tensor<4x16xf32> to tensor<4x16xf16>
// CHECK-PRECISION-NEXT: mpc.matmul %[[H]],
// CHECK-PRECISION-NOT: mpc.cast
// CHECK-PRECISION: return

// CHECK-FUSED-LABEL: func.func @main(
// CHECK-FUSED: %[[H:.*]] = mpc.fusion kind(contraction) {{.*}} -> tensor<4x16xf16> {
// CHECK-FUSED-NEXT: mpc.matmul
// CHECK-FUSED: mpc.add
// CHECK-FUSED-NEXT: mpc.relu
// CHECK-FUSED-NEXT: mpc.cast
// CHECK-FUSED-NEXT: mpc.yield
// CHECK-FUSED: mpc.fusion kind(contraction) {{.*}} = %[[H]] : tensor<4x16xf16>
func.func @main(%x: tensor<4x8xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<4x3xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %w = mpc.constant dense<0.25> : tensor<8x16xf32>
  %b = mpc.constant dense<0.5> : tensor<16xf32>
  %v = mpc.constant dense<0.125> : tensor<16x3xf32>
  %0 = mpc.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %1 = mpc.add %0, %b : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
  %2 = mpc.relu %1 : tensor<4x16xf32>
  %3 = mpc.matmul %2, %v : (tensor<4x16xf32>, tensor<16x3xf32>) -> tensor<4x3xf32>
  return %3 : tensor<4x3xf32>
}
