// The block of 32 elements with an infinity has the scale 2^127, as torchao and TransformerEngine give it; its largest
// number times that scale exceeds f32, and the oracle's result is infinite, too.
// RUN: mpc check %s --policy mxfp8 | FileCheck %s
// CHECK: {{^}}y {{.*}} ok
// CHECK: all checks held
func.func @main(%x: tensor<2x64xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<2x8xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %mask = mpc.constant dense<[[0x7F800000], [0.0]]> : tensor<2x1xf32>
  %first = mpc.slice %x [0, 0] [2, 1] : tensor<2x64xf32> to tensor<2x1xf32>
  %rest = mpc.slice %x [0, 1] [2, 63] : tensor<2x64xf32> to tensor<2x63xf32>
  %large = mpc.add %first, %mask : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  %all = mpc.concat %large, %rest axis(1) : (tensor<2x1xf32>, tensor<2x63xf32>) -> tensor<2x64xf32>
  %w = mpc.constant dense<0.3> : tensor<64x8xf32>
  %y = mpc.matmul %all, %w : (tensor<2x64xf32>, tensor<64x8xf32>) -> tensor<2x8xf32> loc("product")
  return %y : tensor<2x8xf32>
}
