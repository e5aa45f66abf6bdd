// RUN: mpc-opt %s --verify-diagnostics --split-input-file

func.func @bad0(%x: tensor<4x6xf32>, %i: tensor<i32>, %v: tensor<f32>) {
  // expected-error @below {{'stablehlo.add' op requires the same type for all operands and results}}
  %0 = stablehlo.add %x, %v : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32>
  return
}

// -----

func.func @bad1(%x: tensor<4x6xf32>, %i: tensor<i32>, %v: tensor<f32>) {
  // expected-error @below {{expected 2 operands and one result}}
  %0 = stablehlo.add %x, %x : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return
}

// -----

func.func @bad2(%x: tensor<4x6xf32>, %i: tensor<i32>, %v: tensor<f32>) {
  // expected-error @below {{must be statically shaped tensor of float of 4 to 64 bits values, but got 'tensor<i32>'}}
  %0 = stablehlo.exponential %i : tensor<i32>
  return
}

// -----

func.func @bad3(%y: tensor<?xf32>) {
  // expected-error @below {{must be statically shaped tensor}}
  %0 = stablehlo.abs %y : tensor<?xf32>
  return
}

// -----

func.func @bad4(%x: tensor<4x6xf32>, %i: tensor<i32>, %v: tensor<f32>) {
  // expected-error @below {{cannot take 'tensor<4x6xf32>' as 'tensor<4x6xi16>'}}
  %0 = stablehlo.bitcast_convert %x : (tensor<4x6xf32>) -> tensor<4x6xi16>
  return
}

// -----

func.func @bad5(%x: tensor<4x6xf32>, %i: tensor<i32>, %v: tensor<f32>) {
  // expected-error @below {{has no format e0m3}}
  %0 = stablehlo.reduce_precision %x, format = e0m3 : tensor<4x6xf32>
  return
}

// -----

func.func @bad6(%x: tensor<4x6xf32>, %i: tensor<i32>, %v: tensor<f32>) {
  // expected-error @below {{expected a format such as e5m10, found 'five'}}
  %0 = stablehlo.reduce_precision %x, format = five : tensor<4x6xf32>
  return
}

// -----

func.func @bad7(%x: tensor<4x6xf32>, %p: tensor<2xi1>) {
  // expected-error @below {{has a predicate of type 'tensor<2xi1>' for 'tensor<4x6xf32>'}}
  %0 = stablehlo.select %p, %x, %x : tensor<2xi1>, tensor<4x6xf32>
  return
}

// -----

func.func @bad8(%x: tensor<4x6xf32>, %i: tensor<i32>, %v: tensor<f32>) {
  // expected-error @below {{has a bound of type 'tensor<i32>' for 'tensor<4x6xf32>'}}
  %0 = stablehlo.clamp %i, %x, %v : (tensor<i32>, tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32>
  return
}

// -----

func.func @bad9(%x: tensor<4x6xf32>, %i: tensor<i32>, %v: tensor<f32>) {
  // expected-error @below {{dimension [2] has 2, which is outside of rank 2}}
  %0 = stablehlo.iota dim = 2 : tensor<4x6xi32>
  return
}

// -----

func.func @bad10(%x: tensor<4x6xf32>, %i: tensor<i32>, %v: tensor<f32>) {
  // expected-error @below {{gives 'tensor<5xf32>' from 'tensor<4x6xf32>'}}
  %0 = stablehlo.reshape %x : (tensor<4x6xf32>) -> tensor<5xf32>
  return
}

// -----

func.func @bad11(%x: tensor<4x6xf32>, %i: tensor<i32>, %v: tensor<f32>) {
  // expected-error @below {{permutation [0, 0] has 0 twice}}
  %0 = stablehlo.transpose %x, dims = [0, 0] : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return
}

// -----

func.func @bad12(%x: tensor<4x6xf32>, %i: tensor<i32>, %v: tensor<f32>) {
  // expected-error @below {{has 'tensor<4x6xf32>', expected 'tensor<6x4xf32>'}}
  %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return
}

// -----

func.func @bad13(%x: tensor<4x6xf32>, %i: tensor<i32>, %v: tensor<f32>) {
  // expected-error @below {{repeats 4 elements to 8}}
  %0 = stablehlo.broadcast_in_dim %x, dims = [0, 1] : (tensor<4x6xf32>) -> tensor<8x6xf32>
  return
}

// -----

func.func @bad14(%x: tensor<4x6xf32>, %i: tensor<i32>, %v: tensor<f32>) {
  // expected-error @below {{has 'tensor<9x6xf32>', expected 'tensor<8x6xf32>'}}
  %0 = stablehlo.concatenate %x, %x, dim = 0 : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<9x6xf32>
  return
}

// -----

func.func @bad15(%x: tensor<4x6xf32>, %i: tensor<i32>, %v: tensor<f32>) {
  // expected-error @below {{has the range 1:9:1 of 6 elements}}
  %0 = stablehlo.slice %x [0:4, 1:9] : (tensor<4x6xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @bad16(%x: tensor<4x6xf32>, %i: tensor<i32>, %v: tensor<f32>) {
  // expected-error @below {{pads 4 elements by -9, 0 and, inside, 0}}
  %0 = stablehlo.pad %x, %v, low = [-9, 0], high = [0, 0], interior = [0, 0] : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32>
  return
}

// -----

func.func @bad17(%x: tensor<4x6xf32>, %i: tensor<i32>, %v: tensor<f32>) {
  // expected-error @below {{pads 4 elements by 9223372036854775807, 9223372036854775807 and, inside, 0}}
  %0 = stablehlo.pad %x, %v, low = [9223372036854775807, 0], high = [9223372036854775807, 0], interior = [0, 0] : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32>
  return
}

// -----

func.func @bad18(%x: tensor<4x6xf32>, %i: tensor<i32>, %v: tensor<f32>) {
  // expected-error @below {{takes 5 of 4 elements}}
  %0 = stablehlo.dynamic_slice %x, %i, %i, sizes = [5, 1] : (tensor<4x6xf32>, tensor<i32>, tensor<i32>) -> tensor<5x1xf32>
  return
}

// -----

func.func @bad19(%x: tensor<4x6xf32>, %i: tensor<i32>, %v: tensor<f32>) {
  // expected-error @below {{writes 'tensor<f32>' at 2 starts into 'tensor<4x6xf32>'}}
  %0 = stablehlo.dynamic_update_slice %x, %v, %i, %i : (tensor<4x6xf32>, tensor<f32>, tensor<i32>, tensor<i32>) -> tensor<4x6xf32>
  return
}

// -----

func.func @bad20(%x: tensor<4x6xf32>, %j: tensor<3x2xi32>) {
  // expected-error @below {{has vectors of 2 indices for 1 dimensions}}
  %0 = "stablehlo.gather"(%x, %j) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 6>}> : (tensor<4x6xf32>, tensor<3x2xi32>) -> tensor<3x6xf32>
  return
}

// -----

func.func @bad21(%x: tensor<4x6xf32>, %i: tensor<i32>, %v: tensor<f32>) {
  // expected-error @below {{pairs extents 4 and 6}}
  %0 = stablehlo.dot_general %x, %x, contracting_dims = [0] x [1] : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<6x4xf32>
  return
}

// -----

func.func @bad22(%x: tensor<4x6xf32>, %i: tensor<i32>, %v: tensor<f32>) {
  // expected-error @below {{unknown precision 'LOW'}}
  %0 = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0], precision = [LOW, LOW] : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<6x6xf32>
  return
}

// -----

func.func @bad23(%y: tensor<1x4x8xf32>, %w: tensor<6x2x3xf32>) {
  // expected-error @below {{has 3 feature and 1 batch groups}}
  %0 = stablehlo.convolution(%y, %w) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {} {batch_group_count = 1 : i64, feature_group_count = 3 : i64} : (tensor<1x4x8xf32>, tensor<6x2x3xf32>) -> tensor<1x6x6xf32>
  return
}

// -----

func.func @bad24(%x: tensor<4x6xf32>, %i: tensor<i32>, %v: tensor<f32>) {
  // expected-error @below {{a window has no 'size'}}
  %0 = stablehlo.convolution(%x, %x) dim_numbers = [b, f]x[o, i]->[b, f], window = {size = [1]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @bad25(%x: tensor<4x6xf32>, %i: tensor<i32>, %v: tensor<f32>) {
  // expected-error @below {{has 'tensor<6xf32>', expected 'tensor<4xf32>'}}
  %0 = stablehlo.reduce(%x init: %v) applies stablehlo.add across dimensions = [1] : (tensor<4x6xf32>, tensor<f32>) -> tensor<6xf32>
  return
}

// -----

func.func @bad26(%x: tensor<4x6xf32>, %i: tensor<i32>, %v: tensor<f32>) {
  // expected-error @below {{expected an op of two numbers, found 'stablehlo.abs'}}
  %0 = stablehlo.reduce(%x init: %v) applies stablehlo.abs across dimensions = [1] : (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32>
  return
}

// -----

func.func @bad27(%x: tensor<4x6xf32>, %i: tensor<i32>, %v: tensor<f32>) {
  // expected-error @below {{initializes 'tensor<4x6xf32>' with 'tensor<i32>'}}
  %0 = stablehlo.reduce(%x init: %i) applies stablehlo.add across dimensions = [1] : (tensor<4x6xf32>, tensor<i32>) -> tensor<4xf32>
  return
}

// -----

func.func @bad28(%x: tensor<4x6xf32>, %i: tensor<i32>, %v: tensor<f32>) {
  // expected-error @below {{body gives ('tensor<i1>'), expected ('tensor<f32>')}}
  %0 = "stablehlo.reduce_window"(%x, %v) <{window_dimensions = array<i64: 2, 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %m = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %m : tensor<i1>
  }) : (tensor<4x6xf32>, tensor<f32>) -> tensor<3x5xf32>
  return
}

// -----

func.func @bad29(%x: tensor<4x6xf32>, %i: tensor<i32>, %v: tensor<f32>) {
  // expected-error @below {{window sizes must be positive, found 0}}
  %0 = "stablehlo.reduce_window"(%x, %v) <{window_dimensions = array<i64: 2, 0>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    stablehlo.return %a : tensor<f32>
  }) : (tensor<4x6xf32>, tensor<f32>) -> tensor<3x5xf32>
  return
}

// -----

func.func @bad30(%x: tensor<4x6xf32>, %i: tensor<i32>, %v: tensor<f32>) {
  // expected-error @below {{sorts along dimension 2 of rank 2}}
  %0 = "stablehlo.sort"(%x) <{dimension = 2 : i64}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %m = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %m : tensor<i1>
  }) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return
}

// -----

func.func @bad31(%x: tensor<4x6xf32>, %i: tensor<i32>, %v: tensor<f32>) {
  // expected-error @below {{cond gives ('tensor<f32>'), expected ('tensor<i1>')}}
  %0 = stablehlo.while(%a = %v) : tensor<f32>
  cond {
    stablehlo.return %a : tensor<f32>
  } do {
    stablehlo.return %a : tensor<f32>
  }
  return
}

// -----

func.func @bad32(%s: tensor<2xi64>) {
  // expected-error @below {{has a state of type 'tensor<2xi64>'}}
  %0, %1 = stablehlo.rng_bit_generator %s, algorithm = DEFAULT : (tensor<2xi64>) -> (tensor<2xi64>, tensor<4xui32>)
  return
}

// -----

func.func @bad33(%x: tensor<4x6xf32>, %i: tensor<i32>, %v: tensor<f32>) {
  // expected-error @below {{takes 7 of 'tensor<4x6xf32>'}}
  %0, %1 = chlo.top_k(%x, k = 7) : tensor<4x6xf32> -> (tensor<4x7xf32>, tensor<4x7xi32>)
  return
}

// -----

func.func @bad34(%x: tensor<4x6xf32>, %i: tensor<i32>, %v: tensor<f32>) {
  // expected-error @below {{op 'stablehlo.fft' uses complex numbers, which are not supported}}
  %0 = stablehlo.fft %x, type = RFFT, length = [6] : (tensor<4x6xf32>) -> tensor<4x4xcomplex<f32>>
  return
}

// -----

func.func @bad35(%x: tensor<4x6xf32>, %i: tensor<i32>, %v: tensor<f32>) {
  // expected-error @below {{op 'stablehlo.all_gather' communicates with other devices, but mpc compiles for one device}}
  %0 = stablehlo.all_gather %x : tensor<4x6xf32>
  return
}

// -----

func.func @bad36(%x: tensor<4x6xf32>, %i: tensor<i32>, %v: tensor<f32>) {
  // expected-error @below {{op 'stablehlo.dynamic_iota' has a dynamic shape; trace the function with concrete shapes}}
  %0 = stablehlo.dynamic_iota %i, dim = 0 : tensor<4xi32>
  return
}

// -----

func.func @bad37(%x: tensor<4x6xf32>, %i: tensor<i32>, %v: tensor<f32>) {
  // expected-error @below {{op 'stablehlo.rng' uses a hidden random state}}
  %0 = stablehlo.rng %v, %v, %i
  return
}

// -----

func.func @bad38(%x: tensor<4x6xf32>, %i: tensor<i32>, %v: tensor<f32>) {
  // expected-error @below {{op 'chlo.zeta' is not supported}}
  %0 = chlo.zeta %x, %x : tensor<4x6xf32>
  return
}
