// RUN: mpc-opt %s --split-input-file --verify-diagnostics

// C1
func.func @types(%a: tensor<2xf32>, %b: tensor<2xf16>) {
  // expected-error @+1 {{has inputs of 'f32' and 'f16'; one message has one type}}
  %0:2 = mpc.all_reduce %a, %b reduction(sum) ranks(2) : (tensor<2xf32>, tensor<2xf16>) -> (tensor<2xf32>, tensor<2xf16>)
  return
}

// -----

// C2
func.func @shape(%a: tensor<2xf32>) {
  // expected-error @+1 {{makes 'tensor<2xf32>' of 'tensor<2xf32>', which gives 'tensor<1xf32>'}}
  %0 = mpc.reduce_scatter %a reduction(sum) ranks(2) : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @gathered(%a: tensor<2xf32>) {
  // expected-error @+1 {{makes 'tensor<4xf32>' of 'tensor<2xf32>', which gives 'tensor<2x2xf32>'}}
  %0 = mpc.all_gather %a ranks(2) : (tensor<2xf32>) -> tensor<4xf32>
  return
}

// -----

// C3
func.func @mean(%a: tensor<2xi32>) {
  // expected-error @+1 {{takes the mean of 'i32', which only floats have}}
  %0 = mpc.all_reduce %a reduction(mean) ranks(2) : (tensor<2xi32>) -> tensor<2xi32>
  return
}

// -----

func.func @narrow(%a: tensor<2xf32>) {
  // expected-error @+1 {{accumulates 'f32' in 'f16', which must be a float type of at least that width}}
  %0 = mpc.all_reduce %a reduction(sum) ranks(2) accumulate(f16) : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @root(%a: tensor<2xf32>) {
  // expected-error @+1 {{takes the values of rank 2 of 2}}
  %0 = mpc.collective_broadcast %a root(2) ranks(2) : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @ranks(%a: tensor<2xf32>) {
  // expected-error @+1 {{attribute 'ranks' failed to satisfy constraint}}
  %0 = mpc.all_reduce %a reduction(sum) ranks(0) : (tensor<2xf32>) -> tensor<2xf32>
  return
}
