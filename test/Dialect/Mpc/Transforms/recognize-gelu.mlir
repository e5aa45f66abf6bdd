// RUN: mpc-opt %s --mpc-recognize-gelu | FileCheck %s
// RUN: mpc-opt %s --mpc-recognize-gelu | mpc-opt --mpc-recognize-gelu | FileCheck %s
// RUN: mpc-opt %s --mpc-recognize-gelu --mlir-print-debuginfo | FileCheck %s --check-prefix=LOC

// torch.onnx's erf form: x * (0.5 * (1 + erf(x / sqrt(2)))).
// CHECK-LABEL: func @erf
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xf32>
// CHECK-NOT: mpc.erf
// CHECK: %[[R:.*]] = mpc.gelu %[[X]] : tensor<4x8xf32>
// CHECK-NEXT: return %[[R]]
// LOC-LABEL: func @erf
// LOC: mpc.gelu {{.*}} loc(#[[GELU:loc[0-9]+]])
func.func @erf(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %root = mpc.constant dense<1.41421354> : tensor<f32>
  %one = mpc.constant dense<1.0> : tensor<f32>
  %half = mpc.constant dense<0.5> : tensor<f32>
  %0 = mpc.div %x, %root : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %1 = mpc.erf %0 : tensor<4x8xf32>
  %2 = mpc.add %1, %one : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %3 = mpc.mul %half, %2 : (tensor<f32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %4 = mpc.mul %x, %3 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("gelu")
  return %4 : tensor<4x8xf32>
}

// The half on x, the root as product, the bracket distributed.
// CHECK-LABEL: func @erf_other_order
// CHECK: mpc.gelu
// CHECK-NEXT: return
func.func @erf_other_order(%x: tensor<8xf32>) -> tensor<8xf32> {
  %inverse = mpc.constant dense<0.707106769> : tensor<8xf32>
  %half = mpc.constant dense<0.5> : tensor<8xf32>
  %0 = mpc.mul %x, %inverse : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %1 = mpc.erf %0 : tensor<8xf32>
  %2 = mpc.mul %1, %half : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %3 = mpc.add %half, %2 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %4 = mpc.mul %3, %x : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %4 : tensor<8xf32>
}

// torch.onnx's tanh form with a power.
// CHECK-LABEL: func @tanh_power
// CHECK: mpc.gelu %{{.*}} form({{ *}}tanh)
// CHECK-NEXT: return
func.func @tanh_power(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %three = mpc.constant dense<3.0> : tensor<f32>
  %c = mpc.constant dense<4.471500e-02> : tensor<f32>
  %k = mpc.constant dense<0.797884583> : tensor<f32>
  %one = mpc.constant dense<1.0> : tensor<f32>
  %half = mpc.constant dense<0.5> : tensor<f32>
  %0 = mpc.pow %x, %three : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %1 = mpc.mul %c, %0 : (tensor<f32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = mpc.add %x, %1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = mpc.mul %k, %2 : (tensor<f32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %4 = mpc.tanh %3 : tensor<4x8xf32>
  %5 = mpc.add %4, %one : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %6 = mpc.mul %half, %5 : (tensor<f32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %7 = mpc.mul %x, %6 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %7 : tensor<4x8xf32>
}

// The TorchScript exporter spells the cube as products: x*x*x, half of x first.
// CHECK-LABEL: func @tanh_products
// CHECK: mpc.gelu %{{.*}} form({{ *}}tanh)
// CHECK-NEXT: return
func.func @tanh_products(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %c = mpc.constant dense<4.471500e-02> : tensor<f32>
  %k = mpc.constant dense<0.797884583> : tensor<f32>
  %one = mpc.constant dense<1.0> : tensor<f32>
  %half = mpc.constant dense<0.5> : tensor<f32>
  %h = mpc.mul %x, %half : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %0 = mpc.mul %x, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = mpc.mul %0, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = mpc.mul %1, %c : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %3 = mpc.add %x, %2 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %4 = mpc.mul %3, %k : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %5 = mpc.tanh %4 : tensor<4x8xf32>
  %6 = mpc.add %5, %one : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %7 = mpc.mul %h, %6 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %7 : tensor<4x8xf32>
}

// x * (1 + c * x^2) inside the tanh, as JAX's graphs have it.
// CHECK-LABEL: func @tanh_factored
// CHECK: mpc.gelu %{{.*}} form({{ *}}tanh)
// CHECK-NEXT: return
func.func @tanh_factored(%x: tensor<8xf32>) -> tensor<8xf32> {
  %c = mpc.constant dense<4.471500e-02> : tensor<f32>
  %k = mpc.constant dense<0.797884583> : tensor<f32>
  %one = mpc.constant dense<1.0> : tensor<f32>
  %half = mpc.constant dense<0.5> : tensor<f32>
  %0 = mpc.mul %x, %x : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %1 = mpc.mul %0, %c : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %2 = mpc.add %1, %one : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %3 = mpc.mul %x, %k : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %4 = mpc.mul %3, %2 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %5 = mpc.tanh %4 : tensor<8xf32>
  %6 = mpc.add %5, %one : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %7 = mpc.mul %x, %half : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %8 = mpc.mul %7, %6 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %8 : tensor<8xf32>
}

// A square that something else reads as well.
// CHECK-LABEL: func @tanh_shared_square
// CHECK: mpc.gelu %{{.*}} form({{ *}}tanh)
// CHECK-NEXT: return
func.func @tanh_shared_square(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %c = mpc.constant dense<4.471500e-02> : tensor<f32>
  %k = mpc.constant dense<0.797884583> : tensor<f32>
  %one = mpc.constant dense<1.0> : tensor<f32>
  %half = mpc.constant dense<0.5> : tensor<f32>
  %0 = mpc.mul %x, %x : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %1 = mpc.mul %0, %x : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %2 = mpc.mul %1, %c : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %3 = mpc.add %x, %2 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %4 = mpc.mul %3, %k : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %5 = mpc.tanh %4 : tensor<8xf32>
  %6 = mpc.add %5, %one : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %7 = mpc.mul %6, %half : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %8 = mpc.mul %x, %7 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %8, %0 : tensor<8xf32>, tensor<8xf32>
}

// Another root: no gelu.
// CHECK-LABEL: func @keeps_other_constant
// CHECK: mpc.erf
// CHECK-NOT: mpc.gelu
// CHECK: return
func.func @keeps_other_constant(%x: tensor<8xf32>) -> tensor<8xf32> {
  %root = mpc.constant dense<1.4141> : tensor<f32>
  %one = mpc.constant dense<1.0> : tensor<f32>
  %half = mpc.constant dense<0.5> : tensor<f32>
  %0 = mpc.div %x, %root : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %1 = mpc.erf %0 : tensor<8xf32>
  %2 = mpc.add %1, %one : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %3 = mpc.mul %2, %half : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %4 = mpc.mul %x, %3 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %4 : tensor<8xf32>
}

// The bracket of another value: no gelu.
// CHECK-LABEL: func @keeps_two_values
// CHECK-NOT: mpc.gelu
// CHECK: return
func.func @keeps_two_values(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
  %root = mpc.constant dense<1.41421354> : tensor<f32>
  %one = mpc.constant dense<1.0> : tensor<f32>
  %half = mpc.constant dense<0.5> : tensor<f32>
  %0 = mpc.div %y, %root : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %1 = mpc.erf %0 : tensor<8xf32>
  %2 = mpc.add %1, %one : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %3 = mpc.mul %2, %half : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %4 = mpc.mul %x, %3 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %4 : tensor<8xf32>
}

// LOC: #[[GELU]] = loc("gelu"
