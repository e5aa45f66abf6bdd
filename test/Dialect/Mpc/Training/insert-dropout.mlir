// RUN: mpc-opt %s --mpc-insert-dropout=at=fc=0.5,encoder/act=0.25 | FileCheck %s
// RUN: mpc-opt %s --mpc-insert-dropout | FileCheck %s --check-prefix=NONE
// RUN: not mpc-opt %s --mpc-insert-dropout=at=fc=1.5 2>&1 | FileCheck %s --check-prefix=RANGE
// RUN: not mpc-opt %s --mpc-insert-dropout=at=fd=0.5 2>&1 | FileCheck %s --check-prefix=NAME

// NONE-NOT: dropout
// NONE-NOT: rng
// RANGE: dropout 'fc=1.5' is not NAME=PROBABILITY with a probability in [0, 1)
// NAME: dropout after 'fd': there is no such op or layer with a float result; mpc explain lists the names

// A dropout is inserted after the last op of a node (here the bias of the dense
// layer) or of a layer, before all of its readers. Each has its own random stream;
// the state is a seed and a step, which every run increments.
// CHECK-LABEL: @main(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x3xf32>
// CHECK-SAME: %[[R:[a-z0-9]+]]: tensor<2xi64> {mpc.initial = dense<0> : tensor<2xi64>, mpc.name = "rng", mpc.role = #mpc.role<rng_state>})
// CHECK-SAME: tensor<2xi64> {mpc.alias = 3 : i64, mpc.name = "rng", mpc.role = #mpc.role<rng_state>})
// CHECK: %[[Y:.*]] = mpc.matmul
// CHECK-NEXT: %[[Z:.*]] = mpc.add %[[Y]]
// CHECK-NEXT: %[[D:.*]] = mpc.dropout %[[Z]], %[[R]] probability(5.000000e-01) stream(0)
// CHECK-NEXT: %[[A:.*]] = mpc.relu %[[D]]
// CHECK-NEXT: %[[E:.*]] = mpc.dropout %[[A]], %[[R]] probability(2.500000e-01) stream(1) {mpc.layer = "encoder/act"}
// CHECK-NEXT: %[[N:.*]] = mpc.neg %[[E]]
// CHECK-NEXT: %[[S:.*]] = mpc.add %[[N]], %[[D]]
// CHECK: %[[ONE:.*]] = mpc.constant dense<[0, 1]> : tensor<2xi64>
// CHECK: %[[NEXT:.*]] = mpc.add %[[R]], %[[ONE]]
// CHECK: return %[[S]], %[[NEXT]]
func.func @main(%x: tensor<4x3xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"},
                %w: tensor<3x2xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "w"},
                %b: tensor<2xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "b"})
    -> (tensor<4x2xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %0 = mpc.matmul %x, %w : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32> loc("fc")
  %1 = mpc.add %0, %b : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32> loc("fc")
  %2 = mpc.relu %1 {mpc.layer = "encoder/act"} : tensor<4x2xf32> loc("relu")
  %3 = mpc.neg %2 : tensor<4x2xf32> loc("neg")
  %4 = mpc.add %3, %1 : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32> loc("residual")
  return %4 : tensor<4x2xf32>
}
