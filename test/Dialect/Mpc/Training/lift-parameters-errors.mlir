// RUN: not mpc-opt %s --mpc-lift-parameters=freeze=fc.wieght 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not mpc-opt %s --mpc-lift-parameters="trainable=fc.(" 2>&1 | FileCheck %s --check-prefix=REGEX
// RUN: not mpc-opt %s --mpc-lift-parameters=momentum=1.5 2>&1 | FileCheck %s --check-prefix=MOMENTUM
// RUN: not mpc-opt %s --mpc-lift-parameters="trainable=fc.* freeze=.*bias" 2>&1 | FileCheck %s --check-prefix=BOTH
// RUN: not mpc-opt %s --mpc-lift-parameters=trainable=ids 2>&1 | FileCheck %s --check-prefix=FIXED
// RUN: not mpc-opt %s --mpc-lift-parameters=freeze=back 2>&1 | FileCheck %s --check-prefix=TIED

// NAME: 'fc.wieght' matches no weight; the weights of the model are ids, fc.weight, fc.bias
// BOTH: 'fc.bias' is matched by 'fc.*' of trainable and by '.*bias' of freeze; remove it from one of them
// FIXED: 'ids' of type 'tensor<2xi32>' cannot be trained: parameters are floats of 16 bits or more
// TIED: 'back' is the transpose of 'fc.weight', so they are one weight, but 'back' is not trained: 'back' of freeze matches it; name both or neither
// REGEX: 'fc.(' is not a regular expression
// MOMENTUM: momentum of running statistics must lie in [0, 1], found 1.5
func.func @layer(%x: tensor<4x3xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<4x3xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}, tensor<2xi32> {mpc.role = #mpc.role<output>, mpc.name = "n"}) {
  %ids = mpc.constant dense<[0, 1]> : tensor<2xi32> loc("ids")
  %w = mpc.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32> loc("fc.weight")
  %b = mpc.constant dense<[0.5, -0.5]> : tensor<2xf32> loc("fc.bias")
  %0 = mpc.matmul %x, %w transpose_rhs : (tensor<4x3xf32>, tensor<2x3xf32>) -> tensor<4x2xf32> loc("fc")
  %1 = mpc.add %0, %b : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32> loc("fc")
  %back = mpc.constant dense<[[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]> : tensor<3x2xf32> loc("back")
  %2 = mpc.matmul %1, %back transpose_rhs : (tensor<4x2xf32>, tensor<3x2xf32>) -> tensor<4x3xf32> loc("decoder")
  return %2, %ids : tensor<4x3xf32>, tensor<2xi32>
}
