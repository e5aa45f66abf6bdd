// RUN: mpc-opt %s --mpc-lift-parameters=statistics=true 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=SAID < %t
// RUN: mpc-opt %s --mpc-lift-parameters | FileCheck %s --check-prefix=EVALUATE
// RUN: mpc-opt %s --mpc-lift-parameters="statistics=true freeze=n.*" | FileCheck %s --check-prefix=FREEZE

// In a file with batch norms in training form, those train, with the momentum that
// they have, and update their running statistics, also where these
// are stored in 16 bits; a norm in evaluation form is frozen.
// SAID: loc("nm"): tensor<2xf16> is a running statistic: of the batch norm 'trained'
// SAID: loc("hm"): tensor<2xf32> is not trained: it is a statistic of the batch norm 'held', which the file has in evaluation mode
// CHECK-LABEL: @main(
// CHECK-SAME: %[[M:[a-z0-9]+]]: tensor<2xf32> {{{[^{]*}}mpc.name = "nm", mpc.role = #mpc.role<statistics>}
// CHECK-SAME: %[[V:[a-z0-9]+]]: tensor<2xf32> {{{[^{]*}}mpc.name = "nv", mpc.role = #mpc.role<statistics>})
// CHECK-SAME: tensor<2xf32> {mpc.alias = {{[0-9]+}} : i64, mpc.name = "nm", mpc.role = #mpc.role<statistics>}
// CHECK: %{{.*}}, %[[NM:.*]], %[[NV:.*]] = mpc.batch_norm_training %{{.*}}, %{{.*}}, %{{.*}}, %[[M]], %[[V]] epsilon(1.000000e-05) momentum(3.000000e-01)
// CHECK: mpc.batch_norm %
// CHECK: return %{{.*}}, %[[NM]], %[[NV]]

// Evaluation reads the running statistics, as does a norm with frozen
// statistics.
// EVALUATE-LABEL: @main(
// EVALUATE-NOT: mpc.alias
// EVALUATE-NOT: mpc.batch_norm_training
// EVALUATE-COUNT-2: mpc.batch_norm %
// FREEZE-LABEL: @main(
// FREEZE-NOT: mpc.role<statistics>
// FREEZE-NOT: mpc.batch_norm_training
// FREEZE-COUNT-2: mpc.batch_norm %
func.func @main(%x: tensor<4x2xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<4x2xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %s = mpc.constant dense<[1.0, 2.0]> : tensor<2xf32> loc("s")
  %t = mpc.constant dense<[4.0, 5.0]> : tensor<2xf32> loc("t")
  %nm = mpc.constant dense<[0.0, 0.5]> : tensor<2xf16> loc("nm")
  %nv = mpc.constant dense<[1.0, 0.5]> : tensor<2xf16> loc("nv")
  %hm = mpc.constant dense<[0.25, 0.5]> : tensor<2xf32> loc("hm")
  %hv = mpc.constant dense<[1.0, 2.0]> : tensor<2xf32> loc("hv")
  %0 = mpc.cast %nm : tensor<2xf16> to tensor<2xf32>
  %1 = mpc.cast %nv : tensor<2xf16> to tensor<2xf32>
  %y, %m, %v = mpc.batch_norm_training %x, %s, %t, %0, %1 epsilon(1.0e-5) momentum(0.3) : (tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>) loc("trained")
  %2 = mpc.batch_norm %y, %s, %t, %hm, %hv epsilon(1.0e-5) : (tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<4x2xf32> loc("held")
  return %2 : tensor<4x2xf32>
}
