// RUN: mpc-opt %s --mpc-assign-precision=policy=tf32 2>&1 | FileCheck %s --check-prefix=TF32
// RUN: mpc-opt %s --mpc-assign-precision="policy=mixed_float16 set=op:matmul=tf32" 2>&1 | FileCheck %s --check-prefix=TF32-KIND
// RUN: mpc-opt %s --mpc-assign-precision="set=op:softmax=float64" | FileCheck %s --check-prefix=F64
// RUN: mpc-opt %s --mpc-assign-precision="policy=mixed_float16 set=name:last=float64" | FileCheck %s --check-prefix=F64-LAST
// RUN: mpc-opt %s --mpc-assign-precision="policy=%S/Inputs/variable-policy.json" | FileCheck %s --check-prefix=VARIABLE
// RUN: mpc-opt %s --mpc-assign-precision="policy=%S/Inputs/layer-policies.json" | FileCheck %s --check-prefix=LAYERS

// tf32 is a mode of f32 contractions: no type changes, and a target without tf32
// rounding of operands warns once.
// TF32: remark: tf32 is permitted in 2 contractions, which this target computes in float32
// TF32-NOT: remark
// TF32-NOT: mpc.cast
// TF32: mpc.matmul %{{.*}} compute(tf32) {mpc.decision = #mpc.decision<rule = "low", list = "tf32"{{.*}} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
// TF32: mpc.softmax {{.*}} : tensor<64x64xf32>
// TF32: mpc.matmul %{{.*}} compute(tf32)
// TF32-NOT: mpc.cast
// TF32: return

// By override as well, under a policy that would use low precision.
// TF32-KIND: mpc.matmul %{{.*}} compute(tf32) {{.*}}override = "op:matmul=tf32"{{.*}} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>

// f64 by override: the op computes in f64, its readers get f32.
// F64: mpc.matmul {{.*}} -> tensor<64x64xf32>
// F64: %[[W:.*]] = mpc.cast {{.*}} : tensor<64x64xf32> to tensor<64x64xf64>
// F64: %[[S:.*]] = mpc.softmax %[[W]] {{.*}}override = "op:softmax=float64"{{.*}} : tensor<64x64xf64>
// F64: mpc.cast %[[S]] : tensor<64x64xf64> to tensor<64x64xf32>
// F64: mpc.matmul {{.*}} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>

// An f64 contraction has f64 accumulators; the signature keeps its types.
// F64-LAST: %[[M:.*]] = mpc.matmul {{.*}}override = "name:last=float64"{{.*}} : (tensor<64x64xf64>, tensor<64x64xf64>) -> tensor<64x64xf64>
// F64-LAST: %[[O:.*]] = mpc.cast %[[M]] : tensor<64x64xf64> to tensor<64x64xf32>
// F64-LAST: return %[[O]] : tensor<64x64xf32>

// variable: parameters are rounded at compile time, then read in f32; the literal
// 0.125 is no variable. output: returned values are rounded, then upcast.
// VARIABLE: %[[P:.*]] = mpc.constant dense<3.007810e-01> : tensor<64x64xbf16>
// VARIABLE: %[[C:.*]] = mpc.constant dense<1.230000e-01> : tensor<f32>
// VARIABLE: %[[R:.*]] = mpc.cast %[[P]] : tensor<64x64xbf16> to tensor<64x64xf32>
// VARIABLE: mpc.matmul %{{.*}}, %[[R]] {{.*}} : (tensor<64x64xf32>,
// VARIABLE: mpc.mul %{{.*}}, %[[C]]
// VARIABLE: %[[M:.*]] = mpc.matmul
// VARIABLE: %[[H:.*]] = mpc.cast %[[M]] : tensor<64x64xf32> to tensor<64x64xf16>
// VARIABLE: %[[O:.*]] = mpc.cast %[[H]] : tensor<64x64xf16> to tensor<64x64xf32>
// VARIABLE: return %[[O]]

// layers: each layer takes its policy's lists and types.
// LAYERS: mpc.matmul {{.*}}reason = "layer 'body/1' has policy 'mixed_bfloat16'{{.*}} : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xf32>
// LAYERS: mpc.matmul {{.*}}reason = "layer 'head' has policy 'float32'{{.*}} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %w = mpc.constant dense<0.3> : tensor<64x64xf32>
  %c = mpc.constant dense<0.123> : tensor<f32>
  %0 = mpc.matmul %x, %w {mpc.layer = "body/1"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = mpc.mul %0, %c {mpc.layer = "body/1"} : (tensor<64x64xf32>, tensor<f32>) -> tensor<64x64xf32>
  %2 = mpc.softmax %1 axis(1) : tensor<64x64xf32>
  %3 = mpc.matmul %2, %w {mpc.layer = "head"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("last")
  return %3 : tensor<64x64xf32>
}
