// RUN: mpc-opt %s --mpc-assign-precision="policy=%S/Inputs/forced-policy.json target=cuda:sm_90" --verify-diagnostics --split-input-file
// RUN: not mpc-opt %S/Inputs/dense.mlir --mpc-assign-precision="set=name:nowhere=float32" 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not mpc-opt %S/Inputs/dense.mlir --mpc-assign-precision="set=layer:nowhere/.*=float16" 2>&1 | FileCheck %s --check-prefix=LAYER
// RUN: mpc-opt %S/Inputs/dense.mlir --mpc-assign-precision="set=name:nowhere=float32,layer:nowhere/.*=float16 part-of-model" 2>&1 | FileCheck %s --check-prefix=PART
// RUN: not mpc-opt %S/Inputs/dense.mlir --mpc-assign-precision="set=layer:encc/.*=float16" 2>&1 | FileCheck %s --check-prefix=NEAR
// RUN: not mpc-opt %S/Inputs/dense.mlir --mpc-assign-precision="set=op:gelu_tanh=float16" 2>&1 | FileCheck %s --check-prefix=KIND
// RUN: mpc-opt %S/Inputs/dense.mlir --mpc-assign-precision="set=op:gelu=float16" 2>&1 | FileCheck %s --check-prefix=ABSENT
// RUN: not mpc-opt %S/Inputs/dense.mlir --mpc-assign-precision="set=op:matmul=bf16x2 target=cuda:sm_90" 2>&1 | FileCheck %s --check-prefix=SPLIT
// RUN: not mpc-opt %S/Inputs/dense.mlir --mpc-assign-precision="policy=%S/Inputs/split-policy.json target=cuda:sm_90" 2>&1 | FileCheck %s --check-prefix=SPLIT-POLICY
// RUN: not mpc-opt %S/Inputs/dense.mlir --mpc-assign-precision="policy=%S/Inputs/narrow-sum-policy.json" 2>&1 | FileCheck %s --check-prefix=SUM
// RUN: not mpc-opt %S/Inputs/dense.mlir --mpc-assign-precision="set=layer:enc/.*=float16,layer:.*/1=float16" 2>&1 | FileCheck %s --check-prefix=REGEXES
// RUN: not mpc-opt %S/Inputs/dense.mlir --mpc-assign-precision="policy=float64" 2>&1 | FileCheck %s --check-prefix=F64

// A forced type that is not supported is an error at the op, never a silent
// fallback.

// Names on the command line must exist in the model, unless it is a part of one; an
// op kind may be absent.
// NAME: dense.mlir:2:1: error: override 'name:nowhere=float32' matches no op; mpc explain lists the names and layers of a model
// LAYER: dense.mlir:2:1: error: override 'layer:nowhere/.*=float16' matches no op; mpc explain lists the names and layers of a model
// PART: dense.mlir:2:1: warning: override 'name:nowhere=float32' matches no op
// PART: dense.mlir:2:1: warning: override 'layer:nowhere/.*=float16' matches no op
// NEAR: dense.mlir:2:1: error: override 'layer:encc/.*=float16' matches no op; did you mean 'enc' or 'enc/1'; mpc explain lists the names and layers of a model
// KIND: dense.mlir:2:1: error: override 'op:gelu_tanh=float16' names the unknown op kind 'gelu_tanh'
// ABSENT: dense.mlir:2:1: warning: override 'op:gelu=float16' matches no op

// Compute modes and accumulator types without a kernel on the target.
// SPLIT: dense.mlir:4:8: error: override 'op:matmul=bf16x2' forces bf16x2 on 'matmul', but the target has no kernel for it yet; use tf32 or float32
// SPLIT-POLICY: dense.mlir:4:8: error: policy 'split' forces bf16x2 on 'matmul', but the target has no kernel for it yet; use tf32 or float32
// SUM: dense.mlir:4:8: error: policy 'narrow_sum' accumulates in float16, but the target's matmul accumulates in float32; set accumulate to float32

// REGEXES: dense.mlir:4:8: error: overrides 'layer:enc/.*=float16' and 'layer:.*/1=float16' both match layer 'enc/1'
// F64: error: policy 'float64' does not exist: a policy assigns types to float32 values

// 8-bit floats have names and widths, no kernels.
func.func @float8(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @unknown {{override 'name:eight=float8_e4m3fn' forces float8_e4m3fn on 'eight', but matmul has no kernel in 8 bits yet; use float16 or bfloat16}}
  %0 = mpc.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("eight")
  return %0 : tensor<4x4xf32>
}

// -----

func.func @softmax_in_float8(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @unknown {{override 'name:soft_eight=float8_e5m2' forces float8_e5m2 on 'soft_eight', but softmax has no kernel in 8 bits yet; use float16 or bfloat16}}
  %0 = mpc.softmax %x axis(1) : tensor<4x4xf32> loc("soft_eight")
  return %0 : tensor<4x4xf32>
}

// -----

// A whole layer in 8 bits fails at its first op.
func.func @layer_in_float8(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @below {{override 'layer:a/.*=float8_e5m2' forces float8_e5m2 on 'relu', but relu has no kernel in 8 bits yet; use float16 or bfloat16}}
  %0 = mpc.relu %x {mpc.layer = "a/b"} : tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

// A compute mode applies to matmuls only.
func.func @mode_of_relu(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @unknown {{override 'name:no_mode=tf32' forces tf32 on 'no_mode', but relu has no compute mode; tf32, bf16x2 and bf16x3 are for contractions}}
  %0 = mpc.relu %x : tensor<4x4xf32> loc("no_mode")
  return %0 : tensor<4x4xf32>
}

// -----

func.func @no_kernel(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @unknown {{override 'name:split=bf16x2' forces bf16x2 on 'split', but the target has no kernel for it yet; use tf32 or float32}}
  %0 = mpc.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("split")
  return %0 : tensor<4x4xf32>
}

// -----

// An op without float values has no type to force.
func.func @integers(%i: tensor<8xi64>) -> tensor<8xi64> {
  // expected-error @unknown {{override 'name:index=float16' forces float16 on 'index', which has no float32 value; drop it}}
  %0 = mpc.add %i, %i : (tensor<8xi64>, tensor<8xi64>) -> tensor<8xi64> loc("index")
  return %0 : tensor<8xi64>
}

// -----

// The model's explicit cast keeps its types.
func.func @own_conversion(%i: tensor<8xi64>) -> tensor<8xf32> {
  // expected-error @unknown {{override 'name:converted=float16' forces float16 on 'converted', a cast of the model, whose types are fixed; override the ops that read it}}
  %0 = mpc.cast %i : tensor<8xi64> to tensor<8xf32> loc("converted")
  return %0 : tensor<8xf32>
}

// -----

// An explicit type of the model, and an explicit type that agrees with the override.
func.func @own_type(%x: tensor<4x4xf64>, %h: tensor<4x4xf16>) -> (tensor<4x4xf64>, tensor<4x4xf16>) {
  %0 = mpc.relu %h : tensor<4x4xf16> loc("own")
  // expected-error @unknown {{override 'name:own_wide=float16' contradicts the model, where 'own_wide' computes in 'f64'; drop the override or change the model}}
  %1 = mpc.relu %x : tensor<4x4xf64> loc("own_wide")
  return %1, %0 : tensor<4x4xf64>, tensor<4x4xf16>
}

// -----

func.func @own_pin(%x: tensor<4x4xf32>) -> tensor<4x4xf16> {
  // expected-error @unknown {{override 'name:pinned=bfloat16' contradicts the model, where 'pinned' casts to or from 'f16'; drop the override or change the model}}
  %0 = mpc.cast %x pinned : tensor<4x4xf32> to tensor<4x4xf16> loc("pinned")
  return %0 : tensor<4x4xf16>
}

// -----

// A count that is stored in floats: 16 bits would change its integers.
func.func @integers_in_floats(%n: tensor<1xi64>) -> tensor<1xi64> {
  %hop = mpc.constant dense<160.0> : tensor<1xf32>
  %0 = mpc.cast %n : tensor<1xi64> to tensor<1xf32>
  // expected-error @unknown {{override 'name:count=float16' forces float16 on 'count', whose values are integers that 16 bits would round; drop it}}
  %1 = mpc.div %0, %hop : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32> loc("count")
  %2 = mpc.floor %1 : tensor<1xf32>
  %3 = mpc.cast %2 : tensor<1xf32> to tensor<1xi64>
  return %3 : tensor<1xi64>
}
