func.func @main(%x: tensor<5x0xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"},
                %y: tensor<0x5xf32> {mpc.role = #mpc.role<input>, mpc.name = "y"})
    -> (tensor<5x0xf32> {mpc.role = #mpc.role<output>, mpc.name = "empty_rows"},
        tensor<0x5xf32> {mpc.role = #mpc.role<output>, mpc.name = "no_rows"}) {
  %s = mpc.constant dense<1.25> : tensor<0xf32>
  %t = mpc.constant dense<1.25> : tensor<0x5xf32>
  %0 = mpc.rms_norm %x, %s axis(1) epsilon(1.0e-05) : (tensor<5x0xf32>, tensor<0xf32>) -> tensor<5x0xf32>
  %1 = mpc.rms_norm %y, %t axis(0) epsilon(1.0e-05) : (tensor<0x5xf32>, tensor<0x5xf32>) -> tensor<0x5xf32>
  return %0, %1 : tensor<5x0xf32>, tensor<0x5xf32>
}
