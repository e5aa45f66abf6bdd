// A function that computes its parameters' gradients itself, as a framework's
// trace of forward and backward pass does: a linear layer, a softmax, and a
// bias gradient that automatic differentiation would not give (ten times as large).
// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-lift-parameters{parameters=w,b,mask,table freeze=mask,table constants=false statistics=true}, mpc-attach-loss{bypass=false output=y}, mpc-differentiate{gradients=w=g0,b=g1,table=g2 cotangent=dy output=y}))' | FileCheck %s
// RUN: not mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-lift-parameters{parameters=w,b,mask,table constants=false freeze=mask,table}, mpc-attach-loss{bypass=false output=y}, mpc-differentiate{gradients=w=g0 cotangent=dy output=y}))' 2>&1 | FileCheck %s --check-prefix=LACKS
// RUN: not mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-lift-parameters{parameters=w,b,mask,table constants=false freeze=mask,table}, mpc-attach-loss{bypass=false output=y}, mpc-differentiate{gradients=w=g9 cotangent=dy output=y}))' 2>&1 | FileCheck %s --check-prefix=RESULT
// RUN: not mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-lift-parameters{parameters=w,b,mask,table constants=false freeze=mask,table}, mpc-attach-loss{bypass=false output=y}, mpc-differentiate{gradients=w=g0,b=g1 cotangent=dz output=y}))' 2>&1 | FileCheck %s --check-prefix=INPUT
// RUN: not mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-lift-parameters{parameters=w,b,mask,table constants=false freeze=mask,table}, mpc-attach-loss{bypass=false output=y}, mpc-differentiate{gradients=w=g0,b=g1 cotangent=x output=y}))' 2>&1 | FileCheck %s --check-prefix=TYPE
// RUN: not mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-lift-parameters{parameters=w,b,mask,table constants=false freeze=mask,table}, mpc-attach-loss{bypass=false output=y}, mpc-differentiate{gradients=w=g1,b=g1 cotangent=dy output=y}))' 2>&1 | FileCheck %s --check-prefix=SHAPE

// Frozen inputs, of any type, are constants, and no other constant is a weight;
// a batch norm keeps its form. The loss is computed from the softmax, whose
// derivative is not generated: the loss's derivative by the softmax replaces
// the cotangent.
// CHECK-LABEL: @main(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x3xf32> {mpc.name = "x", mpc.role = #mpc.role<input>}
// CHECK-SAME: mpc.name = "w", mpc.role = #mpc.role<parameter>
// CHECK-SAME: mpc.name = "b", mpc.role = #mpc.role<parameter>
// CHECK-SAME: %[[N:[a-z0-9]+]]: tensor<i64> {mpc.name = "n", mpc.role = #mpc.role<statistics>}
// CHECK-NOT: cotangent
// CHECK-SAME: %[[L:[a-z0-9]+]]: tensor<4xi32> {mpc.name = "label", mpc.role = #mpc.role<label>}
// CHECK-SAME: -> (tensor<f32> {mpc.name = "loss", mpc.role = #mpc.role<loss>}, tensor<4x2xf32> {mpc.name = "y", mpc.role = #mpc.role<output>}
// The alias index counts the remaining arguments.
// CHECK-SAME: tensor<i64> {mpc.alias = 3 : i64, mpc.name = "n", mpc.role = #mpc.role<statistics>}
// CHECK-SAME: tensor<3x2xf32> {mpc.name = "w.gradient", mpc.role = #mpc.role<output>}, tensor<2xf32> {mpc.name = "b.gradient", mpc.role = #mpc.role<output>})
// CHECK-DAG: mpc.constant dense<[true, false]> : tensor<2xi1>
// CHECK-DAG: mpc.constant dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>
// CHECK: mpc.batch_norm %
// CHECK: %[[Y:.+]] = mpc.softmax
// CHECK: mpc.softmax_cross_entropy %[[Y]], %[[L]]
// CHECK: mpc.gradient_seed : tensor<f32>
// CHECK: %[[P:.+]] = mpc.softmax %[[Y]]
// CHECK: %[[D:.+]] = mpc.sub %[[P]]
// CHECK: %[[DY:.+]] = mpc.mul %[[D]]
// CHECK: mpc.matmul %[[X]], %[[DY]] transpose_lhs
// CHECK: mpc.reduce_sum %[[DY]]
// LACKS: computes no gradient of parameter 'b'
// RESULT: has no result 'g9', the gradient of 'w'
// INPUT: has no input 'dz' that takes the cotangent of a result
// TYPE: takes the cotangent of a result of type 'tensor<4x2xf32>' as input 'x' of type 'tensor<4x3xf32>'
// SHAPE: has a gradient 'g1' of type 'tensor<2xf32>' for parameter 'w' of type 'tensor<3x2xf32>'
func.func @main(
    %x: tensor<4x3xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"},
    %mask: tensor<2xi1> {mpc.role = #mpc.role<input>, mpc.name = "mask", mpc.initial = dense<[true, false]> : tensor<2xi1>},
    %w: tensor<3x2xf32> {mpc.role = #mpc.role<input>, mpc.name = "w", mpc.initial = dense<0.5> : tensor<3x2xf32>},
    %b: tensor<2xf32> {mpc.role = #mpc.role<input>, mpc.name = "b", mpc.initial = dense<0.5> : tensor<2xf32>},
    %table: tensor<2xf32> {mpc.role = #mpc.role<input>, mpc.name = "table", mpc.initial = dense<[1.0, 2.0]> : tensor<2xf32>},
    %n: tensor<i64> {mpc.role = #mpc.role<statistics>, mpc.name = "n"},
    %dy: tensor<4x2xf32> {mpc.role = #mpc.role<input>, mpc.name = "dy"})
    -> (tensor<4x2xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"},
        tensor<i64> {mpc.role = #mpc.role<statistics>, mpc.name = "n", mpc.alias = 5 : i64},
        tensor<3x2xf32> {mpc.role = #mpc.role<output>, mpc.name = "g0"},
        tensor<2xf32> {mpc.role = #mpc.role<output>, mpc.name = "g1"},
        tensor<2xf32> {mpc.role = #mpc.role<output>, mpc.name = "g2"}) {
  %other = mpc.constant dense<[3.0, 4.0]> : tensor<2xf32>
  %0 = mpc.matmul %x, %w : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
  %1 = mpc.add %0, %b : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
  %2 = mpc.select %mask, %1, %table : (tensor<2xi1>, tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
  %3 = mpc.batch_norm %2, %other, %other, %other, %other epsilon(1.0e-5) : (tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
  %y = mpc.softmax %3 axis(1) : tensor<4x2xf32>
  %one = mpc.constant dense<1> : tensor<i64>
  %n1 = mpc.add %n, %one : (tensor<i64>, tensor<i64>) -> tensor<i64>
  %dw = mpc.matmul %x, %dy transpose_lhs : (tensor<4x3xf32>, tensor<4x2xf32>) -> tensor<3x2xf32>
  %sum = mpc.reduce_sum %dy axes([0]) : tensor<4x2xf32> -> tensor<2xf32>
  %ten = mpc.constant dense<10.0> : tensor<f32>
  %db = mpc.mul %sum, %ten : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  return %y, %n1, %dw, %db, %sum : tensor<4x2xf32>, tensor<i64>, tensor<3x2xf32>, tensor<2xf32>, tensor<2xf32>
}
