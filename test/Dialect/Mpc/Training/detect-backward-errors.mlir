// RUN: mpc-opt %s --mpc-detect-backward --split-input-file --verify-diagnostics

// The constant 1 of a sum's gradient was folded away: no seed is found.
// expected-remark @below {{looks like a training step, but its backward pass does not start at a constant that can be scaled}}
func.func @no_beginning(%w: tensor<4x4xf32> {mpc.role = #mpc.role<input>, mpc.name = "w"},
    %x: tensor<8x4xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<f32> {mpc.role = #mpc.role<output>, mpc.name = "loss"},
        tensor<4x4xf32> {mpc.role = #mpc.role<output>, mpc.name = "new", mpc.alias = 0 : i64}) {
  %y = mpc.matmul %x, %w : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %l = mpc.reduce_sum %y axes([0, 1]) : tensor<8x4xf32> -> tensor<f32>
  %dw = mpc.matmul %x, %x transpose_lhs : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %w1 = mpc.sub %w, %dw : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %l, %w1 : tensor<f32>, tensor<4x4xf32>
}

// -----

// A new moment that aliases no argument: a skipped step could not keep it.
// expected-remark @below {{result 'moment' depends on the gradients but replaces no argument}}
func.func @no_donation(%w: tensor<4x2xf32> {mpc.role = #mpc.role<input>, mpc.name = "w"},
    %x: tensor<8x4xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<f32> {mpc.role = #mpc.role<output>, mpc.name = "loss"},
        tensor<4x2xf32> {mpc.role = #mpc.role<output>, mpc.name = "new", mpc.alias = 0 : i64},
        tensor<4x2xf32> {mpc.role = #mpc.role<output>, mpc.name = "moment"}) {
  %c = mpc.constant dense<0.5> : tensor<f32>
  %y = mpc.matmul %x, %w : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
  %l = mpc.reduce_sum %y axes([0, 1]) : tensor<8x2xf32> -> tensor<f32>
  %dy = mpc.broadcast %c : tensor<f32> to tensor<8x2xf32>
  %dw = mpc.matmul %x, %dy transpose_lhs : (tensor<8x4xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  %w1 = mpc.sub %w, %dw : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
  return %l, %w1, %dw : tensor<f32>, tensor<4x2xf32>, tensor<4x2xf32>
}
