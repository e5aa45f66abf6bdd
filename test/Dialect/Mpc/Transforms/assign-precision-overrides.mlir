// RUN: mpc-opt %s --mpc-assign-precision="policy=mixed_bfloat16 set=op:softmax=bfloat16" | FileCheck %s --check-prefix=CHECK-KIND
// RUN: mpc-opt %s --mpc-assign-precision="policy=mixed_bfloat16 set=layer:enc/.*=float32" | FileCheck %s --check-prefix=CHECK-LAYER
// RUN: mpc-opt %s --mpc-assign-precision="policy=mixed_bfloat16 set=op:matmul=float32,layer:enc/1=float16,name:second=bfloat16" | FileCheck %s --check-prefix=CHECK-ORDER
// RUN: mpc-opt %s --mpc-assign-precision="policy=%S/Inputs/policy.json set=op:matmul=bfloat16" | FileCheck %s --check-prefix=CHECK-FILE
// RUN: mpc-opt %s --mpc-assign-precision="policy=mixed_bfloat16 set=op:matmul=float32,layer:enc/[12]=float16" | FileCheck %s --check-prefix=CHECK-REGEX
// RUN: mpc-opt %s --mpc-assign-precision="set=layer:enc/.*=bfloat16,layer:.*/1=float16,layer:enc/1=float32" | FileCheck %s --check-prefix=CHECK-EXACT

// A kind: softmax in bf16, requested by the user.
// CHECK-KIND: mpc.softmax {{.*}}rule = "override", list = "mixed_bfloat16", override = "op:softmax=bfloat16"{{.*}} : tensor<64x64xbf16>
// CHECK-KIND: mpc.cast {{.*}} : tensor<64x64xbf16> to tensor<64x64xf32>
// CHECK-KIND-NEXT: return

// A regular expression over layers: both contractions.
// CHECK-LAYER-NOT: bf16>
// CHECK-LAYER: return

// An exact name beats an exact layer, which beats a kind.
// CHECK-ORDER: mpc.matmul {{.*}}override = "layer:enc/1=float16"{{.*}} : (tensor<64x64xf16>, tensor<64x64xf16>) -> tensor<64x64xf32>
// CHECK-ORDER: mpc.matmul {{.*}}override = "name:second=bfloat16"{{.*}} : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xf32>
// CHECK-ORDER: mpc.matmul {{.*}}override = "op:matmul=float32"{{.*}} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>

// The command line beats the file, though the file's key is closer.
// CHECK-FILE-COUNT-3: mpc.matmul {{.*}}list = "test_policy", override = "op:matmul=bfloat16"

// A regular expression over layers beats a kind.
// CHECK-REGEX: mpc.matmul {{.*}}override = "layer:enc/[12]=float16"{{.*}} : (tensor<64x64xf16>
// CHECK-REGEX: mpc.matmul {{.*}}override = "layer:enc/[12]=float16"{{.*}} : (tensor<64x64xf16>
// CHECK-REGEX: mpc.matmul {{.*}}override = "op:matmul=float32"{{.*}} : (tensor<64x64xf32>

// A layer that is named exactly is looked up in no regular expression, so that
// two of them are no contradiction.
// CHECK-EXACT: mpc.matmul {{.*}}override = "layer:enc/1=float32"{{.*}} : (tensor<64x64xf32>
// CHECK-EXACT: mpc.matmul {{.*}}override = "layer:enc/.*=bfloat16"{{.*}} : (tensor<64x64xbf16>
// CHECK-EXACT: mpc.matmul {{.*}}override = "layer:enc/.*=bfloat16"
func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %w = mpc.constant dense<0.5> : tensor<64x64xf32>
  %0 = mpc.matmul %x, %w {mpc.layer = "enc/1"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("first")
  %1 = mpc.matmul %0, %w {mpc.layer = "enc/2"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("second")
  %2 = mpc.matmul %1, %w {mpc.layer = "enc/3"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("third")
  %3 = mpc.softmax %2 axis(1) : tensor<64x64xf32>
  return %3 : tensor<64x64xf32>
}
