func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = mpc.matmul %x, %x : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = mpc.exp %0 : tensor<64x64xf32>
  %2 = mpc.log %1 : tensor<64x64xf32>
  return %2 : tensor<64x64xf32>
}
