// RUN: mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-differentiate{gradients=a=ga,b=gb,c=gc,d=gd,e=ge cotangent=dy output=y}))' | FileCheck %s

// A user-written backward pass: for any use of its cotangent, the gradients are
// proportional to the seed, which a loss scale multiplies.
// CHECK-LABEL: @main(
// CHECK: %[[SEED:.+]] = mpc.gradient_seed : tensor<f32>
// CHECK: %[[EACH:.+]] = mpc.mul %[[SEED]]
// CHECK: %[[DY:.+]] = mpc.mul %{{.+}}, %[[EACH]]
// A linear pass, with masks and comparisons with zero in it, stays unchanged.
// CHECK: %[[GA:.+]] = mpc.mul %[[DY]], %arg0
// CHECK: %[[ON:.+]] = mpc.compare gt %[[DY]], %{{[a-z0-9_]+}} :
// CHECK: %[[HALF:.+]] = mpc.select %[[ON]], %[[DY]], %{{.+}}
// CHECK: mpc.add %[[GA]], %[[HALF]]
// Clip limits apply to unscaled values.
// CHECK: %[[LOW:.+]] = mpc.mul %{{.+}}, %[[SEED]] : (tensor<f32>, tensor<f32>) -> tensor<f32>
// CHECK: %[[HIGH:.+]] = mpc.mul %{{.+}}, %[[SEED]] : (tensor<f32>, tensor<f32>) -> tensor<f32>
// CHECK: %[[GB:.+]] = mpc.clamp %[[DY]], %[[LOW]], %[[HIGH]]
// One factor of a square is unscaled, so that the seed's square cannot overflow;
// the readers of a norm are unscaled.
// CHECK: %[[INVERSE:.+]] = mpc.reciprocal %[[SEED]]
// CHECK: %[[ONCE:.+]] = mpc.mul %[[DY]], %[[INVERSE]]
// CHECK: %[[SQUARE:.+]] = mpc.mul %[[DY]], %[[ONCE]]
// CHECK: %[[SUM:.+]] = mpc.reduce_sum %[[SQUARE]]
// CHECK: %[[AGAIN:.+]] = mpc.reciprocal %[[SEED]]
// CHECK: %[[UNSCALED:.+]] = mpc.mul %[[SUM]], %[[AGAIN]]
// CHECK: %[[NORM:.+]] = mpc.sqrt %[[UNSCALED]]
// CHECK: %[[GC:.+]] = mpc.div %[[DY]], %[[NORM]]
// CHECK: %[[SIGN:.+]] = mpc.sign %[[DY]]
// CHECK: %[[PLAIN:.+]] = mpc.mul %[[DY]], %{{.+}}
// CHECK: mpc.tanh %[[PLAIN]]
// CHECK: mpc.mul %[[SIGN]], %[[SEED]]
func.func @main(
    %x: tensor<4xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"},
    %a: tensor<4xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "a"},
    %b: tensor<4xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "b"},
    %c: tensor<4xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "c"},
    %d: tensor<4xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "d"},
    %e: tensor<4xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "e"},
    %dy: tensor<4xf32> {mpc.role = #mpc.role<input>, mpc.name = "dy"},
    %label: tensor<4xf32> {mpc.role = #mpc.role<label>, mpc.name = "label"})
    -> (tensor<f32> {mpc.role = #mpc.role<loss>, mpc.name = "loss"},
        tensor<4xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"},
        tensor<4xf32> {mpc.role = #mpc.role<output>, mpc.name = "ga"},
        tensor<4xf32> {mpc.role = #mpc.role<output>, mpc.name = "gb"},
        tensor<4xf32> {mpc.role = #mpc.role<output>, mpc.name = "gc"},
        tensor<4xf32> {mpc.role = #mpc.role<output>, mpc.name = "gd"},
        tensor<4xf32> {mpc.role = #mpc.role<output>, mpc.name = "ge"}) {
  %zero = mpc.constant dense<0.0> : tensor<f32>
  %low = mpc.constant dense<-0.01> : tensor<f32>
  %high = mpc.constant dense<0.01> : tensor<f32>
  %y = mpc.mul %x, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %loss = mpc.mean_squared_error %y, %label : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
  %0 = mpc.mul %dy, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = mpc.compare gt %dy, %zero : (tensor<4xf32>, tensor<f32>) -> tensor<4xi1>
  %2 = mpc.select %1, %dy, %zero : (tensor<4xi1>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %ga = mpc.add %0, %2 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %gb = mpc.clamp %dy, %low, %high : (tensor<4xf32>, tensor<f32>, tensor<f32>) -> tensor<4xf32>
  %3 = mpc.mul %dy, %dy : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %4 = mpc.reduce_sum %3 axes([0]) : tensor<4xf32> -> tensor<f32>
  %5 = mpc.sqrt %4 : tensor<f32>
  %gc = mpc.div %dy, %5 : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %gd = mpc.sign %dy : tensor<4xf32>
  %ge = mpc.tanh %dy : tensor<4xf32>
  return %loss, %y, %ga, %gb, %gc, %gd, %ge : tensor<f32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
