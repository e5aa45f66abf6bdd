// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-differentiate))' --split-input-file 2>/dev/null | FileCheck %s
// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-differentiate))' --split-input-file --mlir-print-debuginfo 2>/dev/null | FileCheck %s --check-prefix=LOC
// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-differentiate{split-recurrent=true}))' --split-input-file 2>/dev/null | FileCheck %s --check-prefix=SPLIT

// A two-layer perceptron. Matmuls express transposes by their flags; relu's
// reads its result; the bias gradient is a sum over rows. The input needs no
// gradient and gets none.
// CHECK-LABEL: func.func @perceptron
// CHECK-SAME: %[[X:[^:]+]]: tensor<4x3xf32> {mpc.role = #mpc.role<input>}
// CHECK-SAME: %[[LABEL:[^:]+]]: tensor<4xi32>
// CHECK-SAME: %[[W1:[^:]+]]: tensor<3x5xf32>
// CHECK-SAME: %[[W2:[^:]+]]: tensor<2x5xf32>
// CHECK-SAME: -> (tensor<f32> {mpc.name = "loss", mpc.role = #mpc.role<loss>},
// CHECK-SAME: tensor<3x5xf32> {mpc.name = "w1.gradient", mpc.role = #mpc.role<output>},
// CHECK-SAME: tensor<5xf32> {mpc.name = "b1.gradient", mpc.role = #mpc.role<output>},
// CHECK-SAME: tensor<2x5xf32> {mpc.name = "w2.gradient", mpc.role = #mpc.role<output>})
// CHECK: %[[H:.+]] = mpc.relu
// CHECK: %[[LOGITS:.+]] = mpc.matmul %[[H]], %[[W2]] transpose_rhs
// CHECK: %[[LOSS:.+]] = mpc.softmax_cross_entropy
// CHECK: %[[SEED:.+]] = mpc.gradient_seed : tensor<f32>
// CHECK: %[[EACH:.+]] = mpc.mul %[[SEED]], %{{.+}} : (tensor<f32>, tensor<f32>) -> tensor<f32>
// CHECK: %[[P:.+]] = mpc.softmax %[[LOGITS]] axis(1)
// CHECK: %[[T:.+]] = mpc.one_hot %[[LABEL]]
// CHECK: %[[D:.+]] = mpc.sub %[[P]], %[[T]]
// CHECK: %[[DLOGITS:.+]] = mpc.mul %[[D]], %[[EACH]]
// CHECK: %[[DH:.+]] = mpc.matmul %[[DLOGITS]], %[[W2]] : (tensor<4x2xf32>, tensor<2x5xf32>) -> tensor<4x5xf32>
// CHECK: %[[DW2:.+]] = mpc.matmul %[[DLOGITS]], %[[H]] transpose_lhs : (tensor<4x2xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
// CHECK: %[[OFF:.+]] = mpc.compare le %[[H]], %{{.+}}
// CHECK: %[[DSUM:.+]] = mpc.select %[[OFF]], %{{.+}}, %[[DH]] {mpc.layer = "hidden"}
// CHECK: %[[DB1:.+]] = mpc.reduce_sum %[[DSUM]] axes({{\[}}0]) : tensor<4x5xf32> -> tensor<5xf32>
// CHECK: %[[DW1:.+]] = mpc.matmul %[[X]], %[[DSUM]] transpose_lhs : (tensor<4x3xf32>, tensor<4x5xf32>) -> tensor<3x5xf32>
// CHECK-NOT: mpc.matmul
// CHECK: return %[[LOSS]], %[[DW1]], %[[DB1]], %[[DW2]]
// LOC: mpc.select {{.*}} loc(#[[RELU:.+]])
// LOC: #[[RELU]] = loc("hidden/relu")
func.func @perceptron(%x: tensor<4x3xf32> {mpc.role = #mpc.role<input>},
                      %label: tensor<4xi32> {mpc.role = #mpc.role<label>},
                      %w1: tensor<3x5xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "w1"},
                      %b1: tensor<5xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "b1"},
                      %w2: tensor<2x5xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "w2"})
    -> (tensor<f32> {mpc.role = #mpc.role<loss>, mpc.name = "loss"}) {
  %0 = mpc.matmul %x, %w1 : (tensor<4x3xf32>, tensor<3x5xf32>) -> tensor<4x5xf32>
  %1 = mpc.add %0, %b1 : (tensor<4x5xf32>, tensor<5xf32>) -> tensor<4x5xf32>
  %2 = mpc.relu %1 {mpc.layer = "hidden", mpc.source = #mpc.source<op = "relu", id = 3>} : tensor<4x5xf32> loc("hidden/relu")
  %3 = mpc.matmul %2, %w2 transpose_rhs : (tensor<4x5xf32>, tensor<2x5xf32>) -> tensor<4x2xf32>
  %4 = mpc.softmax_cross_entropy %3, %label : (tensor<4x2xf32>, tensor<4xi32>) -> tensor<f32>
  return %4 : tensor<f32>
}

// -----

// Masked rows are excluded by a select: where no row counts, their share of the
// seed is infinite.
// CHECK-LABEL: func.func @ignored
// CHECK: %[[SEED:.+]] = mpc.gradient_seed
// CHECK: %[[COUNTS:.+]] = mpc.compare ne %arg1,
// CHECK: %[[EACH:.+]] = mpc.div %[[SEED]],
// CHECK: %[[ROW:.+]] = mpc.select %[[COUNTS]], %[[EACH]], %{{.+}} : (tensor<4xi1>, tensor<f32>, tensor<f32>) -> tensor<4xf32>
// CHECK: %[[COLUMN:.+]] = mpc.reshape %[[ROW]] : tensor<4xf32> to tensor<4x1xf32>
// CHECK: mpc.mul %{{.+}}, %[[COLUMN]]
func.func @ignored(%x: tensor<4x3xf32> {mpc.role = #mpc.role<input>},
                   %label: tensor<4xi32> {mpc.role = #mpc.role<label>},
                   %w: tensor<3x2xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "w"})
    -> (tensor<f32> {mpc.role = #mpc.role<loss>, mpc.name = "loss"}) {
  %0 = mpc.matmul %x, %w : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
  %1 = mpc.softmax_cross_entropy %0, %label ignore_index(-100) : (tensor<4x2xf32>, tensor<4xi32>) -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// A weight that is shared by all batch entries: one matmul over all rows.
// CHECK-LABEL: func.func @shared_weight
// CHECK-SAME: %[[X:[^:]+]]: tensor<2x4x3xf32>
// CHECK: %[[EACH:.+]] = mpc.mul %{{.+}}, %{{.+}} : (tensor<f32>, tensor<f32>) -> tensor<f32>
// CHECK: %[[DY:.+]] = mpc.mul %{{.+}}, %[[EACH]]
// CHECK: %[[ROWS:.+]] = mpc.reshape %[[X]] : tensor<2x4x3xf32> to tensor<8x3xf32>
// CHECK: %[[DROWS:.+]] = mpc.reshape %[[DY]] : tensor<2x4x5xf32> to tensor<8x5xf32>
// CHECK: mpc.matmul %[[ROWS]], %[[DROWS]] transpose_lhs : (tensor<8x3xf32>, tensor<8x5xf32>) -> tensor<3x5xf32>
func.func @shared_weight(%x: tensor<2x4x3xf32> {mpc.role = #mpc.role<input>},
                         %t: tensor<2x4x5xf32> {mpc.role = #mpc.role<label>},
                         %w: tensor<3x5xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "w"})
    -> (tensor<f32> {mpc.role = #mpc.role<loss>, mpc.name = "loss"}) {
  %0 = mpc.matmul %x, %w : (tensor<2x4x3xf32>, tensor<3x5xf32>) -> tensor<2x4x5xf32>
  %1 = mpc.mean_squared_error %0, %t : (tensor<2x4x5xf32>, tensor<2x4x5xf32>) -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// The gradients of the slices of a value form one concat: no padding, no sums.
// CHECK-LABEL: func.func @slices_join
// CHECK: mpc.gradient_seed
// CHECK-NOT: mpc.pad
// CHECK: %[[DALL:.+]] = mpc.concat %{{.+}}, %{{.+}} axis(0) : (tensor<3xf32>, tensor<2xf32>) -> tensor<5xf32>
// CHECK: return %{{.+}}, %[[DALL]]
func.func @slices_join(%p: tensor<5xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "p"})
    -> (tensor<f32> {mpc.role = #mpc.role<loss>, mpc.name = "loss"}) {
  %0 = mpc.slice %p [0] [3] : tensor<5xf32> to tensor<3xf32>
  %1 = mpc.slice %p [3] [2] : tensor<5xf32> to tensor<2xf32>
  %2 = mpc.exp %0 : tensor<3xf32>
  %3 = mpc.sin %1 : tensor<2xf32>
  %4 = mpc.reduce_sum %2 axes([0]) : tensor<3xf32> -> tensor<f32>
  %5 = mpc.reduce_sum %3 axes([0]) : tensor<2xf32> -> tensor<f32>
  %6 = mpc.add %4, %5 : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %6 : tensor<f32>
}

// -----

// So do the gradients of gathers at one constant index, as exporters write the
// three slices of a fused projection.
// CHECK-LABEL: func.func @gathers_join
// CHECK: mpc.gradient_seed
// CHECK-NOT: mpc.pad
// CHECK-NOT: mpc.scatter_nd
// CHECK: %[[DLAST:.+]] = mpc.neg %[[DFIRST:.+]] : tensor<3xf32>
// CHECK: %[[LAST:.+]] = mpc.reshape %[[DLAST]] : tensor<3xf32> to tensor<1x3xf32>
// CHECK: %[[FIRST:.+]] = mpc.reshape %[[DFIRST]] : tensor<3xf32> to tensor<1x3xf32>
// CHECK: mpc.concat %[[FIRST]], %[[LAST]] axis(0) : (tensor<1x3xf32>, tensor<1x3xf32>) -> tensor<2x3xf32>
func.func @gathers_join(%p: tensor<2x3xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "p"})
    -> (tensor<f32> {mpc.role = #mpc.role<loss>, mpc.name = "loss"}) {
  %first = mpc.constant dense<0> : tensor<i64>
  %last = mpc.constant dense<-1> : tensor<i64>
  %0 = mpc.gather %p, %first axis(0) : (tensor<2x3xf32>, tensor<i64>) -> tensor<3xf32>
  %1 = mpc.gather %p, %last axis(0) : (tensor<2x3xf32>, tensor<i64>) -> tensor<3xf32>
  %2 = mpc.mean_squared_error %0, %1 : (tensor<3xf32>, tensor<3xf32>) -> tensor<f32>
  return %2 : tensor<f32>
}

// -----

// Every loss is seeded: their sum is differentiated.
// CHECK-LABEL: func.func @two_losses
// CHECK: %[[SEED:.+]] = mpc.gradient_seed
// CHECK-NOT: mpc.gradient_seed
// CHECK: %[[COS:.+]] = mpc.cos
// CHECK: mpc.mul %[[SEED]], %[[COS]]
// CHECK: %[[EXP:.+]] = mpc.mul %[[SEED]], %{{.+}}
// CHECK: mpc.add
func.func @two_losses(%p: tensor<f32> {mpc.role = #mpc.role<parameter>, mpc.name = "p"})
    -> (tensor<f32> {mpc.role = #mpc.role<loss>, mpc.name = "a"},
        tensor<f32> {mpc.role = #mpc.role<loss>, mpc.name = "b"}) {
  %0 = mpc.exp %p : tensor<f32>
  %1 = mpc.sin %p : tensor<f32>
  return %0, %1 : tensor<f32>, tensor<f32>
}

// -----

// No gradient flows past stop_gradient, nor through ops without float results.
// CHECK-LABEL: func.func @stops
// CHECK: %[[ZERO:.+]] = mpc.constant dense<0.000000e+00> : tensor<3xf32>
// CHECK: return %{{.+}}, %{{.+}}, %[[ZERO]]
func.func @stops(%p: tensor<3xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "p"},
                 %q: tensor<3xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "q"})
    -> (tensor<f32> {mpc.role = #mpc.role<loss>, mpc.name = "loss"}) {
  %0 = mpc.stop_gradient %q : tensor<3xf32>
  %1 = mpc.compare gt %q, %0 : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
  %2 = mpc.select %1, %p, %0 : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %3 = mpc.reduce_sum %2 axes([0]) : tensor<3xf32> -> tensor<f32>
  return %3 : tensor<f32>
}

// -----

// Recurrent ops between loss and parameters are unrolled first. The recurrent
// weight's gradient is one matmul over the rows of all steps.
// CHECK-LABEL: func.func @recurrent
// CHECK-NOT: mpc.rnn
// CHECK: mpc.tanh
// CHECK: mpc.gradient_seed
// CHECK: %[[GATES:.+]] = mpc.concat {{.+}} axis(0) : (tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<3x4xf32>
// CHECK: %[[STATES:.+]] = mpc.concat {{.+}} axis(0) : (tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<3x4xf32>
// CHECK: mpc.matmul %[[GATES]], %[[STATES]] transpose_lhs : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<4x4xf32>
// Or one op iterates backward over the steps. The recurrent weight's matmul reads the states
// of all steps but the last, since the state before the first is zero.
// SPLIT-LABEL: func.func @recurrent
// SPLIT-NOT: mpc.rnn
// SPLIT: %[[PROJECTED:.+]] = mpc.matmul %{{.+}}, %{{.+}} transpose_rhs : (tensor<3x1x5xf32>, tensor<4x5xf32>) -> tensor<3x1x4xf32>
// SPLIT: %[[RESULT:[^,]+]], %{{.+}}, %[[KEPT:.+]] = mpc.recurrence_training rnn %[[PROJECTED]], %[[R:.+]] :
// SPLIT: mpc.gradient_seed
// SPLIT: %[[GATES:[^,]+]], %{{.+}} = mpc.recurrence_gradient rnn %[[R]], %[[KEPT]] result(%{{.+}}) :
// SPLIT: %[[STEPS:.+]] = mpc.reshape %[[RESULT]] : tensor<3x1x1x4xf32> to tensor<3x1x4xf32>
// SPLIT: %[[BEFORE:.+]] = mpc.slice %[[STEPS]] [0, 0, 0] [2, 1, 4]
// SPLIT: %[[LATER:.+]] = mpc.slice %[[GATES]] [1, 0, 0] [2, 1, 4]
// SPLIT: mpc.matmul %{{.+}}, %{{.+}} transpose_lhs : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
// SPLIT: mpc.matmul %{{.+}}, %{{.+}} transpose_lhs : (tensor<3x4xf32>, tensor<3x5xf32>) -> tensor<4x5xf32>
func.func @recurrent(%x: tensor<3x1x5xf32> {mpc.role = #mpc.role<input>},
                     %w: tensor<1x4x5xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "w"},
                     %r: tensor<1x4x4xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "r"})
    -> (tensor<f32> {mpc.role = #mpc.role<loss>, mpc.name = "loss"}) {
  %0:2 = mpc.rnn %x, %w, %r : (tensor<3x1x5xf32>, tensor<1x4x5xf32>, tensor<1x4x4xf32>) -> (tensor<3x1x1x4xf32>, tensor<1x1x4xf32>)
  %1 = mpc.reduce_sum %0#0 axes([0, 1, 2, 3]) : tensor<3x1x1x4xf32> -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// An imported recurrence stores its states, or is unrolled.
// CHECK-LABEL: func.func @recurrence
// CHECK-NOT: mpc.recurrence
// CHECK-COUNT-3: mpc.tanh
// SPLIT-LABEL: func.func @recurrence
// SPLIT: %{{.+}}, %{{.+}}, %[[KEPT:.+]] = mpc.recurrence_training rnn %{{.+}}, %[[R:.+]] :
// SPLIT: mpc.recurrence_gradient rnn %[[R]], %[[KEPT]] result(%{{.+}}) :
func.func @recurrence(%p: tensor<3x1x4xf32> {mpc.role = #mpc.role<input>},
                      %r: tensor<1x4x4xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "r"})
    -> (tensor<f32> {mpc.role = #mpc.role<loss>, mpc.name = "loss"}) {
  %0:2 = mpc.recurrence rnn %p, %r : (tensor<3x1x4xf32>, tensor<1x4x4xf32>) -> (tensor<3x1x1x4xf32>, tensor<1x1x4xf32>)
  %1 = mpc.reduce_sum %0#0 axes([0, 1, 2, 3]) : tensor<3x1x1x4xf32> -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// Without a loss there is nothing to do.
// CHECK-LABEL: func.func @no_loss
// CHECK-NEXT: mpc.exp
// CHECK-NEXT: return
func.func @no_loss(%p: tensor<f32> {mpc.role = #mpc.role<parameter>, mpc.name = "p"}) -> tensor<f32> {
  %0 = mpc.exp %p : tensor<f32>
  return %0 : tensor<f32>
}
