// A model built to fail in f16: one warning per defect, in op order, and no
// warning for the neighbouring near misses.
// RUN: mpc lint %s --policy float16 | FileCheck %s --match-full-lines
// With sensitive ops in f32, the remaining warnings are the weights, the model's
// own f16 sum and the frame count (reported, but kept in f32).
// RUN: mpc lint %s --policy mixed_float16 | FileCheck %s --check-prefix=MIXED --match-full-lines
// bf16 has f32's range; its sums saturate earlier.
// RUN: mpc lint %s --policy bfloat16 | FileCheck %s --check-prefix=BF16 --match-full-lines
// RUN: mpc lint %s | FileCheck %s --check-prefix=F32 --match-full-lines
// All proposed flags are applied, also for the f16 consumers of the clipped value;
// the other warnings require a change of the model.
// RUN: mpc lint %s --policy float16 --set name:fc=float32 --set name:shift=float32 --set name:clip=float32 --set name:tanh=float32 --set name:masked=float32 --set name:norm=float32 --set name:unit=float32 | FileCheck %s --check-prefix=FIXED --match-full-lines

// CHECK: frames: integer_in_float: 'frames' carries integers of any size; f16 represents integers exactly up to 2048 only, so they are kept in f32
// CHECK-NEXT:     fix: none is needed; to use 16 bits, compute them in i32 or i64 in the model
// CHECK-NEXT: total: sum_too_long: 'total' adds 50000 numbers in f16, where a sum of equal numbers stops growing after 2048
// CHECK-NEXT:     fix: the model sets this type; change it to float32 in the model
// CHECK-NEXT: fc: weight_flush: 73.3% of the values of constant 'weight' that are not zero become 0 in f16, down to 1e-08
// CHECK-NEXT:     fix: --set name:fc=float32
// CHECK-NEXT: shift: constant_overflow: f16 cannot represent 70000: constant 'offset' becomes inf
// CHECK-NEXT:     fix: --set name:shift=float32
// CHECK-NEXT: clip: clip_bound_overflow: f16 cannot represent 100000: constant 'bound' becomes inf, so infinities are not clipped at 'clip'
// CHECK-NEXT:     fix: --set name:clip=float32
// CHECK-NEXT: masked: mask_overflow: f16 cannot represent -1e+09: constant 'far' becomes -inf in the mask at 'masked'; a fully masked row has no finite value left
// CHECK-NEXT:     fix: --set name:masked=float32
// CHECK-NEXT: norm: epsilon_flush: f16 cannot represent 1e-12: constant 'epsilon' becomes 0, and 'norm' no longer protects a divisor from zero
// CHECK-NEXT:     fix: --set name:norm=float32
// CHECK-NEXT: 7 warnings under policy 'float16'

// MIXED: frames: integer_in_float: {{.*}}
// MIXED-NEXT: {{ +}}fix: {{.*}}
// MIXED-NEXT: total: sum_too_long: {{.*}}
// MIXED-NEXT: {{ +}}fix: {{.*}}
// MIXED-NEXT: fc: weight_flush: {{.*}}
// MIXED-NEXT: {{ +}}fix: {{.*}}
// MIXED-NEXT: 3 warnings under policy 'mixed_float16'

// BF16: frames: integer_in_float: 'frames' carries integers of any size; bf16 represents integers exactly up to 256 only, so they are kept in f32
// BF16-NEXT: {{ +}}fix: {{.*}}
// BF16-NEXT: total: sum_too_long: {{.*}}
// BF16-NEXT: {{ +}}fix: {{.*}}
// BF16-NEXT: 2 warnings under policy 'bfloat16'

// F32: total: sum_too_long: {{.*}}
// F32-NEXT: {{ +}}fix: {{.*}}
// F32-NEXT: 1 warning under policy 'float32'

// FIXED: frames: integer_in_float: {{.*}}
// FIXED-NEXT: {{ +}}fix: {{.*}}
// FIXED-NEXT: total: sum_too_long: {{.*}}
// FIXED-NEXT: {{ +}}fix: {{.*}}
// FIXED-NEXT: 2 warnings under policy 'float16'

func.func @main(%x: tensor<4x4xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"},
                %n: tensor<4x1xi64> {mpc.role = #mpc.role<input>, mpc.name = "n"},
                %keep: tensor<4x4xi1> {mpc.role = #mpc.role<input>, mpc.name = "keep"},
                %samples: tensor<50000xf16> {mpc.role = #mpc.role<input>, mpc.name = "samples"})
    -> (tensor<4x4xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"},
        tensor<f16> {mpc.role = #mpc.role<output>, mpc.name = "sum"}) {
  %weight = mpc.constant dense<[[1.0e-8, 2.0e-8, -1.5e-8, 0.0], [1.0e-8, 0.5, 1.0e-8, 0.25], [2.0e-8, 1.0e-8, 0.5, 1.2e-8], [-1.0e-8, 0.125, 1.0e-8, 2.0e-8]]> : tensor<4x4xf32> loc("weight")
  %offset = mpc.constant dense<7.0e4> : tensor<f32> loc("offset")
  %low = mpc.constant dense<0.0> : tensor<f32> loc("low")
  %high = mpc.constant dense<1.0e5> : tensor<f32> loc("bound")
  %far = mpc.constant dense<-1.0e9> : tensor<f32> loc("far")
  %epsilon = mpc.constant dense<1.0e-12> : tensor<f32> loc("epsilon")
  %one = mpc.constant dense<1.0> : tensor<f32> loc("one")

  // A frame count stored in floats.
  %0 = mpc.cast %n : tensor<4x1xi64> to tensor<4x1xf32> loc("frames")
  %1 = mpc.add %0, %one : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32> loc("next")
  %2 = mpc.div %x, %1 : (tensor<4x4xf32>, tensor<4x1xf32>) -> tensor<4x4xf32> loc("mean")
  // A sum in 16 bits.
  %3 = mpc.reduce_sum %samples axes([0]) accumulate(f16) : tensor<50000xf16> -> tensor<f16> loc("total")
  // Weights near 1e-8.
  %4 = mpc.matmul %2, %weight : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("fc")
  // A large constant, a clip bound, a mask, an epsilon.
  %5 = mpc.mul %4, %offset : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32> loc("shift")
  %6 = mpc.clamp %5, %low, %high : (tensor<4x4xf32>, tensor<f32>, tensor<f32>) -> tensor<4x4xf32> loc("clip")
  %7 = mpc.tanh %6 : tensor<4x4xf32> loc("tanh")
  %8 = mpc.select %keep, %7, %far : (tensor<4x4xi1>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32> loc("masked")
  %9 = mpc.softmax %8 axis(1) : tensor<4x4xf32> loc("softmax")
  %10 = mpc.abs %9 : tensor<4x4xf32> loc("size")
  %11 = mpc.add %10, %epsilon : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32> loc("norm")
  %12 = mpc.div %9, %11 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("unit")
  return %12, %3 : tensor<4x4xf32>, tensor<f16>
}
