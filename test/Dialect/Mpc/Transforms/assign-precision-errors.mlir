// RUN: mpc-opt %s --mpc-assign-precision="policy=%S/Inputs/errors-policy.json" --verify-diagnostics --split-input-file
// RUN: not mpc-opt %s --mpc-assign-precision=policy=mixed 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not mpc-opt %s --mpc-assign-precision="set=op:matmul=float8" 2>&1 | FileCheck %s --check-prefix=TYPE
// RUN: not mpc-opt %s --mpc-assign-precision="set=matmul" 2>&1 | FileCheck %s --check-prefix=FORM
// RUN: not mpc-opt %s --mpc-assign-precision="set=layer:(=float32" 2>&1 | FileCheck %s --check-prefix=REGEX
// RUN: not mpc-opt %s --mpc-assign-precision="set=op:matmull=float32" --split-input-file 2>&1 | FileCheck %s --check-prefix=KIND

// NAME: unknown policy 'mixed'; did you mean 'mixed_float16' or 'mixed_bfloat16'; known: bfloat16, float16, float32, {{.*}}tf32, {{.*}}, or a file that ends in .json
// TYPE: override 'op:matmul=float8' names the unknown type 'float8'; use float32, float16, bfloat16, float64, tf32, bf16x2, bf16x3, float8_e4m3fn or float8_e5m2
// FORM: override 'matmul' is not of the form op:KIND=TYPE, layer:PATH=TYPE, name:NAME=TYPE, inputs:NAME=float32 or backward:NAME=TYPE
// REGEX: override 'layer:(=float32' contains an invalid regular expression: missing ): (
// KIND: override 'op:matmull=float32' names the unknown op kind 'matmull'; did you mean 'matmul'

// A weight that f16 cannot hold, and one that it flushes.
func.func @constants(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-warning @below {{in 'f16': 1 of 4 values become infinite; override the op that reads them with float32}}
  %w = mpc.constant dense<[[1.0e5], [1.0e-9], [-1.0e-10], [0.0]]> : tensor<4x1xf32>
  %0 = mpc.matmul %x, %w : (tensor<4x4xf32>, tensor<4x1xf32>) -> tensor<4x1xf32>
  %1 = mpc.broadcast %0 : tensor<4x1xf32> to tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}

// -----

// An infinity in the model is no overflow.
func.func @infinite_constant(%x: tensor<4x1xf32>) -> tensor<4x1xf32> {
  %w = mpc.constant dense<0x7F800000> : tensor<1x1xf32>
  %0 = mpc.matmul %x, %w : (tensor<4x1xf32>, tensor<1x1xf32>) -> tensor<4x1xf32>
  return %0 : tensor<4x1xf32>
}

// -----

// An override by name that conflicts with the model's own type.
func.func @own_type(%x: tensor<4x4xf16>) -> tensor<4x4xf16> {
  // expected-error @unknown {{override 'name:own=float32' contradicts the model, where 'own' computes in 'f16'; drop the override or change the model}}
  %0 = mpc.matmul %x, %x : (tensor<4x4xf16>, tensor<4x4xf16>) -> tensor<4x4xf16> loc("own")
  return %0 : tensor<4x4xf16>
}

// -----

// An override by name that conflicts with a cast in the model.
func.func @own_cast(%x: tensor<4x4xf32>) -> tensor<4x4xf16> {
  // expected-error @unknown {{override 'name:pin=float32' contradicts the model, where 'pin' casts to or from 'f16'; drop the override or change the model}}
  %0 = mpc.cast %x pinned : tensor<4x4xf32> to tensor<4x4xf16> loc("pin")
  return %0 : tensor<4x4xf16>
}

// -----

// Two regular expressions that match one layer, though they agree.
func.func @two_regexes(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @below {{overrides 'layer:.*/b=float32' and 'layer:a/.*=float32' both match layer 'a/b'; make the regular expressions disjoint or name the layer exactly}}
  %0 = mpc.relu %x {mpc.layer = "a/b"} : tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

// A kind that the policy bans.
func.func @banned(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @below {{op kind 'tan' is banned by policy 'errors'; replace it or override it with --set op:tan=float32}}
  %0 = mpc.tan %x : tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

// A second policy on top of the first.
func.func @assigned(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @below {{already has a decision of policy 'other'; policy 'errors' must be applied to the graph before Precision}}
  %0 = mpc.relu %x {mpc.decision = #mpc.decision<rule = "clear", list = "other">} : tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

// Bytes are counted, so every extent has to be known.
// expected-error @below {{argument 0 of 'dynamic_argument' has the type 'tensor<?x8xf32>'; bind its dimensions first}}
func.func @dynamic_argument(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %0 = mpc.relu %x : tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}
