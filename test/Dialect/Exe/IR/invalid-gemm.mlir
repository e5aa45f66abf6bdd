// The constraints of problems, and of the op that computes one.
// RUN: mpc-opt %s --verify-diagnostics --split-input-file

// expected-error @below {{GEMM f32 0x8x8, f32 has no size that fits in memory}}
func.func private @problem_c1() attributes {p = #exe.problem<m = 0, n = 8, k = 8, operand_type = f32, result_type = f32>}

// -----

// expected-error @below {{GEMM f32 4294967296x4294967296x8, f32 has no size that fits in memory}}
func.func private @problem_c1_size() attributes {p = #exe.problem<m = 4294967296, n = 4294967296, k = 8, operand_type = f32, result_type = f32>}

// -----

// expected-error @below {{GEMM i8 8x8x8, f32 has operands or a result that are not floats}}
func.func private @problem_c1_type() attributes {p = #exe.problem<m = 8, n = 8, k = 8, operand_type = i8, result_type = f32>}

// -----

// expected-error @below {{a product is of floats, found 'f80', 'f80' and 'f32'}}
func.func private @problem_c1_unknown_type() attributes {p = #exe.problem<m = 8, n = 8, k = 8, operand_type = f80, result_type = f32>}

// -----

// expected-error @below {{GEMM f8E4M3FN by bf16 16x16x16, transposed b, f32 has only one 8-bit operand}}
func.func private @problem_c2() attributes {p = #exe.problem<m = 16, n = 16, k = 16, operand_type = f8E4M3FN, operand_b_type = bf16, result_type = f32, transpose_b = true>}

// -----

// expected-error @below {{has two operands of type f8E5M2}}
func.func private @problem_c2_e5m2() attributes {p = #exe.problem<m = 16, n = 16, k = 16, operand_type = f8E5M2, result_type = f32, transpose_b = true>}

// -----

// expected-error @below {{GEMM f8E4M3FN 16x16x16, f32 has 8-bit operands whose layouts are not [m, k] and [n, k]}}
func.func private @problem_c3() attributes {p = #exe.problem<m = 16, n = 16, k = 16, operand_type = f8E4M3FN, result_type = f32>}

// -----

// expected-error @below {{GEMM f8E4M3FN 16x24x16, transposed b, f32 has 8-bit operands whose extents are not multiples of 16}}
func.func private @problem_c3_extents() attributes {p = #exe.problem<m = 16, n = 24, k = 16, operand_type = f8E4M3FN, result_type = f32, transpose_b = true>}

// -----

// expected-error @below {{GEMM f8E4M3FN 16x16x16, transposed b, relu gradient, f32 has a gradient epilogue with 8-bit operands}}
func.func private @problem_c3_gradient() attributes {p = #exe.problem<m = 16, n = 16, k = 16, operand_type = f8E4M3FN, result_type = f32, transpose_b = true, epilogue = relu_gradient>}

// -----

// expected-error @below {{GEMM bf16 16x16x16, transposed b, f8E4M3FN has an 8-bit result of operands that are not 8-bit}}
func.func private @problem_c4() attributes {p = #exe.problem<m = 16, n = 16, k = 16, operand_type = bf16, result_type = f8E4M3FN, transpose_b = true>}

// -----

// expected-error @below {{GEMM f8E4M3FN 16x16x16, transposed b, f8E5M2 has an f8E5M2 result of f8E4M3FN operands}}
func.func private @problem_c4_e5m2() attributes {p = #exe.problem<m = 16, n = 16, k = 16, operand_type = f8E4M3FN, result_type = f8E5M2, transpose_b = true>}

// -----

// expected-error @below {{GEMM f8E4M3FN 16x16x16, transposed b, residual, f8E4M3FN has a residual and an 8-bit result}}
func.func private @problem_c4_residual() attributes {p = #exe.problem<m = 16, n = 16, k = 16, operand_type = f8E4M3FN, result_type = f8E4M3FN, transpose_b = true, residual = true>}

// -----

// expected-error @below {{GEMM bf16 16x16x16, scales, f32 scales operands that are not 8-bit floats}}
func.func private @problem_c4_scales() attributes {p = #exe.problem<m = 16, n = 16, k = 16, operand_type = bf16, result_type = f32, scales = true>}

// -----

// expected-error @below {{GEMM f8E4M3FN 16x16x16, transposed b, amax, f32 has a result scale or amax of a result that is not 8-bit}}
func.func private @problem_c4_amax() attributes {p = #exe.problem<m = 16, n = 16, k = 16, operand_type = f8E4M3FN, result_type = f32, transpose_b = true, amax = true>}

// -----

// expected-error @below {{GEMM bf16 8x8x8 bf16x9, f32 rounds operands that are not f32}}
func.func private @problem_c5() attributes {p = #exe.problem<m = 8, n = 8, k = 8, operand_type = bf16, result_type = f32, compute = bf16x9>}

// -----

// expected-error @below {{has both a residual and the activation relu}}
func.func private @problem_c6() attributes {p = #exe.problem<m = 8, n = 8, k = 8, operand_type = f32, result_type = f32, epilogue = relu, residual = true>}

// -----

// expected-error @below {{has both a bias and the activation relu gradient}}
func.func private @problem_c6_gradient() attributes {p = #exe.problem<m = 8, n = 8, k = 8, operand_type = f32, result_type = f32, epilogue = relu_gradient, bias = true>}

// -----

// expected-error @below {{GEMM f32 8x8x8, auxiliary, f32 has an auxiliary output but no activation}}
func.func private @problem_c7() attributes {p = #exe.problem<m = 8, n = 8, k = 8, operand_type = f32, result_type = f32, auxiliary = true>}

// -----

// expected-error @below {{GEMM f32 8x12x8, gelu gradient, f32 has an auxiliary buffer whose rows of 12 elements are not multiples of 8}}
func.func private @problem_c7_lines() attributes {p = #exe.problem<m = 8, n = 12, k = 8, operand_type = f32, result_type = f32, epilogue = gelu_tanh_gradient>}

// -----

// expected-error @below {{has a bias gradient and 2 batches}}
func.func private @problem_c8() attributes {p = #exe.problem<m = 8, n = 8, k = 8, batch = 2, operand_type = f32, result_type = f32, bias_gradient = b>}

// -----

// expected-error @below {{GEMM f32 8x8x8, sum of the result, f32 sums a result without an activation gradient}}
func.func private @problem_c8_result() attributes {p = #exe.problem<m = 8, n = 8, k = 8, operand_type = f32, result_type = f32, bias_gradient = result>}

// -----

// expected-error @below {{sums an operand and has another epilogue}}
func.func private @problem_c8_operand() attributes {p = #exe.problem<m = 8, n = 8, k = 8, operand_type = f32, result_type = f32, bias = true, bias_gradient = a>}

// -----

exe.program @gemm_c1 target("cuda:sm_80") arena(0) {
  exe.argument @x : tensor<8x8xf32> input(0) name("x")
  exe.result @y : tensor<8x8xf32> output(0) name("y")
  // expected-error @below {{'exe.gemm' op has 2 inputs and 1 outputs, its problem has 3 and 1}}
  exe.gemm "fc" <m = 8, n = 8, k = 8, operand_type = f32, result_type = f32, bias = true>
    ops([]) flops(0) bytes(0) (read @x, read @x, write @y)
}

// -----

exe.program @gemm_c1_auxiliary target("cuda:sm_80") arena(64) {
  exe.argument @x : tensor<8x8xf32> input(0) name("x")
  exe.result @y : tensor<8x8xf32> output(0) name("y")
  // expected-error @below {{'exe.gemm' op buffer #exe.arena<0, 64> has 64 bytes, its problem needs 128}}
  exe.gemm "fc" <m = 8, n = 8, k = 8, operand_type = f32, result_type = f32, epilogue = relu, auxiliary = true>
    ops([]) flops(0) bytes(0) (read @x, read @x, write @y, write arena[0 : 64])
}

// -----

exe.program @gemm_c2 target("cuda:sm_80") arena(0) {
  exe.argument @x : tensor<8x8xf32> input(0) name("x")
  exe.result @y : tensor<8x8xf32> output(0) name("y")
  // expected-error @below {{'exe.gemm' op writes @x, which is not a result of the program}}
  exe.gemm "fc" <m = 8, n = 8, k = 8, operand_type = f32, result_type = f32, epilogue = gelu_tanh, auxiliary = true>
    ops([]) flops(0) bytes(0) (read @x, read @x, write @y, write @x)
}

// -----

exe.program @gemm_c3 target("cuda:sm_80") arena(0) {
  exe.argument @x : tensor<16x16xf8E4M3FN> input(0) name("x")
  exe.result @y : tensor<16x16xf32> output(0) name("y")
  // expected-error @below {{'exe.gemm' op multiplies 'f8E4M3FN', which needs sm_89 or later, but the program is for cuda:sm_80}}
  exe.gemm "fc" <m = 16, n = 16, k = 16, operand_type = f8E4M3FN, result_type = f32, transpose_b = true>
    ops([]) flops(0) bytes(0) (read @x, read @x, write @y)
}
