// A norm of long rows, a transpose through a static array, a split-K GEMM that reduces through
// scratch memory, and a sum over rows of few columns.
func.func @main(%x: tensor<48x4096xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"},
                %w: tensor<4096x24xf32> {mpc.role = #mpc.role<input>, mpc.name = "w"},
                %v: tensor<9x1000xf32> {mpc.role = #mpc.role<input>, mpc.name = "v"})
    -> (tensor<48x4096xf32> {mpc.role = #mpc.role<output>, mpc.name = "norm"},
        tensor<4096x48xf32> {mpc.role = #mpc.role<output>, mpc.name = "turned"},
        tensor<48x24xf32> {mpc.role = #mpc.role<output>, mpc.name = "product"},
        tensor<1000xf32> {mpc.role = #mpc.role<output>, mpc.name = "sums"}) {
  %0 = mpc.softmax %x axis(1) : tensor<48x4096xf32> loc("norm")
  %1 = mpc.transpose %x [1, 0] : tensor<48x4096xf32> to tensor<4096x48xf32> loc("turned")
  %2 = mpc.matmul %x, %w : (tensor<48x4096xf32>, tensor<4096x24xf32>) -> tensor<48x24xf32> loc("product")
  %3 = mpc.reduce_sum %v axes([0]) : tensor<9x1000xf32> -> tensor<1000xf32> loc("sums")
  return %0, %1, %2, %3 : tensor<48x4096xf32>, tensor<4096x48xf32>, tensor<48x24xf32>, tensor<1000xf32>
}
