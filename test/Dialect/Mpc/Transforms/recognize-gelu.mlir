// RUN: mpc-opt %s --mpc-recognize-gelu | FileCheck %s
// RUN: mpc-opt %s --mpc-recognize-gelu | mpc-opt --mpc-recognize-gelu | FileCheck %s
// RUN: mpc-opt %s --mpc-recognize-gelu --mlir-print-debuginfo | FileCheck %s --check-prefix=LOC

!vector = tensor<8xf32>
!rows = tensor<4x8xf32>

// torch.onnx's erf form: x * (0.5 * (1 + erf(x / sqrt(2)))).
// CHECK-LABEL: func @erf
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xf32>
// CHECK-NOT: mpc.erf
// CHECK: %[[R:.*]] = mpc.gelu %[[X]] : tensor<4x8xf32>
// CHECK-NEXT: return %[[R]]
// LOC-LABEL: func @erf
// LOC: mpc.gelu {{.*}} loc(#[[GELU:loc[0-9]+]])
func.func @erf(%x: !rows) -> !rows {
  %root = mpc.constant dense<1.41421354> : tensor<f32>
  %one = mpc.constant dense<1.0> : tensor<f32>
  %half = mpc.constant dense<0.5> : tensor<f32>
  %0 = mpc.div %x, %root : (!rows, tensor<f32>) -> !rows
  %1 = mpc.erf %0 : !rows
  %2 = mpc.add %1, %one : (!rows, tensor<f32>) -> !rows
  %3 = mpc.mul %half, %2 : (tensor<f32>, !rows) -> !rows
  %4 = mpc.mul %x, %3 : (!rows, !rows) -> !rows loc("gelu")
  return %4 : !rows
}

// The half on x, the root as a multiplication, the bracket distributed.
// CHECK-LABEL: func @erf_other_order
// CHECK: mpc.gelu
// CHECK-NEXT: return
func.func @erf_other_order(%x: !vector) -> !vector {
  %inverse = mpc.constant dense<0.707106769> : !vector
  %half = mpc.constant dense<0.5> : !vector
  %0 = mpc.mul %x, %inverse : (!vector, !vector) -> !vector
  %1 = mpc.erf %0 : !vector
  %2 = mpc.mul %1, %half : (!vector, !vector) -> !vector
  %3 = mpc.add %half, %2 : (!vector, !vector) -> !vector
  %4 = mpc.mul %3, %x : (!vector, !vector) -> !vector
  return %4 : !vector
}

// torch.onnx's tanh form with a power.
// CHECK-LABEL: func @tanh_power
// CHECK: mpc.gelu %{{.*}} form({{ *}}tanh)
// CHECK-NEXT: return
func.func @tanh_power(%x: !rows) -> !rows {
  %three = mpc.constant dense<3.0> : tensor<f32>
  %c = mpc.constant dense<4.471500e-02> : tensor<f32>
  %k = mpc.constant dense<0.797884583> : tensor<f32>
  %one = mpc.constant dense<1.0> : tensor<f32>
  %half = mpc.constant dense<0.5> : tensor<f32>
  %0 = mpc.pow %x, %three : (!rows, tensor<f32>) -> !rows
  %1 = mpc.mul %c, %0 : (tensor<f32>, !rows) -> !rows
  %2 = mpc.add %x, %1 : (!rows, !rows) -> !rows
  %3 = mpc.mul %k, %2 : (tensor<f32>, !rows) -> !rows
  %4 = mpc.tanh %3 : !rows
  %5 = mpc.add %4, %one : (!rows, tensor<f32>) -> !rows
  %6 = mpc.mul %half, %5 : (tensor<f32>, !rows) -> !rows
  %7 = mpc.mul %x, %6 : (!rows, !rows) -> !rows
  return %7 : !rows
}

// The TorchScript exporter writes the cube as products: x*x*x, half of x first.
// CHECK-LABEL: func @tanh_products
// CHECK: mpc.gelu %{{.*}} form({{ *}}tanh)
// CHECK-NEXT: return
func.func @tanh_products(%x: !rows) -> !rows {
  %c = mpc.constant dense<4.471500e-02> : tensor<f32>
  %k = mpc.constant dense<0.797884583> : tensor<f32>
  %one = mpc.constant dense<1.0> : tensor<f32>
  %half = mpc.constant dense<0.5> : tensor<f32>
  %h = mpc.mul %x, %half : (!rows, tensor<f32>) -> !rows
  %0 = mpc.mul %x, %x : (!rows, !rows) -> !rows
  %1 = mpc.mul %0, %x : (!rows, !rows) -> !rows
  %2 = mpc.mul %1, %c : (!rows, tensor<f32>) -> !rows
  %3 = mpc.add %x, %2 : (!rows, !rows) -> !rows
  %4 = mpc.mul %3, %k : (!rows, tensor<f32>) -> !rows
  %5 = mpc.tanh %4 : !rows
  %6 = mpc.add %5, %one : (!rows, tensor<f32>) -> !rows
  %7 = mpc.mul %h, %6 : (!rows, !rows) -> !rows
  return %7 : !rows
}

// x * (1 + c * x^2) inside the tanh, as JAX's graphs have it.
// CHECK-LABEL: func @tanh_factored
// CHECK: mpc.gelu %{{.*}} form({{ *}}tanh)
// CHECK-NEXT: return
func.func @tanh_factored(%x: !vector) -> !vector {
  %c = mpc.constant dense<4.471500e-02> : tensor<f32>
  %k = mpc.constant dense<0.797884583> : tensor<f32>
  %one = mpc.constant dense<1.0> : tensor<f32>
  %half = mpc.constant dense<0.5> : tensor<f32>
  %0 = mpc.mul %x, %x : (!vector, !vector) -> !vector
  %1 = mpc.mul %0, %c : (!vector, tensor<f32>) -> !vector
  %2 = mpc.add %1, %one : (!vector, tensor<f32>) -> !vector
  %3 = mpc.mul %x, %k : (!vector, tensor<f32>) -> !vector
  %4 = mpc.mul %3, %2 : (!vector, !vector) -> !vector
  %5 = mpc.tanh %4 : !vector
  %6 = mpc.add %5, %one : (!vector, tensor<f32>) -> !vector
  %7 = mpc.mul %x, %half : (!vector, tensor<f32>) -> !vector
  %8 = mpc.mul %7, %6 : (!vector, !vector) -> !vector
  return %8 : !vector
}

// A square that has another reader.
// CHECK-LABEL: func @tanh_shared_square
// CHECK: mpc.gelu %{{.*}} form({{ *}}tanh)
// CHECK-NEXT: return
func.func @tanh_shared_square(%x: !vector) -> (!vector, !vector) {
  %c = mpc.constant dense<4.471500e-02> : tensor<f32>
  %k = mpc.constant dense<0.797884583> : tensor<f32>
  %one = mpc.constant dense<1.0> : tensor<f32>
  %half = mpc.constant dense<0.5> : tensor<f32>
  %0 = mpc.mul %x, %x : (!vector, !vector) -> !vector
  %1 = mpc.mul %0, %x : (!vector, !vector) -> !vector
  %2 = mpc.mul %1, %c : (!vector, tensor<f32>) -> !vector
  %3 = mpc.add %x, %2 : (!vector, !vector) -> !vector
  %4 = mpc.mul %3, %k : (!vector, tensor<f32>) -> !vector
  %5 = mpc.tanh %4 : !vector
  %6 = mpc.add %5, %one : (!vector, tensor<f32>) -> !vector
  %7 = mpc.mul %6, %half : (!vector, tensor<f32>) -> !vector
  %8 = mpc.mul %x, %7 : (!vector, !vector) -> !vector
  return %8, %0 : !vector, !vector
}

// Another root: no gelu.
// CHECK-LABEL: func @keeps_other_constant
// CHECK: mpc.erf
// CHECK-NOT: mpc.gelu
// CHECK: return
func.func @keeps_other_constant(%x: !vector) -> !vector {
  %root = mpc.constant dense<1.4141> : tensor<f32>
  %one = mpc.constant dense<1.0> : tensor<f32>
  %half = mpc.constant dense<0.5> : tensor<f32>
  %0 = mpc.div %x, %root : (!vector, tensor<f32>) -> !vector
  %1 = mpc.erf %0 : !vector
  %2 = mpc.add %1, %one : (!vector, tensor<f32>) -> !vector
  %3 = mpc.mul %2, %half : (!vector, tensor<f32>) -> !vector
  %4 = mpc.mul %x, %3 : (!vector, !vector) -> !vector
  return %4 : !vector
}

// The bracket of another value: no gelu.
// CHECK-LABEL: func @keeps_two_values
// CHECK-NOT: mpc.gelu
// CHECK: return
func.func @keeps_two_values(%x: !vector, %y: !vector) -> !vector {
  %root = mpc.constant dense<1.41421354> : tensor<f32>
  %one = mpc.constant dense<1.0> : tensor<f32>
  %half = mpc.constant dense<0.5> : tensor<f32>
  %0 = mpc.div %y, %root : (!vector, tensor<f32>) -> !vector
  %1 = mpc.erf %0 : !vector
  %2 = mpc.add %1, %one : (!vector, tensor<f32>) -> !vector
  %3 = mpc.mul %2, %half : (!vector, tensor<f32>) -> !vector
  %4 = mpc.mul %x, %3 : (!vector, !vector) -> !vector
  return %4 : !vector
}

// LOC: #[[GELU]] = loc("gelu"
