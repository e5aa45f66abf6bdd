// RUN: mpc-opt %s --mpc-relax-rounding | FileCheck %s
// RUN: mpc-opt %s --mpc-relax-rounding --mpc-relax-rounding | FileCheck %s
// RUN: echo "module {}" | mpc-opt --mpc-pipeline-fuse="relaxed=true" --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=RELAXED
// RUN: echo "module {}" | mpc-opt --mpc-pipeline-fuse --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=STRICT

// RELAXED: mpc-outline-fusions
// RELAXED-NEXT: mpc-relax-rounding
// STRICT: mpc-outline-fusions
// STRICT-NOT: mpc-relax-rounding

// The reader inside the kernel reads the unrounded sum.
// CHECK-LABEL: func @pair
// CHECK: %[[SUM:.*]] = mpc.add
// CHECK-NOT: mpc.cast
// CHECK: mpc.exp %[[SUM]]
// CHECK: return
func.func @pair(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = mpc.fusion kind(elementwise) name("pair") (%a = %x : tensor<8xf32>) -> tensor<8xf32> {
    %1 = mpc.add %a, %a : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %2 = mpc.cast %1 : tensor<8xf32> to tensor<8xbf16>
    %3 = mpc.cast %2 : tensor<8xbf16> to tensor<8xf32>
    %4 = mpc.exp %3 : tensor<8xf32>
    mpc.yield %4 : tensor<8xf32>
  }
  return %0 : tensor<8xf32>
}

// A value for another kernel is rounded as declared; the norm in the same kernel may
// skip that rounding.
// CHECK-LABEL: func @stored_and_read
// CHECK: %[[SUM:.*]] = mpc.add
// CHECK-NEXT: %[[STORED:.*]] = mpc.cast %[[SUM]] : tensor<8xf32> to tensor<8xf16>
// CHECK-NEXT: %[[E:.*]] = mpc.exp %[[SUM]]
// CHECK-NEXT: mpc.yield %[[STORED]], %[[E]]
func.func @stored_and_read(%x: tensor<8xf32>) -> (tensor<8xf16>, tensor<8xf32>) {
  %0:2 = mpc.fusion kind(elementwise) name("stored") (%a = %x : tensor<8xf32>) -> (tensor<8xf16>, tensor<8xf32>) {
    %1 = mpc.add %a, %a : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %2 = mpc.cast %1 : tensor<8xf32> to tensor<8xf16>
    %3 = mpc.cast %2 : tensor<8xf16> to tensor<8xf32>
    %4 = mpc.exp %3 : tensor<8xf32>
    mpc.yield %2, %4 : tensor<8xf16>, tensor<8xf32>
  }
  return %0#0, %0#1 : tensor<8xf16>, tensor<8xf32>
}

// A chain of pairs is removed as a whole.
// CHECK-LABEL: func @chain
// CHECK: %[[SUM:.*]] = mpc.add
// CHECK-NEXT: mpc.exp %[[SUM]]
func.func @chain(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = mpc.fusion kind(elementwise) name("chain") (%a = %x : tensor<8xf32>) -> tensor<8xf32> {
    %1 = mpc.add %a, %a : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %2 = mpc.cast %1 : tensor<8xf32> to tensor<8xf16>
    %3 = mpc.cast %2 : tensor<8xf16> to tensor<8xf32>
    %4 = mpc.cast %3 : tensor<8xf32> to tensor<8xbf16>
    %5 = mpc.cast %4 : tensor<8xbf16> to tensor<8xf32>
    %6 = mpc.exp %5 : tensor<8xf32>
    mpc.yield %6 : tensor<8xf32>
  }
  return %0 : tensor<8xf32>
}

// The model requests this rounding.
// CHECK-LABEL: func @pinned
// CHECK: mpc.cast {{.*}} to tensor<8xbf16>
// CHECK-NEXT: mpc.cast {{.*}} to tensor<8xf32>
func.func @pinned(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = mpc.fusion kind(elementwise) name("pinned") (%a = %x : tensor<8xf32>) -> tensor<8xf32> {
    %1 = mpc.add %a, %a : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %2 = mpc.cast %1 pinned : tensor<8xf32> to tensor<8xbf16>
    %3 = mpc.cast %2 : tensor<8xbf16> to tensor<8xf32>
    %4 = mpc.exp %3 : tensor<8xf32>
    mpc.yield %4 : tensor<8xf32>
  }
  return %0 : tensor<8xf32>
}

// The value is stored between two kernels, in the type that it declares.
// CHECK-LABEL: func @across_kernels
// CHECK: mpc.cast {{.*}} to tensor<8xbf16>
// CHECK: mpc.cast {{.*}} to tensor<8xf32>
func.func @across_kernels(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = mpc.fusion kind(elementwise) name("first") (%a = %x : tensor<8xf32>) -> tensor<8xbf16> {
    %1 = mpc.add %a, %a : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %2 = mpc.cast %1 : tensor<8xf32> to tensor<8xbf16>
    mpc.yield %2 : tensor<8xbf16>
  }
  %3 = mpc.fusion kind(elementwise) name("second") (%a = %0 : tensor<8xbf16>) -> tensor<8xf32> {
    %4 = mpc.cast %a : tensor<8xbf16> to tensor<8xf32>
    %5 = mpc.exp %4 : tensor<8xf32>
    mpc.yield %5 : tensor<8xf32>
  }
  return %3 : tensor<8xf32>
}

// Casts with different source and result types are no pair.
// CHECK-LABEL: func @other_type
// CHECK: mpc.cast {{.*}} to tensor<8xf16>
// CHECK-NEXT: mpc.cast {{.*}} to tensor<8xf32>
func.func @other_type(%x: tensor<8xf64>) -> tensor<8xf32> {
  %0 = mpc.fusion kind(elementwise) name("other") (%a = %x : tensor<8xf64>) -> tensor<8xf32> {
    %1 = mpc.cast %a : tensor<8xf64> to tensor<8xf16>
    %2 = mpc.cast %1 : tensor<8xf16> to tensor<8xf32>
    mpc.yield %2 : tensor<8xf32>
  }
  return %0 : tensor<8xf32>
}
