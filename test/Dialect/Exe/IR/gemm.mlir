// Every field of a problem prints and parses.
// RUN: mpc-opt %s --verify-roundtrip | FileCheck %s

// CHECK-LABEL: exe.program @training
exe.program @training target("cuda:sm_80") arena(1024) {
  exe.argument @x : tensor<4x16xbf16> input(0) name("x")
  exe.argument @w : tensor<16x8xbf16> input(1) name("w")
  exe.argument @b : tensor<8xbf16> input(2) name("b")
  exe.argument @v : tensor<8x16xbf16> input(3) name("v")
  exe.result @y : tensor<4x8xbf16> output(0) name("y")
  exe.result @z : tensor<4x8xbf16> output(1) name("z")
  exe.result @dz : tensor<4x8xbf16> output(2) name("dz")
  exe.result @db : tensor<8xbf16> output(3) name("db")
  exe.result @dw : tensor<16x16xbf16> output(4) name("dw")
  exe.result @s : tensor<16xbf16> output(5) name("s")
  // GELU that also stores its input; the gradient at that input and of the bias.
  // CHECK: exe.gemm "gelu" <m = 4, n = 8, k = 16, operand_type = bf16, result_type = bf16, epilogue = gelu_tanh, bias = true, auxiliary = true>
  // CHECK-SAME: (read @x, read @w, read @b, write @y, write @z)
  exe.gemm "gelu" <m = 4, n = 8, k = 16, operand_type = bf16, result_type = bf16, epilogue = gelu_tanh, bias = true,
                   auxiliary = true>
    ops([]) flops(0) bytes(0) (read @x, read @w, read @b, write @y, write @z)
  // CHECK: exe.gemm "back" <m = 4, n = 8, k = 16, operand_type = bf16, result_type = bf16, transpose_b = true,
  // CHECK-SAME: epilogue = gelu_tanh_gradient, bias_gradient = result>
  exe.gemm "back" <m = 4, n = 8, k = 16, operand_type = bf16, result_type = bf16, transpose_b = true,
                   epilogue = gelu_tanh_gradient, bias_gradient = result>
    ops([]) flops(0) bytes(0) (read @x, read @v, read @z, write @dz, write @db)
  // ReLU bit masks are stored in rows whose stride is a multiple of 128 bits.
  // CHECK: exe.gemm "relu" {{.*}}epilogue = relu, auxiliary = true>
  exe.gemm "relu" <m = 4, n = 8, k = 16, operand_type = bf16, result_type = bf16, epilogue = relu, auxiliary = true>
    ops([]) flops(0) bytes(0) (read @x, read @w, write arena[64 : 64], write arena[128 : 64])
  // CHECK: exe.gemm "mask" {{.*}}epilogue = relu_gradient>
  exe.gemm "mask" <m = 4, n = 8, k = 16, operand_type = bf16, result_type = bf16, epilogue = relu_gradient>
    ops([]) flops(0) bytes(0) (read @x, read @w, read arena[128 : 64], write arena[192 : 64])
  // CHECK: exe.gemm "sum" {{.*}}bias_gradient = a>
  exe.gemm "sum" <m = 16, n = 16, k = 4, operand_type = bf16, result_type = bf16, transpose_a = true,
                  bias_gradient = a>
    ops([]) flops(0) bytes(0) (read @x, read @x, write @dw, write @s)
}

// CHECK-LABEL: exe.program @eight_bits
exe.program @eight_bits target("cuda:sm_89") arena(0) {
  exe.argument @x : tensor<16x32xf8E4M3FN> input(0) name("x")
  exe.argument @w : tensor<16x32xf8E5M2> input(1) name("w")
  exe.argument @sx : tensor<f32> input(2) name("sx")
  exe.argument @sw : tensor<f32> input(3) name("sw")
  exe.argument @b : tensor<16xbf16> input(4) name("b")
  exe.argument @sy : tensor<f32> input(5) name("sy")
  exe.result @y : tensor<16x16xf8E4M3FN> output(0) name("y")
  exe.result @most : tensor<f32> output(1) name("most")
  // The bias of a GEMM with an 8-bit result is bf16.
  // CHECK: exe.gemm "fc" <m = 16, n = 16, k = 32, operand_type = f8E4M3FN, operand_b_type = f8E5M2,
  // CHECK-SAME: result_type = f8E4M3FN, transpose_b = true, bias = true, scales = true, result_scale = true, amax = true>
  exe.gemm "fc" <m = 16, n = 16, k = 32, operand_type = f8E4M3FN, operand_b_type = f8E5M2, result_type = f8E4M3FN,
                 transpose_b = true, bias = true, scales = true, result_scale = true, amax = true>
    ops([]) flops(0) bytes(0)
    (read @x, read @w, read @sx, read @sw, read @b, read @sy, write @y, write @most)
}

// CHECK-LABEL: exe.program @compute
exe.program @compute target("cuda:sm_100") arena(0) {
  exe.argument @x : tensor<8x8xf32> input(0) name("x")
  exe.result @y : tensor<8x8xf32> output(0) name("y")
  exe.result @z : tensor<8x8xf32> output(1) name("z")
  // CHECK: exe.gemm "emulated" {{.*}}compute = bf16x9>
  exe.gemm "emulated" <m = 8, n = 8, k = 8, operand_type = f32, result_type = f32, compute = bf16x9>
    ops([]) flops(0) bytes(0) (read @x, read @x, write @y)
  // CHECK: exe.gemm "rounded" {{.*}}compute = tf32>
  exe.gemm "rounded" <m = 8, n = 8, k = 8, operand_type = f32, result_type = f32, compute = tf32>
    ops([]) flops(0) bytes(0) (read @x, read @x, write @z)
}
