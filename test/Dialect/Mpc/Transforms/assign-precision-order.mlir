// Where the order of values decides the result, the op reads unrounded values, whatever
// type its other readers store.
// RUN: mpc-opt %s --split-input-file --mpc-assign-precision=policy=mixed_bfloat16 | FileCheck %s
// RUN: mpc-opt %s --split-input-file --mpc-assign-precision=policy=mixed_float16 | FileCheck %s --check-prefix=F16
// RUN: mpc-opt %s --split-input-file --mpc-assign-precision="policy=mixed_bfloat16 cast-placement=propagate" | FileCheck %s
// RUN: mpc-opt %s --split-input-file --mpc-assign-precision="policy=mixed_bfloat16 set=op:argmax=bfloat16" | FileCheck %s --check-prefix=OVERRIDE
// RUN: mpc-opt %s --split-input-file --mpc-assign-precision="policy=mixed_bfloat16 set=op:reduce_max=bfloat16" | FileCheck %s --check-prefix=EXTREMUM
// RUN: mpc-opt %s --split-input-file --mpc-assign-precision="policy=mixed_bfloat16 remarks" 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

// CHECK-LABEL: func.func @classes
// CHECK: %[[SUM:.*]] = mpc.matmul {{.*}} -> tensor<8x1000xf32>
// CHECK-NEXT: mpc.argmax %[[SUM]] {{.*}} : tensor<8x1000xf32>
// F16-LABEL: func.func @classes
// F16: %[[SUM:.*]] = mpc.matmul {{.*}} -> tensor<8x1000xf32>
// F16-NEXT: mpc.argmax %[[SUM]]
// An override takes precedence.
// OVERRIDE-LABEL: func.func @classes
// OVERRIDE: mpc.argmax {{.*}} : tensor<8x1000xbf16>
// REMARK: result 0 is stored in 'f32': the result of argmax 'pick' depends on the order of its values, which rounding may change
func.func @classes(%x: tensor<8x64xf32>) -> tensor<8xi64> {
  %w = mpc.constant dense<0.3> : tensor<64x1000xf32>
  %0 = mpc.matmul %x, %w : (tensor<8x64xf32>, tensor<64x1000xf32>) -> tensor<8x1000xf32>
  %1 = mpc.argmax %0 axis(1) : tensor<8x1000xf32> -> tensor<8xi64> loc("pick")
  return %1 : tensor<8xi64>
}

// -----

// Another reader in 16 bits gets a copy.
// CHECK-LABEL: func.func @shared
// CHECK: %[[SUM:.*]] = mpc.matmul {{.*}} -> tensor<64x64xf32>
// CHECK: %[[COPY:.*]] = mpc.cast %[[SUM]] : tensor<64x64xf32> to tensor<64x64xbf16>
// CHECK: mpc.matmul %[[COPY]],
// CHECK: mpc.argmax %[[SUM]]
func.func @shared(%x: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64xi64>) {
  %w = mpc.constant dense<0.3> : tensor<64x64xf32>
  %0 = mpc.matmul %x, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = mpc.matmul %0, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %2 = mpc.argmax %0 axis(1) : tensor<64x64xf32> -> tensor<64xi64>
  return %1, %2 : tensor<64x64xf32>, tensor<64xi64>
}

// -----

// Ops between the last matmul and the comparison are not rounded either: data movement, a
// temperature, a softmax, a running sum.
// CHECK-LABEL: func.func @beam
// CHECK: mpc.matmul {{.*}} -> tensor<8x8x1000xf32>
// CHECK-NOT: bf16>
// CHECK: mpc.top_k {{.*}} : tensor<64x1000xf32> -> tensor<64x1000xf32>, tensor<64x1000xi64>
// CHECK-NOT: bf16>
// CHECK: mpc.compare lt
// CHECK: return
func.func @beam(%x: tensor<8x8x64xf32>, %t: tensor<f32>, %p: tensor<f32>) -> (tensor<64x1000xi64>, tensor<64x1000xi1>) {
  %w = mpc.constant dense<0.3> : tensor<64x1000xf32>
  %0 = mpc.matmul %x, %w : (tensor<8x8x64xf32>, tensor<64x1000xf32>) -> tensor<8x8x1000xf32>
  %1 = mpc.reshape %0 : tensor<8x8x1000xf32> to tensor<64x1000xf32>
  %2 = mpc.div %1, %t : (tensor<64x1000xf32>, tensor<f32>) -> tensor<64x1000xf32>
  %3 = mpc.softmax %2 axis(1) : tensor<64x1000xf32>
  %v, %i = mpc.top_k %3 k(1000) axis(1) largest(true) : tensor<64x1000xf32> -> tensor<64x1000xf32>, tensor<64x1000xi64>
  %4 = mpc.cumsum %v axis(1) : tensor<64x1000xf32>
  %5 = mpc.compare lt %4, %p : (tensor<64x1000xf32>, tensor<f32>) -> tensor<64x1000xi1>
  return %i, %5 : tensor<64x1000xi64>, tensor<64x1000xi1>
}

// -----

// Comparison with zero depends on the sign, which rounding preserves.
// CHECK-LABEL: func.func @sign
// CHECK: mpc.cast %{{.*}} : tensor<64x64xf32> to tensor<64x64xbf16>
// CHECK: %[[WIDE:.*]] = mpc.cast %{{.*}} : tensor<64x64xbf16> to tensor<64x64xf32>
// CHECK: mpc.compare gt %[[WIDE]]
// Comparison with any other number depends on rounding.
// CHECK-LABEL: func.func @threshold
// CHECK: %[[SUM:.*]] = mpc.matmul
// CHECK: mpc.compare gt %[[SUM]]
func.func @sign(%x: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x1xi1>) {
  %w = mpc.constant dense<0.3> : tensor<64x64xf32>
  %zero = mpc.constant dense<0.0> : tensor<f32>
  %0 = mpc.matmul %x, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = mpc.matmul %0, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %2 = mpc.matmul %1, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %3 = mpc.compare gt %1, %zero : (tensor<64x64xf32>, tensor<f32>) -> tensor<64x64xi1>
  %4 = mpc.slice %3 [0, 0] [64, 1] : tensor<64x64xi1> to tensor<64x1xi1>
  return %2, %4 : tensor<64x64xf32>, tensor<64x1xi1>
}
func.func @threshold(%x: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xi1>) {
  %w = mpc.constant dense<0.3> : tensor<64x64xf32>
  %half = mpc.constant dense<0.5> : tensor<f32>
  %0 = mpc.matmul %x, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = mpc.matmul %0, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %2 = mpc.compare gt %0, %half : (tensor<64x64xf32>, tensor<f32>) -> tensor<64x64xi1>
  return %1, %2 : tensor<64x64xf32>, tensor<64x64xi1>
}

// -----

// A comparison with the maximum of rounded elements reads the rounded elements: no unrounded
// element need be equal.
// EXTREMUM-LABEL: func.func @extremum
// EXTREMUM: %[[ROUNDED:.*]] = mpc.cast %arg0 : tensor<8x16xf32> to tensor<8x16xbf16>
// EXTREMUM: mpc.reduce_max %[[ROUNDED]]
// EXTREMUM: %[[WIDE:.*]] = mpc.cast %{{.*}} : tensor<8x16xbf16> to tensor<8x16xf32>
// EXTREMUM: mpc.compare eq %[[WIDE]]
func.func @extremum(%x: tensor<8x16xf32>) -> tensor<8x16xi1> {
  %0 = mpc.reduce_max %x axes([1]) keep_dims : tensor<8x16xf32> -> tensor<8x1xf32>
  %1 = mpc.compare eq %x, %0 : (tensor<8x16xf32>, tensor<8x1xf32>) -> tensor<8x16xi1>
  return %1 : tensor<8x16xi1>
}
