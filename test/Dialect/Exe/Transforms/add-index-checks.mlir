// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-prepare-fusion,mpc-select-fusion-groups,mpc-fuse-horizontal,mpc-outline-fusions,mpc-add-index-checks))' | FileCheck %s
// RUN: mpc-opt %s --mpc-pipeline-fuse --mpc-pipeline-plan | FileCheck %s --check-prefix=PLAN

// Marked gathers and scatters get flag words in one constant that their fusions read;
// a tuple index has one word per component. Indices that are in range for every input
// need none, and a gather without a mark clamps.

// CHECK-LABEL: func @main
// CHECK: %[[WORDS:.*]] = mpc.constant dense<0> : tensor<4xi64, [
// CHECK-SAME: {argument = 1 : i64, extent = 5 : i64, op = "rows"},
// CHECK-SAME: {argument = 2 : i64, extent = 5 : i64, op = "tuples"}, {argument = 2 : i64, extent = 8 : i64, op = "tuples"},
// CHECK-SAME: {argument = -1 : i64, extent = 5 : i64, op = "shifted"}
// CHECK: mpc.fusion {{.*}} name("rows") {{.*}} = %[[WORDS]] :
// CHECK: mpc.gather {{.*}} {mpc.index_check = 0 : i64}
// CHECK: mpc.fusion {{.*}} name("tuples") {{.*}} = %[[WORDS]] :
// CHECK: mpc.gather_nd {{.*}} {mpc.index_check = 1 : i64}
// CHECK: mpc.fusion {{.*}} name("shifted") {{.*}} = %[[WORDS]] :
// CHECK: mpc.gather {{.*}} {mpc.index_check = 3 : i64}
// CHECK: mpc.fusion {{.*}} name("clamped")
// CHECK-NOT: %[[WORDS]]
// CHECK: mpc.fusion {{.*}} name("unmarked")
// CHECK-NOT: %[[WORDS]]
// CHECK: return

// PLAN: exe.constant @index_checks dense<0> : tensor<4xi64, [{
// PLAN: exe.launch @k_rows {{.*}} (read @t, read @i, read @index_checks, write @rows)
// PLAN: exe.launch @k_clamped {{.*}} (read @t, read arena[0 : 24], write @clamped)

func.func @main(%t: tensor<5x8xf32> {mpc.role = #mpc.role<input>, mpc.name = "t"},
                %i: tensor<3xi64> {mpc.role = #mpc.role<input>, mpc.name = "i"},
                %p: tensor<4x2xi64> {mpc.role = #mpc.role<input>, mpc.name = "p"})
    -> (tensor<3x8xf32> {mpc.role = #mpc.role<output>, mpc.name = "rows"},
        tensor<4xf32> {mpc.role = #mpc.role<output>, mpc.name = "tuples"},
        tensor<3x8xf32> {mpc.role = #mpc.role<output>, mpc.name = "shifted"},
        tensor<3x8xf32> {mpc.role = #mpc.role<output>, mpc.name = "clamped"},
        tensor<3x8xf32> {mpc.role = #mpc.role<output>, mpc.name = "unmarked"}) {
  %one = mpc.constant dense<1> : tensor<i64>
  %low = mpc.constant dense<-5> : tensor<i64>
  %high = mpc.constant dense<4> : tensor<i64>
  %0 = mpc.gather %t, %i axis(0) {mpc.checked} : (tensor<5x8xf32>, tensor<3xi64>) -> tensor<3x8xf32> loc("rows")
  %1 = mpc.gather_nd %t, %p {mpc.checked} : (tensor<5x8xf32>, tensor<4x2xi64>) -> tensor<4xf32> loc("tuples")
  %2 = mpc.add %i, %one : (tensor<3xi64>, tensor<i64>) -> tensor<3xi64>
  %3 = mpc.gather %t, %2 axis(0) {mpc.checked} : (tensor<5x8xf32>, tensor<3xi64>) -> tensor<3x8xf32> loc("shifted")
  %4 = mpc.clamp %i, %low, %high : (tensor<3xi64>, tensor<i64>, tensor<i64>) -> tensor<3xi64>
  %5 = mpc.gather %t, %4 axis(0) {mpc.checked} : (tensor<5x8xf32>, tensor<3xi64>) -> tensor<3x8xf32> loc("clamped")
  %6 = mpc.gather %t, %i axis(0) : (tensor<5x8xf32>, tensor<3xi64>) -> tensor<3x8xf32> loc("unmarked")
  return %0, %1, %3, %5, %6 : tensor<3x8xf32>, tensor<4xf32>, tensor<3x8xf32>, tensor<3x8xf32>, tensor<3x8xf32>
}

// Lengths are not negative. Those of a table's positions are never out of range.

// CHECK-LABEL: func @lengths
// CHECK: mpc.constant dense<0> : tensor<1xi64, [{argument = 0 : i64, extent = 5 : i64, length, op = "lengths"}]>
// CHECK: mpc.gather {{.*}} {mpc.index_check = 0 : i64}
// CHECK-NOT: mpc.index_check
func.func @lengths(%i: tensor<3xi64> {mpc.role = #mpc.role<input>, mpc.name = "i"})
    -> (tensor<3xi64> {mpc.role = #mpc.role<output>, mpc.name = "y"},
        tensor<3xi64> {mpc.role = #mpc.role<output>, mpc.name = "z"}) {
  %t = mpc.iota axis(0) : tensor<5xi64>
  %0 = mpc.gather %t, %i axis(0) {mpc.checked = "lengths"} : (tensor<5xi64>, tensor<3xi64>) -> tensor<3xi64> loc("lengths")
  %1 = mpc.gather %t, %0 axis(0) {mpc.checked = "lengths"} : (tensor<5xi64>, tensor<3xi64>) -> tensor<3xi64> loc("again")
  return %0, %1 : tensor<3xi64>, tensor<3xi64>
}
