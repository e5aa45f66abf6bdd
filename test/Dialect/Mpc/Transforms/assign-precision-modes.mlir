// A compute mode in the model is a pin: lists do not change it, and an override
// has to agree with it.
// RUN: mpc-opt %s --mpc-assign-precision=policy=mixed_bfloat16 2>/dev/null | FileCheck %s
// RUN: mpc-opt %s --mpc-assign-precision=policy=torch_autocast_cuda_float16 2>/dev/null | FileCheck %s
// RUN: mpc-opt %s --mpc-assign-precision=policy=keras_mixed_float16 2>/dev/null | FileCheck %s
// RUN: mpc-opt %s --mpc-assign-precision=policy=tf_amp_gpu_float16 2>/dev/null | FileCheck %s --check-prefix=PIN
// RUN: mpc-opt %s --mpc-assign-precision="policy=mixed_bfloat16 set=name:first=tf32" 2>/dev/null | FileCheck %s
// RUN: not mpc-opt %s --mpc-assign-precision="policy=mixed_bfloat16 set=name:first=float32" 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not mpc-opt %s --mpc-assign-precision="policy=float32 set=layer:body=float16" 2>&1 | FileCheck %s --check-prefix=LAYER
// RUN: mpc-opt %s --mpc-assign-precision="policy=mixed_bfloat16 set=op:matmul=float32" 2>%t.err | FileCheck %s --check-prefix=KIND
// RUN: FileCheck %s --check-prefix=WARN < %t.err
// RUN: mpc-opt %s --mpc-assign-precision="policy=mixed_bfloat16 set=op:matmul=float32,name:first=tf32" 2>&1 | FileCheck %s --check-prefix=BOTH
// RUN: sed 's/compute(tf32)/compute(bf16x2)/' %s | not mpc-opt --mpc-assign-precision="policy=float32 target=cuda:sm_90" 2>&1 | FileCheck %s --check-prefix=TARGET
// RUN: sed 's/compute(tf32)/compute(bf16x2)/' %s | mpc-opt --mpc-assign-precision=policy=float32 2>&1 | FileCheck %s --check-prefix=WHOLE
// RUN: sed 's/compute(tf32)/compute(bf16x2)/' %s | mpc-opt --mpc-assign-precision="policy=float32 target=cpu:amx" 2>&1 | FileCheck %s --check-prefix=SPLIT

// PIN: mpc.matmul %{{.*}} compute(tf32) {{.*}}rule = "pin", {{.*}}reason = "the model computes it in tf32"{{.*}}(tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
// CHECK: mpc.matmul %{{.*}} compute(tf32) {{.*}}(tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
// CHECK: mpc.matmul {{.*}}tensor<64x64x{{bf16|f16}}>) ->

// NAME: error: {{.*}}override 'name:first=float32' contradicts the model, where 'first' computes in 'tf32'; drop the override or change the model
// LAYER: error: {{.*}}override 'layer:body=float16' contradicts the model, where 'first' computes in 'tf32'; drop the override or change the model
// TARGET: error: {{.*}}the model forces bf16x2 on 'first', but the target has no kernel for it yet; use tf32 or float32

// Without a faster bf16 unit for the split, f32 is at least as exact.
// WHOLE: remark: bf16x2 is permitted in 1 contractions, which kernels of this target compute in float32
// WHOLE: mpc.matmul %{{.*}} compute(bf16x2)
// SPLIT-NOT: remark
// SPLIT: mpc.matmul %{{.*}} compute(bf16x2)

// A kind applies to ops that support it; the other ops' decisions say why not.
// WARN: warning: {{.*}}override 'op:matmul=float32' contradicts the model, where 'first' computes in 'tf32'{{.*}}(obeyed by 1 of 2 ops that it applies to)
// KIND: mpc.matmul %{{.*}} compute(tf32) {{.*}}rule = "pin", list = "mixed_bfloat16", override = "op:matmul=float32", reason = "contradicts the model
// KIND: mpc.matmul {{.*}}rule = "override", {{.*}}(tensor<64x64xf32>, tensor<64x64xf32>)
// BOTH-NOT: warning
// BOTH: mpc.matmul %{{.*}} compute(tf32)
func.func @main(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = mpc.matmul %x, %w compute(tf32) {mpc.layer = "body"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("first")
  %1 = mpc.matmul %0, %w {mpc.layer = "head"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("second")
  return %1 : tensor<64x64xf32>
}
