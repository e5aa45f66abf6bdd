// RUN: mpc-opt %s --mpc-assign-precision="policy=%S/Inputs/keras-policy.json" --split-input-file | FileCheck %s
// RUN: mpc-opt %s --mpc-assign-precision="policy=keras_mixed_bfloat16" --split-input-file | FileCheck %s --check-prefix=PRESET
// RUN: not mpc-opt %S/Inputs/keras-ambiguous.mlir --mpc-assign-precision="policy=%S/Inputs/keras-ambiguous-policy.json" 2>&1 | FileCheck %s --check-prefix=AMBIGUOUS

// The rules are those of lib/Analysis/KerasPlanner.cpp.

// K1: an exact entry of the map, one by regular expression, and no entry, where
// the policy itself holds.
// CHECK-LABEL: func @k1_policy_of_a_layer
// CHECK: mpc.relu {{.*}}reason = "layer 'body/1' computes in bfloat16"{{.*}} : tensor<64x64xbf16>
// CHECK: mpc.abs {{.*}}reason = "layer 'head' computes in float32"{{.*}} : tensor<64x64xf32>
// CHECK: mpc.neg {{.*}}reason = "layer 'tail' computes in float16"{{.*}} : tensor<64x64xf16>
// CHECK: mpc.sign {{.*}}reason = "a layer by itself, in float16"{{.*}} : tensor<64x64xf16>
// PRESET-LABEL: func @k1_policy_of_a_layer
// PRESET-COUNT-4: : tensor<64x64xbf16>
// AMBIGUOUS: keras-ambiguous.mlir:2:8: error: layers '.*/b' and 'a/.*' both match layer 'a/b'; make the regular expressions disjoint or name the layer exactly
func.func @k1_policy_of_a_layer(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = mpc.relu %x {mpc.layer = "body/1"} : tensor<64x64xf32>
  %1 = mpc.abs %0 {mpc.layer = "head"} : tensor<64x64xf32>
  %2 = mpc.neg %1 {mpc.layer = "tail"} : tensor<64x64xf32>
  %3 = mpc.sign %2 : tensor<64x64xf32>
  return %3 : tensor<64x64xf32>
}

// -----

// K2: floats that enter are cast once, all ops of the layer compute in its type
// (a contraction sums in f32 and is rounded); integers are not touched.
// CHECK-LABEL: func @k2_everything_in_one_type
// CHECK: %[[E:.*]] = mpc.cast %{{.*}} : tensor<2x64xf32> to tensor<2x64xf16>
// CHECK: mpc.add {{.*}}reason = "no f32 value"{{.*}} -> tensor<2xi64>
// CHECK: %[[M:.*]] = mpc.matmul %[[E]], %{{.*}} : (tensor<2x64xf16>, tensor<64x64xf16>) -> tensor<2x64xf32>
// CHECK: %[[H:.*]] = mpc.cast %[[M]] : tensor<2x64xf32> to tensor<2x64xf16>
// CHECK: %[[A:.*]] = mpc.add %[[H]], %{{.*}} : (tensor<2x64xf16>, tensor<64xf16>) -> tensor<2x64xf16>
// CHECK-NEXT: mpc.softmax %[[A]] {{.*}} : tensor<2x64xf16>
func.func @k2_everything_in_one_type(%x: tensor<2x64xf32>, %i: tensor<2xi64>) -> (tensor<2x64xf32>, tensor<2xi64>) {
  %w = mpc.constant dense<0.5> : tensor<64x64xf32>
  %b = mpc.constant dense<0.25> : tensor<64xf32>
  %j = mpc.add %i, %i {mpc.layer = "d"} : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi64>
  %0 = mpc.matmul %x, %w {mpc.layer = "d"} : (tensor<2x64xf32>, tensor<64x64xf32>) -> tensor<2x64xf32>
  %1 = mpc.add %0, %b {mpc.layer = "d"} : (tensor<2x64xf32>, tensor<64xf32>) -> tensor<2x64xf32>
  %2 = mpc.softmax %1 axis(1) {mpc.layer = "d"} : tensor<2x64xf32>
  return %2, %j : tensor<2x64xf32>, tensor<2xi64>
}

// -----

// K2, recurrent ops: bias and states enter the layer too and are rounded to its
// type, though the op adds them in f32; in float64 it adds them in that.
// CHECK-LABEL: func @k2_recurrent
// CHECK: %[[B:.*]] = mpc.cast %{{.*}} : tensor<1x16xf16> to tensor<1x16xf32>
// CHECK: mpc.rnn %{{.*}} bias(%[[B]]) {{.*}} : (tensor<4x2x8xf16>, tensor<1x8x8xf16>, tensor<1x8x8xf16>, tensor<1x16xf32>) -> (tensor<4x1x2x8xf32>, tensor<1x2x8xf32>)
// CHECK: mpc.rnn {{.*}} : (tensor<4x2x8xf64>, tensor<1x8x8xf64>, tensor<1x8x8xf64>, tensor<1x16xf64>) -> (tensor<4x1x2x8xf64>, tensor<1x2x8xf64>)
func.func @k2_recurrent(%x: tensor<4x2x8xf32>) -> tensor<1x2x8xf32> {
  %w = mpc.constant dense<0.3> : tensor<1x8x8xf32>
  %b = mpc.constant dense<0.3> : tensor<1x16xf32>
  %0, %1 = mpc.rnn %x, %w, %w bias(%b) {mpc.layer = "d"} : (tensor<4x2x8xf32>, tensor<1x8x8xf32>, tensor<1x8x8xf32>, tensor<1x16xf32>) -> (tensor<4x1x2x8xf32>, tensor<1x2x8xf32>)
  %2 = mpc.reshape %0 {mpc.layer = "wide"} : tensor<4x1x2x8xf32> to tensor<4x2x8xf32>
  %3, %4 = mpc.rnn %2, %w, %w bias(%b) {mpc.layer = "wide"} : (tensor<4x2x8xf32>, tensor<1x8x8xf32>, tensor<1x8x8xf32>, tensor<1x16xf32>) -> (tensor<4x1x2x8xf32>, tensor<1x2x8xf32>)
  return %4 : tensor<1x2x8xf32>
}

// -----

// K3: under mixed_float16 a parameter goes from f32 to f16 at compile time; a layer
// in f32 reads the f32 parameter. K5 shows parameters that are stored in f16.
// CHECK-LABEL: func @k3_parameters
// CHECK-DAG: mpc.constant dense<3.000490e-01> : tensor<64xf16>
// CHECK-DAG: mpc.constant dense<3.000000e-01> : tensor<64xf32>
// CHECK: mpc.mul {{.*}} : (tensor<64xf16>, tensor<64xf16>) -> tensor<64xf16>
// CHECK: mpc.mul {{.*}} : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
func.func @k3_parameters(%x: tensor<64xf32>) -> tensor<64xf32> {
  %w = mpc.constant dense<0.3> : tensor<64xf32>
  %0 = mpc.mul %x, %w {mpc.layer = "d"} : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %1 = mpc.mul %0, %w {mpc.layer = "head"} : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %1 : tensor<64xf32>
}

// -----

// K4: a result has the layer's type, a layer in another type casts it, and
// returned values are upcast to the signature's type. float64 is a layer's type
// too.
// CHECK-LABEL: func @k4_results
// CHECK: %[[R:.*]] = mpc.relu {{.*}} : tensor<64xf16>
// CHECK-NEXT: %[[W:.*]] = mpc.cast %[[R]] : tensor<64xf16> to tensor<64xf64>
// CHECK-NEXT: %[[T:.*]] = mpc.tanh %[[W]] {{.*}} : tensor<64xf64>
// CHECK-NEXT: %[[N:.*]] = mpc.cast %[[T]] : tensor<64xf64> to tensor<64xbf16>
// CHECK-NEXT: %[[A:.*]] = mpc.abs %[[N]] {{.*}} : tensor<64xbf16>
// CHECK-NEXT: %[[O:.*]] = mpc.cast %[[A]] : tensor<64xbf16> to tensor<64xf32>
// CHECK-NEXT: return %[[O]]
func.func @k4_results(%x: tensor<64xf32>) -> tensor<64xf32> {
  %0 = mpc.relu %x {mpc.layer = "d"} : tensor<64xf32>
  %1 = mpc.tanh %0 {mpc.layer = "wide"} : tensor<64xf32>
  %2 = mpc.abs %1 {mpc.layer = "body/2"} : tensor<64xf32>
  return %2 : tensor<64xf32>
}

// -----

// K5: a norm rounds its input to the layer's type, computes in f32 with f32
// parameters and rounds the result. With parameters in 16 bits (the policy
// float16) layer_norm computes in 16 bits, batch_norm still in f32.
// CHECK-LABEL: func @k5_norms
// CHECK: %[[E:.*]] = mpc.cast %{{.*}} : tensor<2x3xf32> to tensor<2x3xf16>
// CHECK: %[[W:.*]] = mpc.cast %[[E]] : tensor<2x3xf16> to tensor<2x3xf32>
// CHECK: %[[L:.*]] = mpc.layer_norm %[[W]], {{.*}} : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
// CHECK: mpc.cast %[[L]] : tensor<2x3xf32> to tensor<2x3xf16>
// CHECK: mpc.batch_norm {{.*}} : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
// CHECK: mpc.layer_norm {{.*}} : (tensor<2x3xf16>, tensor<3xf16>, tensor<3xf16>) -> tensor<2x3xf16>
// CHECK: %[[P:.*]] = mpc.cast %{{.*}} : tensor<3xf16> to tensor<3xf32>
// CHECK: mpc.batch_norm %{{.*}}, %[[P]], %[[P]], %[[P]], %[[P]] {{.*}} -> tensor<2x3xf32>
func.func @k5_norms(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %g = mpc.constant dense<1.3> : tensor<3xf32>
  %0 = mpc.layer_norm %x, %g, %g axis(1) epsilon(1.0e-3) {mpc.layer = "n"} : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %1 = mpc.batch_norm %0, %g, %g, %g, %g epsilon(1.0e-3) {mpc.layer = "b"} : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %2 = mpc.layer_norm %1, %g, %g axis(1) epsilon(1.0e-3) {mpc.layer = "small"} : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %3 = mpc.batch_norm %2, %g, %g, %g, %g epsilon(1.0e-3) {mpc.layer = "small"} : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  return %3 : tensor<2x3xf32>
}

// -----

// K6: without autocast operands keep their types. 16 bits and an f32 parameter
// promote to f32, two 16-bit operands do not; a literal promotes nothing.
// CHECK-LABEL: func @k6_no_autocast
// CHECK: mpc.relu {{.*}}autocast is off{{.*}} : tensor<64xf32>
// CHECK: mpc.tanh {{.*}} : tensor<64xf16>
// CHECK: mpc.mul {{.*}}autocast is off{{.*}} : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
// CHECK: mpc.mul {{.*}}autocast is off{{.*}} : (tensor<64xf16>, tensor<f16>) -> tensor<64xf16>
func.func @k6_no_autocast(%x: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %w = mpc.constant dense<0.3> : tensor<64xf32>
  %c = mpc.constant dense<0.5> : tensor<f32>
  %0 = mpc.relu %x {mpc.layer = "as_is"} : tensor<64xf32>
  %1 = mpc.tanh %0 {mpc.layer = "small"} : tensor<64xf32>
  %2 = mpc.mul %1, %w {mpc.layer = "as_is"} : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %3 = mpc.mul %1, %c {mpc.layer = "as_is"} : (tensor<64xf32>, tensor<f32>) -> tensor<64xf32>
  return %2, %3 : tensor<64xf32>, tensor<64xf32>
}

// -----

// K7: the model's own types take precedence over the layer.
// CHECK-LABEL: func @k7_own_types
// CHECK: mpc.relu {{.*}}reason = "the model's own type"{{.*}} : tensor<4xf64>
// CHECK: mpc.cast %{{.*}} pinned {{.*}}rule = "pin"
func.func @k7_own_types(%d: tensor<4xf64>, %x: tensor<4xf32>) -> (tensor<4xf64>, tensor<4xbf16>) {
  %0 = mpc.relu %d {mpc.layer = "d"} : tensor<4xf64>
  %1 = mpc.cast %x pinned : tensor<4xf32> to tensor<4xbf16>
  return %0, %1 : tensor<4xf64>, tensor<4xbf16>
}
