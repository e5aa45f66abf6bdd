// Operands of an op can be pinned to f32 while its readers decide its result type.
// RUN: mpc-opt %s --mpc-assign-precision="policy=mixed_float16 set=inputs:second=float32" | FileCheck %s --check-prefixes=CHECK,NAME
// RUN: mpc-opt %s --mpc-assign-precision="policy=mixed_float16 set=inputs:layer:enc/[12]=float32" | FileCheck %s --check-prefixes=CHECK,LAYER
// RUN: mpc-opt %s --mpc-assign-precision="policy=%S/Inputs/protected-inputs.json" | FileCheck %s --check-prefixes=CHECK,NAME
// RUN: mpc-opt %s --mpc-assign-precision="policy=torch_autocast_cuda_float16 set=inputs:op:matmul=float32" | FileCheck %s --check-prefix=KIND
// RUN: not mpc-opt %s --mpc-assign-precision="set=inputs:second=float32,name:second=float16" 2>&1 | FileCheck %s --check-prefix=BOTH
// RUN: not mpc-opt %s --mpc-assign-precision="set=inputs:fourth=float32" 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not mpc-opt %s --mpc-assign-precision="set=inputs:second=bfloat16" 2>&1 | FileCheck %s --check-prefix=TYPE

// CHECK-LABEL: func.func @main
// NAME: mpc.matmul {{.*}} : (tensor<64x64xf16>, tensor<64x64xf16>) -> tensor<64x64xf32>
// LAYER: mpc.matmul {{.*}} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
// The value between the two is not rounded.
// CHECK-NOT: mpc.cast {{.*}} : tensor<64x64xf32> to tensor<64x64xf16>
// CHECK: mpc.matmul {{.*}}rule = "override", list = "{{.*}}", reason = "inputs:{{.*}}"{{.*}} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
// The result is f32, since its reader requires f32.
// CHECK: mpc.cast {{.*}} : tensor<64x64xf32> to tensor<64x64xf16>
// CHECK: mpc.matmul {{.*}} : (tensor<64x64xf16>, tensor<64x64xf16>) -> tensor<64x64xf32>

// KIND-COUNT-3: mpc.matmul {{.*}} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>

// BOTH: error: {{.*}}override 'inputs:second=float32' keeps the inputs of 'second' in float32, but override 'name:second=float16' forces float16 on it; drop one of them
// NONE: error: override 'inputs:fourth=float32' matches no op; mpc explain lists the names and layers of a model
// TYPE: error: override 'inputs:second=bfloat16' sets inputs to bfloat16, but inputs can only be kept in float32; for another type, override the op

func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %w = mpc.constant dense<0.5> : tensor<64x64xf32>
  %0 = mpc.matmul %x, %w {mpc.layer = "enc/1"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("first")
  %1 = mpc.matmul %0, %w {mpc.layer = "enc/2"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("second")
  %2 = mpc.matmul %1, %w {mpc.layer = "enc/3"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("third")
  return %2 : tensor<64x64xf32>
}
