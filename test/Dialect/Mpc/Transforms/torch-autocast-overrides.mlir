// RUN: mpc-opt %s --mpc-assign-precision="policy=torch_autocast_cuda_float16 set=op:softmax=float16,name:first=float32" | FileCheck %s
// RUN: mpc-opt %s --mpc-assign-precision="policy=torch_autocast_cuda_float16 set=op:add=float32" | FileCheck %s --check-prefix=SPLIT

// An override beats the list; later ops see the overridden type.
// CHECK: mpc.matmul {{.*}}override = "name:first=float32"{{.*}} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
// CHECK: mpc.add {{.*}} -> tensor<4x4xf32>
// CHECK: mpc.relu {{.*}} : tensor<4x4xf32>
// CHECK: mpc.softmax {{.*}}override = "op:softmax=float16"{{.*}} : tensor<4x4xf16>

// An op with an override leaves its group: the matmul is rounded before the
// bias is added.
// SPLIT: %[[P:.*]] = mpc.matmul {{.*}} : (tensor<4x4xf16>, tensor<4x4xf16>) -> tensor<4x4xf32>
// SPLIT: %[[N:.*]] = mpc.cast %[[P]] : tensor<4x4xf32> to tensor<4x4xf16>
// SPLIT: %[[S:.*]] = mpc.add {{.*}}override = "op:add=float32"{{.*}} -> tensor<4x4xf32>
// SPLIT: mpc.relu %[[S]] {{.*}} : tensor<4x4xf32>
func.func @main(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>, %b: tensor<4xf32>) -> tensor<4x4xf32> {
  %0 = mpc.matmul %x, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("first")
  %1 = mpc.add %0, %b : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  %2 = mpc.relu %1 : tensor<4x4xf32>
  %3 = mpc.softmax %2 axis(1) : tensor<4x4xf32>
  return %3 : tensor<4x4xf32>
}
