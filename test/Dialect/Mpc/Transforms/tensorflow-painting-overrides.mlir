// RUN: mpc-opt %s --mpc-assign-precision="policy=tf_amp_gpu_float16 set=op:exp=float16" | FileCheck %s --check-prefix=ALLOW
// RUN: mpc-opt %s --mpc-assign-precision="policy=tf_amp_gpu_float16 set=name:first=float32,name:last=float16" | FileCheck %s --check-prefix=DENY
// RUN: mpc-opt %s --mpc-assign-precision="policy=tf_amp_gpu_float16 set=name:last=float16" | FileCheck %s --check-prefix=OUTPUT
// RUN: mpc-opt %s --mpc-assign-precision="policy=tf_amp_gpu_float16 set=op:tanh=bfloat16" | FileCheck %s --check-prefix=OTHER
// RUN: not mpc-opt %s --mpc-assign-precision="policy=tf_amp_gpu_float16 set=name:one=float32,name:two=float16" 2>&1 | FileCheck %s --check-prefix=SPLIT

// An override to 16 bits is a seed: the reader of exp has no denied input any more.
// ALLOW: mpc.exp {{.*}}rule = "override", list = "tf_amp_gpu_float16", override = "op:exp=float16"{{.*}} : tensor<8x8xf16>
// ALLOW: mpc.mul {{.*}} -> tensor<8x8xf16>

// An override to f32 denies, and the denial propagates (if there is any seed).
// DENY: mpc.matmul {{.*}}override = "name:first=float32"{{.*}} -> tensor<8x8xf32>
// DENY: mpc.tanh {{.*}}reason = "follows 'first', which is on the deny list"{{.*}} : tensor<8x8xf32>

// An override at an output beats rule 0; the signature stays f32.
// OUTPUT: %[[M:.*]] = mpc.matmul {{.*}}override = "name:last=float16"{{.*}} : (tensor<8x8xf16>, tensor<8x8xf16>) -> tensor<8x8xf32>
// OUTPUT: %[[H:.*]] = mpc.cast %[[M]] : tensor<8x8xf32> to tensor<8x8xf16>
// OUTPUT: %[[R:.*]] = mpc.cast %[[H]] : tensor<8x8xf16> to tensor<8x8xf32>
// OUTPUT: return %[[R]]

// Another 16-bit type than the preset's is applied: the neighbours cast.
// OTHER: mpc.tanh {{.*}}override = "op:tanh=bfloat16"{{.*}} : tensor<8x8xbf16>
// OTHER: mpc.cast %{{.*}} : tensor<8x8xbf16> to tensor<8x8xf32>
// OTHER: mpc.mul

// One TensorFlow op has one type.
// SPLIT: error: {{.*}}override 'name:two=float16' contradicts 'name:one=float32': both ops are TensorFlow's one 'SquaredDifference'; keep one of them
// SPLIT: note: {{.*}}the other op
func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = mpc.matmul %x, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc("first")
  %1 = mpc.tanh %0 : tensor<8x8xf32>
  %2 = mpc.exp %x : tensor<8x8xf32>
  %3 = mpc.mul %1, %2 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %4 = mpc.sub %3, %x {mpc.source = #mpc.source<op = "SquaredDifference", id = 1>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc("one")
  %5 = mpc.mul %4, %4 {mpc.source = #mpc.source<op = "SquaredDifference", id = 1>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc("two")
  %6 = mpc.matmul %5, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc("last")
  return %6 : tensor<8x8xf32>
}
