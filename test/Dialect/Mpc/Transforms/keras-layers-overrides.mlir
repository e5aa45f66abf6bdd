// RUN: mpc-opt %s --mpc-assign-precision="policy=keras_mixed_float16 set=op:softmax=float32,name:second=bfloat16,layer:c=float64" | FileCheck %s

// K7: overrides come before any layer, as they come before any list.
// CHECK: mpc.relu {{.*}}rule = "layer"{{.*}} : tensor<8x8xf16>
// CHECK: mpc.matmul {{.*}}override = "name:second=bfloat16"{{.*}} : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xf32>
// CHECK: mpc.softmax {{.*}}override = "op:softmax=float32"{{.*}} : tensor<8x8xf32>
// CHECK: mpc.tanh {{.*}}override = "layer:c=float64"{{.*}} : tensor<8x8xf64>
func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = mpc.relu %x {mpc.layer = "a"} : tensor<8x8xf32>
  %1 = mpc.matmul %0, %0 {mpc.layer = "a"} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc("second")
  %2 = mpc.softmax %1 axis(1) {mpc.layer = "b"} : tensor<8x8xf32>
  %3 = mpc.tanh %2 {mpc.layer = "c"} : tensor<8x8xf32>
  return %3 : tensor<8x8xf32>
}
