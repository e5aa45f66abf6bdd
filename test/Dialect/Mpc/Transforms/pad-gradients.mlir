// Statistics and random numbers depend on element counts: gradients of norms, of batch norms and
// dropout use unpadded widths between padded matmuls.
// RUN: mpc-opt %s --mpc-set-target=target=cuda:sm_80 --mpc-pad-contractions --mpc-verify-stage=stage=pad --split-input-file | FileCheck %s

// CHECK-LABEL: @norm_gradient_has_its_width(
// CHECK: %[[M:.*]] = mpc.matmul {{.*}}mpc.padding{{.*}} -> tensor<16x104xf32>
// CHECK: %[[S:.*]] = mpc.slice %[[M]] [0, 0] [16, 100]
// CHECK: mpc.norm_gradient %{{.*}}, %{{.*}}, %[[S]] axis(1) {{.*}} -> (tensor<16x100xf32>, tensor<100xf32>)
// CHECK: mpc.pad {{.*}} -> tensor<16x104xbf16>
// CHECK: mpc.matmul {{.*}} -> tensor<16x104xf32>
func.func private @norm_gradient_has_its_width(%x: tensor<16x100xf32>, %g: tensor<16x104xbf16>)
    -> (tensor<16x100xf32>, tensor<100xf32>) {
  %u = mpc.constant dense<0.5> : tensor<104x100xbf16>
  %w = mpc.constant dense<0.5> : tensor<100x100xbf16>
  %one = mpc.constant dense<1.0> : tensor<100xf32>
  %0 = mpc.matmul %g, %u : (tensor<16x104xbf16>, tensor<104x100xbf16>) -> tensor<16x100xf32>
  %1:2 = mpc.norm_gradient %x, %one, %0 axis(1) epsilon(1.0e-05) : (tensor<16x100xf32>, tensor<100xf32>, tensor<16x100xf32>) -> (tensor<16x100xf32>, tensor<100xf32>)
  %2 = mpc.cast %1#0 : tensor<16x100xf32> to tensor<16x100xbf16>
  %3 = mpc.matmul %2, %w : (tensor<16x100xbf16>, tensor<100x100xbf16>) -> tensor<16x100xf32>
  return %3, %1#1 : tensor<16x100xf32>, tensor<100xf32>
}

// -----

// The rows that it sums over are not padded either.
// CHECK-LABEL: @batch_norm_gradient_has_its_rows(
// CHECK: %[[M:.*]] = mpc.matmul {{.*}}mpc.padding{{.*}} -> tensor<104x104xf32>
// CHECK: %[[S:.*]] = mpc.slice %[[M]] [0, 0] [100, 100]
// CHECK: mpc.batch_norm_gradient %{{.*}}, %{{.*}}, %[[S]] {{.*}} -> (tensor<100x100xf32>, tensor<100xf32>, tensor<100xf32>)
func.func private @batch_norm_gradient_has_its_rows(%x: tensor<100x100xf32>, %g: tensor<100x104xbf16>)
    -> (tensor<100x100xf32>, tensor<100xf32>, tensor<100xf32>) {
  %u = mpc.constant dense<0.5> : tensor<104x100xbf16>
  %w = mpc.constant dense<0.5> : tensor<100x100xbf16>
  %one = mpc.constant dense<1.0> : tensor<100xf32>
  %0 = mpc.matmul %g, %u : (tensor<100x104xbf16>, tensor<104x100xbf16>) -> tensor<100x100xf32>
  %1:3 = mpc.batch_norm_gradient %x, %one, %0 epsilon(1.0e-05) : (tensor<100x100xf32>, tensor<100xf32>, tensor<100x100xf32>) -> (tensor<100x100xf32>, tensor<100xf32>, tensor<100xf32>)
  %2 = mpc.cast %1#0 : tensor<100x100xf32> to tensor<100x100xbf16>
  %3 = mpc.matmul %2, %w : (tensor<100x100xbf16>, tensor<100x100xbf16>) -> tensor<100x100xf32>
  return %3, %1#1, %1#2 : tensor<100x100xf32>, tensor<100xf32>, tensor<100xf32>
}

// -----

// An element's random number depends on its index in the unpadded shape.
// CHECK-LABEL: @dropout_has_its_width(
// CHECK: mpc.matmul {{.*}}mpc.padding{{.*}} -> tensor<16x104xf32>
// CHECK: %[[S:.*]] = mpc.slice %{{.*}} [0, 0] [16, 100]
// CHECK: mpc.dropout %[[S]], {{.*}} -> tensor<16x100xbf16>
// CHECK: mpc.pad {{.*}} -> tensor<16x104xbf16>
// CHECK: mpc.matmul {{.*}} -> tensor<16x104xf32>
func.func private @dropout_has_its_width(%x: tensor<16x104xbf16>, %state: tensor<2xi64>) -> tensor<16x100xf32> {
  %u = mpc.constant dense<0.5> : tensor<104x100xbf16>
  %w = mpc.constant dense<0.5> : tensor<100x100xbf16>
  %0 = mpc.matmul %x, %u : (tensor<16x104xbf16>, tensor<104x100xbf16>) -> tensor<16x100xf32>
  %1 = mpc.cast %0 : tensor<16x100xf32> to tensor<16x100xbf16>
  %2 = mpc.dropout %1, %state probability(0.25) stream(3) : (tensor<16x100xbf16>, tensor<2xi64>) -> tensor<16x100xbf16>
  %3 = mpc.matmul %2, %w : (tensor<16x100xbf16>, tensor<100x100xbf16>) -> tensor<16x100xf32>
  return %3 : tensor<16x100xf32>
}
