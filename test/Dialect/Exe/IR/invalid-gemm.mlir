// The constraints of problems, and of the op that computes one.
// RUN: mpc-opt %s --verify-diagnostics --split-input-file

// expected-error @below {{a GEMM needs positive extents, found m 0, n 8, k 8, batch 1}}
func.func private @problem_c1() attributes {p = #exe.problem<m = 0, n = 8, k = 8, operand_type = f32, result_type = f32>}

// -----

// expected-error @below {{a GEMM needs sizes that fit in memory, found m 4294967296, n 4294967296, k 8, batch 1}}
func.func private @problem_c1_size() attributes {p = #exe.problem<m = 4294967296, n = 4294967296, k = 8, operand_type = f32, result_type = f32>}

// -----

// expected-error @below {{a GEMM needs float operands and results, found 'i8', 'i8' and 'f32'}}
func.func private @problem_c1_type() attributes {p = #exe.problem<m = 8, n = 8, k = 8, operand_type = i8, result_type = f32>}

// -----

// expected-error @below {{a GEMM needs operands of the same type or two 8-bit types, found 'f8E4M3FN' and 'bf16'}}
func.func private @problem_c2() attributes {p = #exe.problem<m = 16, n = 16, k = 16, operand_type = f8E4M3FN, operand_b_type = bf16, result_type = f32, transpose_b = true>}

// -----

// expected-error @below {{a GEMM has at most one operand of type 'f8E5M2'}}
func.func private @problem_c2_e5m2() attributes {p = #exe.problem<m = 16, n = 16, k = 16, operand_type = f8E5M2, result_type = f32, transpose_b = true>}

// -----

// expected-error @below {{8-bit operands need the layouts [m, k] and [n, k]: transpose_b = true and no transpose_a}}
func.func private @problem_c3() attributes {p = #exe.problem<m = 16, n = 16, k = 16, operand_type = f8E4M3FN, result_type = f32>}

// -----

// expected-error @below {{8-bit operands need extents that are multiples of 16, found m 16, n 24, k 16}}
func.func private @problem_c3_extents() attributes {p = #exe.problem<m = 16, n = 24, k = 16, operand_type = f8E4M3FN, result_type = f32, transpose_b = true>}

// -----

// expected-error @below {{8-bit operands cannot have a gradient epilogue, an auxiliary buffer or a bias gradient}}
func.func private @problem_c3_gradient() attributes {p = #exe.problem<m = 16, n = 16, k = 16, operand_type = f8E4M3FN, result_type = f32, transpose_b = true, epilogue = relu_gradient>}

// -----

// expected-error @below {{a GEMM of 'bf16' and 'bf16' cannot have a result of type 'f8E4M3FN'}}
func.func private @problem_c4() attributes {p = #exe.problem<m = 16, n = 16, k = 16, operand_type = bf16, result_type = f8E4M3FN, transpose_b = true>}

// -----

// expected-error @below {{a GEMM of 'f8E4M3FN' and 'f8E4M3FN' cannot have a result of type 'f8E5M2'}}
func.func private @problem_c4_e5m2() attributes {p = #exe.problem<m = 16, n = 16, k = 16, operand_type = f8E4M3FN, result_type = f8E5M2, transpose_b = true>}

// -----

// expected-error @below {{an 8-bit result cannot have a residual}}
func.func private @problem_c4_residual() attributes {p = #exe.problem<m = 16, n = 16, k = 16, operand_type = f8E4M3FN, result_type = f8E4M3FN, transpose_b = true, residual = true>}

// -----

// expected-error @below {{scales need 8-bit operands, found 'bf16'}}
func.func private @problem_c4_scales() attributes {p = #exe.problem<m = 16, n = 16, k = 16, operand_type = bf16, result_type = f32, scales = true>}

// -----

// expected-error @below {{a result scale or amax needs an 8-bit result, found 'f32'}}
func.func private @problem_c4_amax() attributes {p = #exe.problem<m = 16, n = 16, k = 16, operand_type = f8E4M3FN, result_type = f32, transpose_b = true, amax = true>}

// -----

// expected-error @below {{bf16x9 needs f32 operands, found 'bf16'}}
func.func private @problem_c5() attributes {p = #exe.problem<m = 8, n = 8, k = 8, operand_type = bf16, result_type = f32, compute = bf16x9>}

// -----

// expected-error @below {{a GEMM cannot have both a residual and an activation, found a residual with relu}}
func.func private @problem_c6() attributes {p = #exe.problem<m = 8, n = 8, k = 8, operand_type = f32, result_type = f32, epilogue = relu, residual = true>}

// -----

// expected-error @below {{a GEMM cannot have both a bias and an activation gradient, found a bias with relu_gradient}}
func.func private @problem_c6_gradient() attributes {p = #exe.problem<m = 8, n = 8, k = 8, operand_type = f32, result_type = f32, epilogue = relu_gradient, bias = true>}

// -----

// expected-error @below {{an auxiliary buffer needs an activation, found none}}
func.func private @problem_c7() attributes {p = #exe.problem<m = 8, n = 8, k = 8, operand_type = f32, result_type = f32, auxiliary = true>}

// -----

// expected-error @below {{the auxiliary buffer of gelu needs rows of a multiple of 8 elements, found n 12}}
func.func private @problem_c7_lines() attributes {p = #exe.problem<m = 8, n = 12, k = 8, operand_type = f32, result_type = f32, epilogue = gelu_tanh_gradient>}

// -----

// expected-error @below {{a bias gradient needs a batch of 1, found 2}}
func.func private @problem_c8() attributes {p = #exe.problem<m = 8, n = 8, k = 8, batch = 2, operand_type = f32, result_type = f32, bias_gradient = b>}

// -----

// expected-error @below {{a bias gradient sums the result with an activation gradient, else an operand, found result with none}}
func.func private @problem_c8_result() attributes {p = #exe.problem<m = 8, n = 8, k = 8, operand_type = f32, result_type = f32, bias_gradient = result>}

// -----

// expected-error @below {{the bias gradient of an operand excludes any other epilogue}}
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
