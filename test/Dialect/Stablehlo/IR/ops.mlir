// Every op in JAX's print format: the custom form round-trips, and the
// generic form is the same module.
// RUN: grep -v '^//' %s | grep . > %t.mlir
// RUN: mpc-opt %t.mlir | grep . | diff %t.mlir -
// RUN: mpc-opt %t.mlir --mlir-print-op-generic | mpc-opt | grep . | diff %t.mlir -

module {
  func.func @unary(%arg0: tensor<4x6xf32>) -> tensor<4x6xf32> {
    %0 = stablehlo.abs %arg0 : tensor<4x6xf32>
    %1 = stablehlo.negate %0 : tensor<4x6xf32>
    %2 = stablehlo.sign %1 : tensor<4x6xf32>
    %3 = stablehlo.floor %2 : tensor<4x6xf32>
    %4 = stablehlo.ceil %3 : tensor<4x6xf32>
    %5 = stablehlo.round_nearest_even %4 : tensor<4x6xf32>
    %6 = stablehlo.round_nearest_afz %5 : tensor<4x6xf32>
    %7 = stablehlo.cbrt %6 : tensor<4x6xf32>
    %8 = stablehlo.cosine %7 : tensor<4x6xf32>
    %9 = stablehlo.exponential %8 : tensor<4x6xf32>
    %10 = stablehlo.exponential_minus_one %9 : tensor<4x6xf32>
    %11 = stablehlo.log %10 : tensor<4x6xf32>
    %12 = stablehlo.log_plus_one %11 : tensor<4x6xf32>
    %13 = stablehlo.logistic %12 : tensor<4x6xf32>
    %14 = stablehlo.rsqrt %13 : tensor<4x6xf32>
    %15 = stablehlo.sine %14 : tensor<4x6xf32>
    %16 = stablehlo.sqrt %15 : tensor<4x6xf32>
    %17 = stablehlo.tan %16 : tensor<4x6xf32>
    %18 = stablehlo.tanh %17 : tensor<4x6xf32>
    return %18 : tensor<4x6xf32>
  }
  func.func @unary_integers(%arg0: tensor<8xi32>) -> tensor<8xi32> {
    %0 = stablehlo.not %arg0 : tensor<8xi32>
    %1 = stablehlo.popcnt %0 : tensor<8xi32>
    %2 = stablehlo.count_leading_zeros %1 : tensor<8xi32>
    %3 = stablehlo.abs %2 : tensor<8xi32>
    %4 = stablehlo.negate %3 : tensor<8xi32>
    %5 = stablehlo.sign %4 : tensor<8xi32>
    return %5 : tensor<8xi32>
  }
  func.func @binary(%arg0: tensor<4x6xf32>, %arg1: tensor<4x6xf32>) -> tensor<4x6xf32> {
    %0 = stablehlo.add %arg0, %arg1 : tensor<4x6xf32>
    %1 = stablehlo.atan2 %0, %arg1 : tensor<4x6xf32>
    %2 = stablehlo.divide %1, %arg1 : tensor<4x6xf32>
    %3 = stablehlo.maximum %2, %arg1 : tensor<4x6xf32>
    %4 = stablehlo.minimum %3, %arg1 : tensor<4x6xf32>
    %5 = stablehlo.multiply %4, %arg1 : tensor<4x6xf32>
    %6 = stablehlo.power %5, %arg1 : tensor<4x6xf32>
    %7 = stablehlo.remainder %6, %arg1 : tensor<4x6xf32>
    %8 = stablehlo.subtract %7, %arg1 : tensor<4x6xf32>
    return %8 : tensor<4x6xf32>
  }
  func.func @binary_integers(%arg0: tensor<8xui32>, %arg1: tensor<8xui32>) -> tensor<8xui32> {
    %0 = stablehlo.and %arg0, %arg1 : tensor<8xui32>
    %1 = stablehlo.or %0, %arg1 : tensor<8xui32>
    %2 = stablehlo.xor %1, %arg1 : tensor<8xui32>
    %3 = stablehlo.shift_left %2, %arg1 : tensor<8xui32>
    %4 = stablehlo.shift_right_arithmetic %3, %arg1 : tensor<8xui32>
    %5 = stablehlo.shift_right_logical %4, %arg1 : tensor<8xui32>
    return %5 : tensor<8xui32>
  }
  func.func @booleans(%arg0: tensor<3xi1>, %arg1: tensor<3xi1>) -> tensor<3xi1> {
    %0 = stablehlo.and %arg0, %arg1 : tensor<3xi1>
    %1 = stablehlo.or %0, %arg1 : tensor<3xi1>
    %2 = stablehlo.xor %1, %arg1 : tensor<3xi1>
    %3 = stablehlo.add %2, %arg1 : tensor<3xi1>
    %4 = stablehlo.multiply %3, %arg1 : tensor<3xi1>
    %5 = stablehlo.maximum %4, %arg1 : tensor<3xi1>
    return %5 : tensor<3xi1>
  }
  func.func @chlo(%arg0: tensor<4x6xf32>) -> tensor<4x6xf32> {
    %0 = chlo.acos %arg0 : tensor<4x6xf32> -> tensor<4x6xf32>
    %1 = chlo.acosh %0 : tensor<4x6xf32> -> tensor<4x6xf32>
    %2 = chlo.asin %1 : tensor<4x6xf32> -> tensor<4x6xf32>
    %3 = chlo.asinh %2 : tensor<4x6xf32> -> tensor<4x6xf32>
    %4 = chlo.atan %3 : tensor<4x6xf32> -> tensor<4x6xf32>
    %5 = chlo.atanh %4 : tensor<4x6xf32> -> tensor<4x6xf32>
    %6 = chlo.cosh %5 : tensor<4x6xf32> -> tensor<4x6xf32>
    %7 = chlo.erf %6 : tensor<4x6xf32> -> tensor<4x6xf32>
    %8 = chlo.erf_inv %7 : tensor<4x6xf32> -> tensor<4x6xf32>
    %9 = chlo.erfc %8 : tensor<4x6xf32> -> tensor<4x6xf32>
    %10 = chlo.sinh %9 : tensor<4x6xf32> -> tensor<4x6xf32>
    %11 = chlo.square %10 : tensor<4x6xf32> -> tensor<4x6xf32>
    %12 = chlo.tan %11 : tensor<4x6xf32> -> tensor<4x6xf32>
    return %12 : tensor<4x6xf32>
  }
  func.func @chlo_classes(%arg0: tensor<4x6xf32>) -> tensor<4x6xi1> {
    %0 = chlo.is_inf %arg0 : tensor<4x6xf32> -> tensor<4x6xi1>
    %1 = chlo.is_pos_inf %arg0 : tensor<4x6xf32> -> tensor<4x6xi1>
    %2 = chlo.is_neg_inf %arg0 : tensor<4x6xf32> -> tensor<4x6xi1>
    return %0 : tensor<4x6xi1>
  }
  func.func @top_k(%arg0: tensor<4x6xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>) {
    %values, %indices = chlo.top_k(%arg0, k = 2) : tensor<4x6xf32> -> (tensor<4x2xf32>, tensor<4x2xi32>)
    return %values, %indices : tensor<4x2xf32>, tensor<4x2xi32>
  }
  func.func @result_accuracy(%arg0: tensor<4x6xf32>) -> tensor<4x6xf32> {
    %0 = stablehlo.exponential %arg0 {result_accuracy = #stablehlo.result_accuracy<mode = #stablehlo.result_accuracy_mode<HIGHEST>>} : tensor<4x6xf32>
    %1 = stablehlo.tanh %0 {result_accuracy = #stablehlo.result_accuracy<atol = 1.000000e-05, rtol = 2.500000e-01, ulps = 2, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>} : tensor<4x6xf32>
    return %1 : tensor<4x6xf32>
  }
  func.func @types(%arg0: tensor<4x6xf32>) -> tensor<4x6x2xi8> {
    %0 = stablehlo.convert %arg0 : (tensor<4x6xf32>) -> tensor<4x6xbf16>
    %1 = stablehlo.convert %arg0 : tensor<4x6xf32>
    %2 = stablehlo.bitcast_convert %0 : (tensor<4x6xbf16>) -> tensor<4x6x2xi8>
    %3 = stablehlo.is_finite %arg0 : (tensor<4x6xf32>) -> tensor<4x6xi1>
    %4 = stablehlo.reduce_precision %arg0, format = e5m10 : tensor<4x6xf32>
    %5 = stablehlo.convert %arg0 : (tensor<4x6xf32>) -> tensor<4x6xf8E4M3FN>
    return %2 : tensor<4x6x2xi8>
  }
  func.func @choice(%arg0: tensor<4x6xf32>, %arg1: tensor<4x6xf32>, %arg2: tensor<i32>) -> tensor<4x6xf32> {
    %0 = stablehlo.compare LT, %arg0, %arg1, FLOAT : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xi1>
    %1 = stablehlo.select %0, %arg0, %arg1 : tensor<4x6xi1>, tensor<4x6xf32>
    %2 = stablehlo.compare EQ, %arg2, %arg2 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %3 = stablehlo.select %2, %1, %arg0 : tensor<i1>, tensor<4x6xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %4 = stablehlo.clamp %cst, %3, %arg1 : (tensor<f32>, tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    %5 = stablehlo.clamp %arg0, %4, %arg1 : tensor<4x6xf32>
    %6 = stablehlo.compare GE, %arg0, %arg1, TOTALORDER : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xi1>
    return %5 : tensor<4x6xf32>
  }
  func.func @sources() -> tensor<4x6xi32> {
    %0 = stablehlo.iota dim = 1 : tensor<4x6xi32>
    %c = stablehlo.constant dense<[true, false]> : tensor<2xi1>
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    return %0 : tensor<4x6xi32>
  }
  func.func @movement(%arg0: tensor<4x6xf32>, %arg1: tensor<f32>, %arg2: tensor<i32>) -> tensor<12x2xf32> {
    %0 = stablehlo.reshape %arg0 : (tensor<4x6xf32>) -> tensor<2x12xf32>
    %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<2x12xf32>) -> tensor<12x2xf32>
    %2 = stablehlo.reverse %1, dims = [0, 1] : tensor<12x2xf32>
    %3 = stablehlo.concatenate %2, %2, dim = 1 : (tensor<12x2xf32>, tensor<12x2xf32>) -> tensor<12x4xf32>
    %4 = stablehlo.slice %3 [0:12, 1:4:2] : (tensor<12x4xf32>) -> tensor<12x2xf32>
    %5 = stablehlo.pad %4, %arg1, low = [1, -1], high = [0, 2], interior = [2, 0] : (tensor<12x2xf32>, tensor<f32>) -> tensor<35x3xf32>
    %6 = stablehlo.dynamic_slice %5, %arg2, %arg2, sizes = [12, 2] : (tensor<35x3xf32>, tensor<i32>, tensor<i32>) -> tensor<12x2xf32>
    %7 = stablehlo.dynamic_update_slice %5, %6, %arg2, %arg2 : (tensor<35x3xf32>, tensor<12x2xf32>, tensor<i32>, tensor<i32>) -> tensor<35x3xf32>
    %8 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>
    %10 = stablehlo.broadcast %9, sizes = [5] : (tensor<2x3xf32>) -> tensor<5x2x3xf32>
    %11 = stablehlo.dynamic_slice %arg1,  sizes = [] : (tensor<f32>) -> tensor<f32>
    return %6 : tensor<12x2xf32>
  }
  func.func @indices(%arg0: tensor<300x32xf32>, %arg1: tensor<4x16x1xi32>, %arg2: tensor<4x16x32xf32>) -> tensor<300x32xf32> {
    %0 = "stablehlo.gather"(%arg0, %arg1) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 32>}> : (tensor<300x32xf32>, tensor<4x16x1xi32>) -> tensor<4x16x32xf32>
    %1 = "stablehlo.scatter"(%arg0, %arg1, %0) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 2>, unique_indices = true}> ({
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
      %2 = stablehlo.add %arg3, %arg4 : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }) : (tensor<300x32xf32>, tensor<4x16x1xi32>, tensor<4x16x32xf32>) -> tensor<300x32xf32>
    return %1 : tensor<300x32xf32>
  }
  func.func @batched_indices(%arg0: tensor<12x20xf32>, %arg1: tensor<12x1x1xi32>) -> tensor<12x1xf32> {
    %0 = "stablehlo.gather"(%arg0, %arg1) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}> : (tensor<12x20xf32>, tensor<12x1x1xi32>) -> tensor<12x1xf32>
    return %0 : tensor<12x1xf32>
  }
  func.func @contractions(%arg0: tensor<2x3x5x7xf32>, %arg1: tensor<2x7x6x3xf32>, %arg2: tensor<4x6xbf16>) -> tensor<2x3x5x6xf32> {
    %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 1] x [0, 3], contracting_dims = [3] x [1], precision = [DEFAULT, HIGHEST] : (tensor<2x3x5x7xf32>, tensor<2x7x6x3xf32>) -> tensor<2x3x5x6xf32>
    %1 = stablehlo.dot_general %arg2, %arg2, contracting_dims = [1] x [1] : (tensor<4x6xbf16>, tensor<4x6xbf16>) -> tensor<4x4xf32>
    %2 = stablehlo.dot_general %arg2, %arg2, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT], algorithm = <lhs_precision_type = bf16, rhs_precision_type = bf16, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 3, allow_imprecise_accumulation = false> : (tensor<4x6xbf16>, tensor<4x6xbf16>) -> tensor<4x4xf32>
    %3 = stablehlo.dot %1, %2, precision = [HIGH, HIGH] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %4 = stablehlo.dot %1, %2 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %0 : tensor<2x3x5x6xf32>
  }
  func.func @convolutions(%arg0: tensor<2x8x15x14xf32>, %arg1: tensor<12x4x3x3xf32>, %arg2: tensor<2x12x9x13xf32>) -> tensor<2x12x9x13xf32> {
    %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [2, 1], pad = [[3, 2], [2, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 2], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x8x15x14xf32>, tensor<12x4x3x3xf32>) -> tensor<2x12x9x13xf32>
    %1 = stablehlo.convolution(%arg0, %arg2) dim_numbers = [f, b, 0, 1]x[i, o, 0, 1]->[f, b, 0, 1], window = {stride = [1, 2], pad = [[3, 1], [2, 1]], rhs_dilate = [2, 1]} {batch_group_count = 2 : i64, feature_group_count = 1 : i64} : (tensor<2x8x15x14xf32>, tensor<2x12x9x13xf32>) -> tensor<12x4x3x3xf32>
    %2 = stablehlo.convolution(%arg0, %arg0) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x15x14xf32>, tensor<2x8x15x14xf32>) -> tensor<2x2x1x1xf32>
    return %0 : tensor<2x12x9x13xf32>
  }
  func.func @reductions(%arg0: tensor<4x6xf32>, %arg1: tensor<f32>, %arg2: tensor<4x6xi32>, %arg3: tensor<i32>) -> tensor<4xf32> {
    %0 = stablehlo.reduce(%arg0 init: %arg1) applies stablehlo.add across dimensions = [1] : (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32>
    %1:2 = stablehlo.reduce(%arg0 init: %arg1), (%arg2 init: %arg3) across dimensions = [1] : (tensor<4x6xf32>, tensor<4x6xi32>, tensor<f32>, tensor<i32>) -> (tensor<4xf32>, tensor<4xi32>)
     reducer(%arg4: tensor<f32>, %arg6: tensor<f32>) (%arg5: tensor<i32>, %arg7: tensor<i32>)  {
      %6 = stablehlo.maximum %arg4, %arg6 : tensor<f32>
      stablehlo.return %6, %arg5 : tensor<f32>, tensor<i32>
    }
    %2 = "stablehlo.reduce_window"(%arg0, %arg1) <{padding = dense<[[0, 0], [1, 1]]> : tensor<2x2xi64>, window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 2, 2>}> ({
    ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>):
      %6 = stablehlo.maximum %arg4, %arg5 : tensor<f32>
      stablehlo.return %6 : tensor<f32>
    }) : (tensor<4x6xf32>, tensor<f32>) -> tensor<2x4xf32>
    %3 = "stablehlo.select_and_scatter"(%arg0, %2, %arg1) <{padding = dense<[[0, 0], [1, 1]]> : tensor<2x2xi64>, window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 2, 2>}> ({
    ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>):
      %6 = stablehlo.compare GE, %arg4, %arg5, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %6 : tensor<i1>
    }, {
    ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>):
      %6 = stablehlo.add %arg4, %arg5 : tensor<f32>
      stablehlo.return %6 : tensor<f32>
    }) : (tensor<4x6xf32>, tensor<2x4xf32>, tensor<f32>) -> tensor<4x6xf32>
    %4:2 = "stablehlo.sort"(%arg0, %arg2) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>, %arg6: tensor<i32>, %arg7: tensor<i32>):
      %6 = stablehlo.compare LT, %arg4, %arg5, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %6 : tensor<i1>
    }) : (tensor<4x6xf32>, tensor<4x6xi32>) -> (tensor<4x6xf32>, tensor<4x6xi32>)
    %5 = "stablehlo.map"(%arg0) <{dimensions = array<i64: 0, 1>}> ({
    ^bb0(%arg4: tensor<f32>):
      %6 = stablehlo.negate %arg4 : tensor<f32>
      stablehlo.return %6 : tensor<f32>
    }) : (tensor<4x6xf32>) -> tensor<4x6xf32>
    return %0 : tensor<4xf32>
  }
  func.func @control(%arg0: tensor<4x6xf32>, %arg1: tensor<i32>, %arg2: tensor<i1>) -> tensor<4x6xf32> {
    %c = stablehlo.constant dense<3> : tensor<i32>
    %0:2 = stablehlo.while(%iterArg = %arg1, %iterArg_0 = %arg0) : tensor<i32>, tensor<4x6xf32>
    cond {
      %4 = stablehlo.compare LT, %iterArg, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %4 : tensor<i1>
    } do {
      %4 = func.call @binary(%iterArg_0, %iterArg_0) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
      stablehlo.return %iterArg, %4 : tensor<i32>, tensor<4x6xf32>
    }
    %1 = "stablehlo.if"(%arg2) ({
      stablehlo.return %0#1 : tensor<4x6xf32>
    }, {
      stablehlo.return %arg0 : tensor<4x6xf32>
    }) : (tensor<i1>) -> tensor<4x6xf32>
    %2 = "stablehlo.case"(%arg1) ({
      stablehlo.return %1 : tensor<4x6xf32>
    }, {
      stablehlo.return %arg0 : tensor<4x6xf32>
    }) : (tensor<i32>) -> tensor<4x6xf32>
    %3:2 = stablehlo.optimization_barrier %2, %arg1 : tensor<4x6xf32>, tensor<i32>
    return %3#0 : tensor<4x6xf32>
  }
  func.func @random(%arg0: tensor<2xui64>) -> tensor<5xui32> {
    %output_state, %output = stablehlo.rng_bit_generator %arg0, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<5xui32>)
    return %output : tensor<5xui32>
  }
  func.func @custom_call(%arg0: tensor<4x6xf32>) -> tensor<4x6xf32> {
    %0 = stablehlo.custom_call @Sharding(%arg0) {backend_config = "", output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 0, operand_tuple_indices = []>]} : (tensor<4x6xf32>) -> tensor<4x6xf32>
    return %0 : tensor<4x6xf32>
  }
}
