// Mixture-of-experts routing: the softmax, the top-k selection and the scaling of each row.
!all = tensor<6x8xf32>
func.func @main(%x: !all {mpc.role = #mpc.role<input>, mpc.name = "x"})
  -> (!all {mpc.role = #mpc.role<output>, mpc.name = "two"}, !all {mpc.role = #mpc.role<output>, mpc.name = "one"},
      !all {mpc.role = #mpc.role<output>, mpc.name = "four"}) {
  %zeros = mpc.constant dense<0.0> : !all
  %p = mpc.softmax %x axis(1) : !all
  %v2, %i2 = mpc.top_k %p k(2) axis(1) : !all -> tensor<6x2xf32>, tensor<6x2xi64>
  %sum = mpc.reduce_sum %v2 axes([1]) keep_dims : tensor<6x2xf32> -> tensor<6x1xf32>
  %scaled = mpc.div %v2, %sum : (tensor<6x2xf32>, tensor<6x1xf32>) -> tensor<6x2xf32>
  %two = mpc.scatter_elements %zeros, %i2, %scaled axis(1) : (!all, tensor<6x2xi64>, tensor<6x2xf32>) -> !all
  %v1, %i1 = mpc.top_k %p k(1) axis(1) : !all -> tensor<6x1xf32>, tensor<6x1xi64>
  %one = mpc.scatter_elements %zeros, %i1, %v1 axis(1) : (!all, tensor<6x1xi64>, tensor<6x1xf32>) -> !all
  %s = mpc.sigmoid %x : !all
  %v4, %i4 = mpc.top_k %s k(4) axis(1) : !all -> tensor<6x4xf32>, tensor<6x4xi64>
  %four = mpc.scatter_elements %x, %i4, %v4 axis(1) : (!all, tensor<6x4xi64>, tensor<6x4xf32>) -> !all
  return %two, %one, %four : !all, !all, !all
}
