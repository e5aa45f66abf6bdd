// Reproducible attention of one query, which reads keys in place, has the bits
// of its row among nine, wherever masked keys are: a decoded token has the bits
// of the prompt's prefill.
//
// RUN: rm -rf %t && %python %S/../Inputs/make_arrays.py %t
// RUN: mpc run %s --input x=%t/x.npy --reproducible --isa avx2 --digest --quiet | FileCheck %s
// RUN: mpc run %s --input x=%t/x.npy --reproducible --isa avx512 --emulate-units --policy mixed_bfloat16 --digest --quiet | FileCheck %s
// The digest of a zero, the largest difference.
// CHECK: 01a7fa565cea97de2b42c2a772b890d46ea44ffe9bfa68d89e87cbf313293d3a first
// CHECK-NEXT: 01a7fa565cea97de2b42c2a772b890d46ea44ffe9bfa68d89e87cbf313293d3a last
func.func @main(%x: tensor<4x8xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<f32> {mpc.role = #mpc.role<output>, mpc.name = "first"}, tensor<f32> {mpc.role = #mpc.role<output>, mpc.name = "last"}) {
  %scalar = mpc.slice %x [0, 0] [1, 1] : tensor<4x8xf32> to tensor<1x1xf32>
  %shift = mpc.reshape %scalar : tensor<1x1xf32> to tensor<1xf32>
  %count = mpc.iota axis(0) : tensor<33920xi32>
  %number = mpc.cast %count : tensor<33920xi32> to tensor<33920xf32>
  %step = mpc.constant dense<0.37> : tensor<f32>
  %angle = mpc.mul %number, %step : (tensor<33920xf32>, tensor<f32>) -> tensor<33920xf32>
  %shifted = mpc.add %angle, %shift : (tensor<33920xf32>, tensor<1xf32>) -> tensor<33920xf32>
  %sines = mpc.sin %shifted : tensor<33920xf32>
  %cosines = mpc.cos %shifted : tensor<33920xf32>
  %key = mpc.reshape %sines : tensor<33920xf32> to tensor<1x2x530x32xf32>
  %value = mpc.reshape %cosines : tensor<33920xf32> to tensor<1x2x530x32xf32>
  %start = mpc.slice %cosines [0] [1152] : tensor<33920xf32> to tensor<1152xf32>
  %query = mpc.reshape %start : tensor<1152xf32> to tensor<1x4x9x32xf32>
  %all = mpc.attention %query, %key, %value scale(0.176776695) causal : (tensor<1x4x9x32xf32>, tensor<1x2x530x32xf32>, tensor<1x2x530x32xf32>) -> tensor<1x4x9x32xf32>
  // Row 0 sees 522 keys; row 8 sees all of them, after seven masked ones.
  %query0 = mpc.slice %query [0, 0, 0, 0] [1, 4, 1, 32] : tensor<1x4x9x32xf32> to tensor<1x4x1x32xf32>
  %position = mpc.iota axis(0) : tensor<530xi32>
  %end = mpc.constant dense<522> : tensor<i32>
  %sees = mpc.compare lt %position, %end : (tensor<530xi32>, tensor<i32>) -> tensor<530xi1>
  %one0 = mpc.attention %query0, %key, %value mask(%sees) scale(0.176776695) : (tensor<1x4x1x32xf32>, tensor<1x2x530x32xf32>, tensor<1x2x530x32xf32>, tensor<530xi1>) -> tensor<1x4x1x32xf32>
  %row0 = mpc.slice %all [0, 0, 0, 0] [1, 4, 1, 32] : tensor<1x4x9x32xf32> to tensor<1x4x1x32xf32>
  %difference0 = mpc.sub %one0, %row0 : (tensor<1x4x1x32xf32>, tensor<1x4x1x32xf32>) -> tensor<1x4x1x32xf32>
  %size0 = mpc.abs %difference0 : tensor<1x4x1x32xf32>
  %first = mpc.reduce_max %size0 axes([0, 1, 2, 3]) : tensor<1x4x1x32xf32> -> tensor<f32>

  %query8 = mpc.slice %query [0, 0, 8, 0] [1, 4, 1, 32] : tensor<1x4x9x32xf32> to tensor<1x4x1x32xf32>
  %padding = mpc.constant dense<1.0> : tensor<1x2x7x32xf32>
  %key8 = mpc.concat %padding, %key axis(2) : (tensor<1x2x7x32xf32>, tensor<1x2x530x32xf32>) -> tensor<1x2x537x32xf32>
  %value8 = mpc.concat %padding, %value axis(2) : (tensor<1x2x7x32xf32>, tensor<1x2x530x32xf32>) -> tensor<1x2x537x32xf32>
  %position8 = mpc.iota axis(0) : tensor<537xi32>
  %begin = mpc.constant dense<7> : tensor<i32>
  %sees8 = mpc.compare ge %position8, %begin : (tensor<537xi32>, tensor<i32>) -> tensor<537xi1>
  %one8 = mpc.attention %query8, %key8, %value8 mask(%sees8) scale(0.176776695) : (tensor<1x4x1x32xf32>, tensor<1x2x537x32xf32>, tensor<1x2x537x32xf32>, tensor<537xi1>) -> tensor<1x4x1x32xf32>
  %row8 = mpc.slice %all [0, 0, 8, 0] [1, 4, 1, 32] : tensor<1x4x9x32xf32> to tensor<1x4x1x32xf32>
  %difference8 = mpc.sub %one8, %row8 : (tensor<1x4x1x32xf32>, tensor<1x4x1x32xf32>) -> tensor<1x4x1x32xf32>
  %size8 = mpc.abs %difference8 : tensor<1x4x1x32xf32>
  %last = mpc.reduce_max %size8 axes([0, 1, 2, 3]) : tensor<1x4x1x32xf32> -> tensor<f32>
  return %first, %last : tensor<f32>, tensor<f32>
}
