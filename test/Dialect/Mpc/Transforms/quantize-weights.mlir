// RUN: split-file %s %t && cd %t
// RUN: mpc-opt model.mlir --pass-pipeline='builtin.module(func.func(mpc-quantize-weights{policy=int8.json}))' | FileCheck model.mlir --check-prefixes=CHECK,INT8
// RUN: mpc-opt model.mlir --pass-pipeline='builtin.module(func.func(mpc-quantize-weights{policy=int4.json}))' | FileCheck model.mlir --check-prefixes=CHECK,INT4
// RUN: mpc-opt model.mlir --pass-pipeline='builtin.module(func.func(mpc-quantize-weights{policy=bf16.json}))' | FileCheck model.mlir --check-prefixes=CHECK,BF16
// RUN: mpc-opt model.mlir --pass-pipeline='builtin.module(func.func(mpc-quantize-weights{policy=float32}))' | FileCheck model.mlir --check-prefix=FLOAT
// RUN: mpc-opt model.mlir --pass-pipeline='builtin.module(func.func(mpc-quantize-weights{policy=int8.json set=name:first=float32}))' | FileCheck model.mlir --check-prefix=SET
// RUN: mpc-opt model.mlir --pass-pipeline='builtin.module(func.func(mpc-quantize-weights{policy=mixed.json}))' | FileCheck model.mlir --check-prefix=MIXED
// RUN: mpc-opt model.mlir --pass-pipeline='builtin.module(func.func(mpc-quantize-weights{policy=named.json}))' | FileCheck model.mlir --check-prefix=NAMED
// RUN: not mpc-opt trained.mlir --pass-pipeline='builtin.module(func.func(mpc-quantize-weights{policy=named.json}))' 2>&1 | FileCheck trained.mlir
// RUN: not mpc-opt trained.mlir --pass-pipeline='builtin.module(func.func(mpc-quantize-weights{policy=int8.json}))' 2>&1 | FileCheck trained.mlir
// RUN: mpc-opt large.mlir --pass-pipeline='builtin.module(func.func(mpc-quantize-weights{policy=f16.json}))' 2>&1 | FileCheck large.mlir

//--- int8.json
{"name": "narrow", "extends": "float32", "weights": {"type": "int8", "clip": false}}
//--- mixed.json
{"name": "narrow", "extends": "mixed_bfloat16", "weights": {"type": "int8", "clip": false}}
//--- named.json
{"name": "narrow", "extends": "float32", "weights": {"names": {"first": {"type": "int8", "clip": false}, "last": "int16"}}}
//--- int4.json
{"name": "narrow", "extends": "float32", "weights": "int4"}
//--- bf16.json
{"name": "narrow", "extends": "float32", "weights": "bfloat16"}
//--- f16.json
{"name": "narrow", "extends": "float32", "weights": "float16"}

//--- model.mlir
// Each column has its scale: 1/127 and 2/127 with 16 significant bits. The other
// reader of the constant reads the original.
// FLOAT-NOT: mpc.weights
// Scaled integers are representable in the multiplied type: in bf16 with a power
// of two, 1/64 and 1/32.
// MIXED-LABEL: func.func @columns
// MIXED: mpc.constant dense<{{\[\[}}9.375000e-02, 2.000000e+00], [1.000000e+00, 9.375000e-02]]> {{.*}}mpc.weights = "int8
// SET-LABEL: func.func @columns
// SET: mpc.constant dense<{{\[\[}}1.000000e-01, 2.000000e+00], [1.000000e+00, 1.000000e-01]]> : tensor<2x2xf32>
// SET-NOT: mpc.weights = {{.*}} : tensor<2x2xf32>
// Overrides by name apply to single ops.
// NAMED-LABEL: func.func @columns
// NAMED: mpc.weights = "int8, one scale per column, not clipped"
// NAMED-LABEL: func.func @groups
// NAMED: mpc.weights = "int16, one scale per column"
// NAMED-LABEL: func.func @filters
// NAMED-NOT: mpc.weights
// CHECK-LABEL: func.func @columns
// INT8: mpc.constant dense<{{\[\[}}0.102{{.*}}, {{2.000.*|1.999.*}}], [{{1.000.*|0.999.*}}, 0.094{{.*}}]]> : tensor<2x2xf32> {mpc.narrowing = #mpc.narrowing<count = 4, overflowed = 0, flushed = 0, max_error = {{.*}}, rms_error = {{.*}}>, mpc.weights = "int8, one scale per column, not clipped"}
// Two positions are no group of 32.
// INT4: mpc.weights = "int8, one scale per column"
// BF16: mpc.constant dense<{{\[\[}}0.100097656, 2.000000e+00], [1.000000e+00, 0.100097656]]> {{.*}}mpc.weights = "bfloat16"
// CHECK: mpc.add %{{.+}}, %[[OWN:.+]] : (tensor<1x2xf32>, tensor<2x2xf32>)
func.func @columns(%x: tensor<1x2xf32>) -> tensor<2x2xf32> {
  %w = mpc.constant dense<[[0.1, 2.0], [1.0, 0.1]]> : tensor<2x2xf32>
  %0 = mpc.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32> loc("first")
  %1 = mpc.add %0, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return %1 : tensor<2x2xf32>
}

// Groups along the contracted dimension, transposed or not.
// CHECK-LABEL: func.func @groups
// INT4: mpc.weights = "int4, groups of 32"
// INT4: mpc.matmul {{.*}} transpose_rhs
func.func @groups(%x: tensor<1x64xf32>) -> tensor<1x3xf32> {
  %w = mpc.constant dense<0.3> : tensor<3x64xf32>
  %0 = mpc.matmul %x, %w transpose_rhs : (tensor<1x64xf32>, tensor<3x64xf32>) -> tensor<1x3xf32> loc("last")
  return %0 : tensor<1x3xf32>
}

// A group of a filter is 32 channels at one window position. Batches of
// matrices are unchanged.
// CHECK-LABEL: func.func @filters
// INT4-NOT: mpc.weights = {{.*}} : tensor<2x32x4xf32>
// INT4: tensor<4x32x1x1xf32> {{.*}}mpc.weights = "int4, groups of 32"
func.func @filters(%x: tensor<1x32x2x2xf32>, %y: tensor<2x1x32xf32>) -> (tensor<1x4x2x2xf32>, tensor<2x1x4xf32>) {
  %w = mpc.constant dense<0.3> : tensor<4x32x1x1xf32>
  %v = mpc.constant dense<0.3> : tensor<2x32x4xf32>
  %0 = mpc.conv %x, %w strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) : (tensor<1x32x2x2xf32>, tensor<4x32x1x1xf32>) -> tensor<1x4x2x2xf32>
  %1 = mpc.matmul %y, %v : (tensor<2x1x32xf32>, tensor<2x32x4xf32>) -> tensor<2x1x4xf32>
  return %0, %1 : tensor<1x4x2x2xf32>, tensor<2x1x4xf32>
}

// Filters of groups, and those of other numbers of channels, have a scale per
// output channel.
// CHECK-LABEL: func.func @channels
// INT4: tensor<4x16x1x2xf32> {{.*}}mpc.weights = "int8, one scale per column"
// INT4: tensor<4x32x1x1xf32> {{.*}}mpc.weights = "int8, one scale per column"
func.func @channels(%x: tensor<1x16x2x2xf32>, %y: tensor<1x64x2x2xf32>) -> (tensor<1x4x2x1xf32>, tensor<1x4x2x2xf32>) {
  %w = mpc.constant dense<0.3> : tensor<4x16x1x2xf32>
  %v = mpc.constant dense<0.7> : tensor<4x32x1x1xf32>
  %0 = mpc.conv %x, %w strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) : (tensor<1x16x2x2xf32>, tensor<4x16x1x2xf32>) -> tensor<1x4x2x1xf32>
  %1 = mpc.conv %y, %v strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) groups(2) : (tensor<1x64x2x2xf32>, tensor<4x32x1x1xf32>) -> tensor<1x4x2x2xf32>
  return %0, %1 : tensor<1x4x2x1xf32>, tensor<1x4x2x2xf32>
}

//--- trained.mlir
// CHECK: error: policy 'narrow' stores weights as int8, one scale per column, not clipped, but the weights of a training step are arguments; train with float32 weights and quantize the trained model
func.func @main(%w: tensor<2x2xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "w"}, %x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %0 = mpc.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  return %0 : tensor<1x2xf32>
}

//--- large.mlir
// CHECK: warning: {{.*}}weights 'w' in float16: 1 of 2 values become infinite; override the op that reads them with float32
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x1xf32> {
  %w = mpc.constant dense<[[1.0e+05], [1.0]]> : tensor<2x1xf32> loc("w")
  %0 = mpc.matmul %x, %w : (tensor<1x2xf32>, tensor<2x1xf32>) -> tensor<1x1xf32>
  return %0 : tensor<1x1xf32>
}
