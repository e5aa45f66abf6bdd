// RUN: mpc-opt %s --mpc-lift-parameters=statistics=true --mpc-verify-stage=stage=lift | FileCheck %s
// RUN: mpc-opt %s --mpc-lift-parameters | FileCheck %s --check-prefix=EVALUATE
// RUN: mpc-opt %s --mpc-lift-parameters="statistics=true freeze=fc.weight,bn.*" | FileCheck %s --check-prefix=FREEZE
// RUN: mpc-opt %s --mpc-lift-parameters="statistics=true trainable=.*bias,gain" | FileCheck %s --check-prefix=TRAINABLE
// RUN: mpc-opt %s --mpc-lift-parameters=seed=7 | FileCheck %s --check-prefix=RANDOM
// RUN: mpc-opt %s --mpc-lift-parameters=seed=7 > %t.seven
// RUN: mpc-opt %s --mpc-lift-parameters=seed=7 | diff %t.seven -
// RUN: mpc-opt %s --mpc-lift-parameters=seed=8 | not diff %t.seven - > %t.diff
// RUN: mpc-opt %s --mpc-lift-parameters=statistics=true > %t.once
// RUN: mpc-opt %t.once --mpc-lift-parameters=statistics=true | diff %t.once -

// Weights become arguments after the model's own, in program order, under the names
// of the constants; the constants are the initial values. A 16-bit weight has an
// f32 master. Scalars of formulas and masks of infinities stay constants.
// CHECK-LABEL: @main(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x3xf32> {mpc.name = "x", mpc.role = #mpc.role<input>}
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<2x3xf32> {mpc.initial = dense<{{.*}}1.000000e+00, 2.000000e+00, 3.000000e+00], [4.000000e+00, 5.000000e+00, 6.000000e+00{{.*}}> : tensor<2x3xf32>, mpc.name = "fc.weight", mpc.role = #mpc.role<parameter>}
// CHECK-SAME: %[[B:[a-z0-9]+]]: tensor<2xf32> {mpc.initial = dense<[5.000000e-01, -5.000000e-01]> : tensor<2xf32>, mpc.name = "fc.bias", mpc.role = #mpc.role<parameter>}

// A trained batch norm normalizes by batch statistics; its running statistics
// are arguments with a separate role, which are replaced.
// CHECK-SAME: %[[S:[a-z0-9]+]]: tensor<2xf32> {{{[^{]*}}mpc.name = "bn.weight", mpc.role = #mpc.role<parameter>}
// CHECK-SAME: %[[T:[a-z0-9]+]]: tensor<2xf32> {{{[^{]*}}mpc.name = "bn.bias", mpc.role = #mpc.role<parameter>}
// CHECK-SAME: %[[M:[a-z0-9]+]]: tensor<2xf32> {mpc.initial = dense<[0.000000e+00, 5.000000e-01]> : tensor<2xf32>, mpc.name = "bn.mean", mpc.role = #mpc.role<statistics>}
// CHECK-SAME: %[[V:[a-z0-9]+]]: tensor<2xf32> {{{[^{]*}}mpc.name = "bn.var", mpc.role = #mpc.role<statistics>}
// CHECK-SAME: %[[H:[a-z0-9]+]]: tensor<2xf32> {mpc.initial = dense<[1.000000e+00, 3.000000e+00]> : tensor<2xf32>, mpc.name = "half", mpc.role = #mpc.role<parameter>})
// CHECK-SAME: -> (tensor<4x2xf32> {mpc.name = "y", mpc.role = #mpc.role<output>},
// CHECK-SAME: tensor<2xf32> {mpc.alias = 5 : i64, mpc.name = "bn.mean", mpc.role = #mpc.role<statistics>},
// CHECK-SAME: tensor<2xf32> {mpc.alias = 6 : i64, mpc.name = "bn.var", mpc.role = #mpc.role<statistics>})
// CHECK-DAG: %[[MASK:.*]] = mpc.constant dense<[0.000000e+00, 0xFF800000]>
// CHECK-DAG: %[[GAIN:.*]] = mpc.constant dense<2.000000e+00> : tensor<f32>
// CHECK-DAG: mpc.cast %[[H]] : tensor<2xf32> to tensor<2xf16>
// CHECK: %[[Y:.*]] = mpc.matmul %[[X]], %[[W]] transpose_rhs
// CHECK: mpc.add %[[Y]], %[[B]]
// CHECK: %[[N:.*]], %[[NM:.*]], %[[NV:.*]] = mpc.batch_norm_training %{{.*}}, %[[S]], %[[T]], %[[M]], %[[V]] epsilon(1.000000e-05) momentum(1.000000e-01)
// CHECK: return %{{.*}}, %[[NM]], %[[NV]]

// An evaluation reads the running statistics.
// EVALUATE-LABEL: @main(
// EVALUATE-SAME: %[[M:[a-z0-9]+]]: tensor<2xf32> {{{[^{]*}}mpc.name = "bn.mean", mpc.role = #mpc.role<statistics>}
// EVALUATE-NOT: mpc.alias
// EVALUATE: mpc.batch_norm %{{.*}}, %{{.*}}, %{{.*}}, %[[M]], %

// Frozen weights stay constants, and a batch norm with frozen statistics is unchanged.
// FREEZE-LABEL: @main(
// FREEZE-NOT: mpc.name = "fc.weight"
// FREEZE-SAME: mpc.name = "fc.bias", mpc.role = #mpc.role<parameter>
// FREEZE-NOT: mpc.role<statistics>
// FREEZE: mpc.constant {{.*}} : tensor<2x3xf32>
// FREEZE: mpc.batch_norm %

// Non-trainable constants stay constants too; a scalar is lifted where it is named.
// TRAINABLE-LABEL: @main(
// TRAINABLE-SAME: mpc.name = "fc.bias"
// TRAINABLE-SAME: tensor<f32> {mpc.initial = dense<2.000000e+00> : tensor<f32>, mpc.name = "gain", mpc.role = #mpc.role<parameter>}
// TRAINABLE-SAME: mpc.name = "bn.bias"
// TRAINABLE: mpc.constant {{.*}} : tensor<2x3xf32>

// Random initialization depends on the reader: weights and biases of a matmul within
// +-1 / sqrt(3) = 0.577, scales of norms 1 and their biases 0, running means 0 and
// variances 1.
// RANDOM-LABEL: @main(
// RANDOM-SAME: mpc.initial = dense<{{\[\[}}{{-?(0[.][0-5]|[0-9.]+[eE]-0[1-9])}}
// RANDOM-SAME: mpc.name = "fc.weight"
// RANDOM-SAME: mpc.initial = dense<1.000000e+00> : tensor<2xf32>, mpc.name = "bn.weight"
// RANDOM-SAME: mpc.initial = dense<0.000000e+00> : tensor<2xf32>, mpc.name = "bn.bias"
// RANDOM-SAME: mpc.initial = dense<0.000000e+00> : tensor<2xf32>, mpc.name = "bn.mean"
// RANDOM-SAME: mpc.initial = dense<1.000000e+00> : tensor<2xf32>, mpc.name = "bn.var"
func.func @main(%x: tensor<4x3xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<4x2xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %w = mpc.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32> loc("fc.weight")
  %b = mpc.constant dense<[0.5, -0.5]> : tensor<2xf32> loc("fc.bias")
  %mask = mpc.constant dense<[0.0, 0xFF800000]> : tensor<2xf32> loc("mask")
  %gain = mpc.constant dense<2.0> : tensor<f32> loc("gain")
  %s = mpc.constant dense<[1.0, 2.0]> : tensor<2xf32> loc("bn.weight")
  %t = mpc.constant dense<[4.0, 5.0]> : tensor<2xf32> loc("bn.bias")
  %m = mpc.constant dense<[0.0, 0.5]> : tensor<2xf32> loc("bn.mean")
  %v = mpc.constant dense<[1.0, 0.5]> : tensor<2xf32> loc("bn.var")
  %h = mpc.constant dense<[1.0, 3.0]> : tensor<2xf16> loc("half")
  %0 = mpc.matmul %x, %w transpose_rhs : (tensor<4x3xf32>, tensor<2x3xf32>) -> tensor<4x2xf32> loc("fc")
  %1 = mpc.add %0, %b : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32> loc("fc")
  %2 = mpc.mul %1, %gain : (tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xf32> loc("scale")
  %3 = mpc.add %2, %mask : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32> loc("masked")
  %4 = mpc.batch_norm %3, %s, %t, %m, %v epsilon(1.0e-5) : (tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<4x2xf32> loc("bn")
  %5 = mpc.cast %h : tensor<2xf16> to tensor<2xf32> loc("widen")
  %6 = mpc.mul %4, %5 : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32> loc("last")
  return %6 : tensor<4x2xf32>
}
