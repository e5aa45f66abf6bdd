// A squeeze of one block before an excite of several, and rows that read a small recomputed matmul.
func.func @main(%x: tensor<3x144xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"},
                %w: tensor<144x6xf32> {mpc.role = #mpc.role<input>, mpc.name = "w"},
                %v: tensor<6x300xf32> {mpc.role = #mpc.role<input>, mpc.name = "v"},
                %u: tensor<300x10xf32> {mpc.role = #mpc.role<input>, mpc.name = "u"})
    -> (tensor<3x10xf32> {mpc.role = #mpc.role<output>, mpc.name = "shares"}) {
  %0 = mpc.matmul %x, %w : (tensor<3x144xf32>, tensor<144x6xf32>) -> tensor<3x6xf32> loc("squeeze")
  %1 = mpc.silu %0 : tensor<3x6xf32>
  %2 = mpc.matmul %1, %v : (tensor<3x6xf32>, tensor<6x300xf32>) -> tensor<3x300xf32> loc("excite")
  %3 = mpc.sigmoid %2 : tensor<3x300xf32>
  %4 = mpc.matmul %3, %u : (tensor<3x300xf32>, tensor<300x10xf32>) -> tensor<3x10xf32> loc("head")
  %5 = mpc.softmax %4 axis(1) : tensor<3x10xf32> loc("shares")
  return %5 : tensor<3x10xf32>
}
