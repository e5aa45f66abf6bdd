// RUN: mpc-opt %s | mpc-opt | FileCheck %s

// CHECK-LABEL: func.func @messages(
// CHECK: %{{.+}}:2 = mpc.all_reduce %{{.+}}, %{{.+}} reduction(mean) ranks(4) accumulate(f32) : (tensor<8x4xbf16>, tensor<3xbf16>) -> (tensor<8x4xbf16>, tensor<3xbf16>)
// CHECK: mpc.reduce_scatter %{{.+}} reduction(max) ranks(4) : (tensor<3xbf16>) -> tensor<1xbf16>
// CHECK: mpc.all_gather %{{.+}} ranks(4) : (tensor<2xi64>) -> tensor<4x2xi64>
// CHECK: mpc.collective_broadcast %{{.+}} root(3) ranks(4) : (tensor<2xi64>) -> tensor<2xi64>
func.func @messages(%a: tensor<8x4xbf16>, %b: tensor<3xbf16>, %c: tensor<2xi64>) {
  %0:2 = mpc.all_reduce %a, %b reduction(mean) ranks(4) accumulate(f32)
    : (tensor<8x4xbf16>, tensor<3xbf16>) -> (tensor<8x4xbf16>, tensor<3xbf16>)
  %1 = mpc.reduce_scatter %b reduction(max) ranks(4) : (tensor<3xbf16>) -> tensor<1xbf16>
  %2 = mpc.all_gather %c ranks(4) : (tensor<2xi64>) -> tensor<4x2xi64>
  %3 = mpc.collective_broadcast %c root(3) ranks(4) : (tensor<2xi64>) -> tensor<2xi64>
  return
}
