// The start of a dense block: a 1x1 convolution reads channels-first images after a norm
// and an activation, and other ops read the images directly.
func.func @main(%x: tensor<3x40x7x9xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"},
                %s: tensor<40x1x1xf32> {mpc.role = #mpc.role<input>, mpc.name = "s"},
                %f: tensor<72x40x1x1xf32> {mpc.role = #mpc.role<input>, mpc.name = "f"},
                %g: tensor<8x72x3x3xf32> {mpc.role = #mpc.role<input>, mpc.name = "g"},
                %h: tensor<24x48x1x1xf32> {mpc.role = #mpc.role<input>, mpc.name = "h"})
    -> (tensor<3x24x7x9xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %0 = mpc.mul %x, %s : (tensor<3x40x7x9xf32>, tensor<40x1x1xf32>) -> tensor<3x40x7x9xf32>
  %1 = mpc.relu %0 : tensor<3x40x7x9xf32>
  %2 = mpc.conv %1, %f strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) : (tensor<3x40x7x9xf32>, tensor<72x40x1x1xf32>) -> tensor<3x72x7x9xf32> loc("bottleneck")
  %3 = mpc.relu %2 : tensor<3x72x7x9xf32>
  %4 = mpc.conv %3, %g strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) : (tensor<3x72x7x9xf32>, tensor<8x72x3x3xf32>) -> tensor<3x8x7x9xf32> loc("layer")
  %5 = mpc.concat %x, %4 axis(1) : (tensor<3x40x7x9xf32>, tensor<3x8x7x9xf32>) -> tensor<3x48x7x9xf32>
  %6 = mpc.tanh %5 : tensor<3x48x7x9xf32>
  %7 = mpc.conv %6, %h strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) : (tensor<3x48x7x9xf32>, tensor<24x48x1x1xf32>) -> tensor<3x24x7x9xf32> loc("next")
  return %7 : tensor<3x24x7x9xf32>
}
