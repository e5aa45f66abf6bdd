// RUN: mpc-opt %s --mpc-attach-loss --split-input-file --verify-diagnostics
// RUN: not mpc-opt %s --mpc-attach-loss=loss=hinge --split-input-file 2>&1 | FileCheck %s --check-prefix=LOSS
// RUN: not mpc-opt %s --mpc-attach-loss=labels=words --split-input-file 2>&1 | FileCheck %s --check-prefix=LABELS
// RUN: not mpc-opt %s --mpc-attach-loss="loss=huber labels=classes" --split-input-file 2>&1 | FileCheck %s --check-prefix=CLASSES
// RUN: not mpc-opt %s --mpc-attach-loss=ignore-index=x --split-input-file 2>&1 | FileCheck %s --check-prefix=INDEX
// RUN: not mpc-opt %s --mpc-attach-loss="labels=dense ignore-index=1" --split-input-file 2>&1 | FileCheck %s --check-prefix=IGNORED
// RUN: not mpc-opt %s --mpc-attach-loss=output=c --split-input-file 2>&1 | FileCheck %s --check-prefix=OUTPUT

// LOSS: unknown loss 'hinge'; use softmax_cross_entropy,
// LABELS: unknown labels 'words'; use classes or dense
// CLASSES: loss 'huber' takes dense labels, not classes
// INDEX: the ignored class is 'x', which is not an integer
// IGNORED: an ignored class needs labels that are classes
// OUTPUT: the loss is to read output 'c', but the outputs are a, b
// expected-error @below {{there are 2 outputs; set output to the one that the loss reads: a, b}}
func.func @two_outputs(%x: tensor<4xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<4xf32> {mpc.role = #mpc.role<output>, mpc.name = "a"}, tensor<4xf32> {mpc.role = #mpc.role<output>, mpc.name = "b"}) {
  return %x, %x : tensor<4xf32>, tensor<4xf32>
}

// -----

// expected-error @below {{output 'a' of type 'tensor<4xi32>' cannot have a loss; it must be float}}
func.func @integers(%x: tensor<4xi32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<4xi32> {mpc.role = #mpc.role<output>, mpc.name = "a"}) {
  return %x : tensor<4xi32>
}

// -----

// expected-error @below {{output 'a' is a scalar, which has no classes}}
func.func @scalar(%x: tensor<f32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<f32> {mpc.role = #mpc.role<output>, mpc.name = "a"}) {
  return %x : tensor<f32>
}

// -----

// expected-error @below {{the function already has a loss}}
func.func @again(%x: tensor<f32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<f32> {mpc.role = #mpc.role<loss>, mpc.name = "loss"}) {
  return %x : tensor<f32>
}
