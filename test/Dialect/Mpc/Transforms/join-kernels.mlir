// RUN: mpc-opt %s --split-input-file --mpc-join-kernels=target=cuda:sm_80 | FileCheck %s --check-prefixes=CHECK,CUDA
// RUN: mpc-opt %s --split-input-file --mpc-join-kernels=target=cpu:avx512 | FileCheck %s --check-prefixes=CHECK,CPU
// RUN: mpc-opt %s --split-input-file --mpc-join-kernels=target=cuda:sm_80 > %t.once
// RUN: mpc-opt %s --split-input-file --mpc-join-kernels=target=cuda:sm_80 --mpc-join-kernels=target=cuda:sm_80 | diff %t.once -

// Softmaxes of the same rows read them once, where siblings run as one.
// CHECK-LABEL: func.func @rows
func.func @rows(%x: tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>) {
  // CUDA: mpc.softmax {{.*}} {mpc.anchor = #mpc<fusion_kind row>, mpc.group = [[G:[0-9]+]] : i64}
  // CUDA-NEXT: mpc.log_softmax {{.*}} {mpc.group = [[G]] : i64}
  // CPU: mpc.softmax {{.*}} {mpc.anchor = #mpc<fusion_kind row>, mpc.group = 0 : i64}
  // CPU-NEXT: mpc.log_softmax {{.*}} {mpc.anchor = #mpc<fusion_kind row>, mpc.group = 1 : i64}
  %0 = mpc.softmax %x axis(1) {mpc.anchor = #mpc<fusion_kind row>, mpc.group = 0 : i64} : tensor<8x16xf32>
  %1 = mpc.log_softmax %x axis(1) {mpc.anchor = #mpc<fusion_kind row>, mpc.group = 1 : i64} : tensor<8x16xf32>
  return %0, %1 : tensor<8x16xf32>, tensor<8x16xf32>
}

// -----

// A widening cast goes to its reader on every target: 16 bits lie between.
// CHECK-LABEL: func.func @widening
func.func @widening(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
  // CHECK: mpc.exp %{{.*}} {mpc.group = [[A:[0-9]+]] : i64}
  // CHECK-NEXT: mpc.cast %{{.*}} {mpc.group = [[A]] : i64} : tensor<8x16xf32> to tensor<8x16xbf16>
  // CHECK-NEXT: mpc.cast %{{.*}} {mpc.group = [[B:[0-9]+]] : i64} : tensor<8x16xbf16> to tensor<8x16xf32>
  // CHECK-NEXT: mpc.softmax %{{.*}} {mpc.anchor = #mpc<fusion_kind row>, mpc.group = [[B]] : i64}
  %0 = mpc.exp %x {mpc.group = 0 : i64} : tensor<8x16xf32>
  %1 = mpc.cast %0 {mpc.group = 0 : i64} : tensor<8x16xf32> to tensor<8x16xbf16>
  %2 = mpc.cast %1 {mpc.group = 0 : i64} : tensor<8x16xbf16> to tensor<8x16xf32>
  %3 = mpc.softmax %2 axis(1) {mpc.anchor = #mpc<fusion_kind row>, mpc.group = 1 : i64} : tensor<8x16xf32>
  return %3 : tensor<8x16xf32>
}
