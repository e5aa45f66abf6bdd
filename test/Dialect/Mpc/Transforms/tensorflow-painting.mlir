// RUN: mpc-opt %s --mpc-assign-precision=policy=tf_amp_gpu_float16 --split-input-file | FileCheck %s
// RUN: mpc-opt %s --mpc-assign-precision=policy=tf_amp_gpu_float16 --split-input-file | mpc-opt --mpc-assign-precision=policy=tf_amp_gpu_float16 --split-input-file | FileCheck %s
// RUN: mpc-opt %s --mpc-assign-precision=policy=tf_amp_onednn_bfloat16 --split-input-file | FileCheck %s --check-prefix=BF16
// RUN: mpc-opt %s --mpc-assign-precision=policy=tf_amp_cpu_float16 --split-input-file | FileCheck %s --check-prefix=CPU
// RUN: mpc-opt %s --mpc-assign-precision=policy=tf_amp_gpu_float16 --split-input-file | mpc-opt --mpc-verify-stage=stage=precision --split-input-file -o /dev/null

// The numbers are those of docs/Reference/Imitation.md.

// Rule 0: the matmul that is fetched keeps its type, and so seeds nothing; with
// no other seed the function is unchanged.
// CHECK-LABEL: @rule0_output
// CHECK-NOT: f16>
// CHECK: mpc.matmul {{.*}}rule = "low", list = "tf_amp_gpu_float16", reason = "an output keeps its type"
// CHECK: return
func.func private @rule0_output(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = mpc.relu %x : tensor<8x8xf32>
  %1 = mpc.matmul %0, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}

// -----

// Rule 1: a contraction multiplies 16 bits and rounds its f32 accumulator once;
// weights are rounded at compile time.
// CHECK-LABEL: @rule1_seed
// CHECK-DAG: %[[X:.*]] = mpc.cast %{{.*}} : tensor<8x8xf32> to tensor<8x8xf16>
// CHECK-DAG: %[[W:.*]] = mpc.constant {{.*}} : tensor<8x8xf16>
// CHECK: %[[M:.*]] = mpc.matmul %[[X]], %[[W]] {{.*}}rule = "low"{{.*}} : (tensor<8x8xf16>, tensor<8x8xf16>) -> tensor<8x8xf32>
// CHECK-NEXT: %[[H:.*]] = mpc.cast %[[M]] : tensor<8x8xf32> to tensor<8x8xf16>
// CHECK-NEXT: %[[F:.*]] = mpc.cast %[[H]] : tensor<8x8xf16> to tensor<8x8xf32>
// CHECK-NEXT: mpc.sin %[[F]] {{.*}}rule = "unlisted"{{.*}}reason = "in no list"
// BF16-LABEL: @rule1_seed
// BF16: mpc.matmul {{.*}} : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xf32>
// CPU-LABEL: @rule1_seed
// CPU: mpc.matmul {{.*}} : (tensor<8x8xf16>, tensor<8x8xf16>) -> tensor<8x8xf32>
func.func private @rule1_seed(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %w = mpc.constant dense<0.5> : tensor<8x8xf32>
  %0 = mpc.matmul %x, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = mpc.sin %0 : tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}

// -----

// Rule 2: denial propagates from exp through ops that lead to an infer op, and no
// further: the clear op before the second product is free for rule 5.
// CHECK-LABEL: @rule2_deny
// CHECK: mpc.exp {{.*}}rule = "high"
// CHECK: mpc.add {{.*}}reason = "follows 'exp', which is on the deny list"{{.*}} -> tensor<8x8xf32>
// CHECK: mpc.neg {{.*}}reason = "follows 'add', which is on the deny list"{{.*}} : tensor<8x8xf32>
// CHECK: mpc.mul {{.*}}reason = "follows 'neg', which is on the deny list"{{.*}} -> tensor<8x8xf32>
// CHECK: mpc.relu {{.*}}reason = "adjacent to 16-bit 'matmul'"{{.*}} : tensor<8x8xf16>
// CHECK: mpc.matmul
// CHECK: mpc.tanh {{.*}}reason = "follows 16-bit 'matmul'"{{.*}} : tensor<8x8xf16>
func.func private @rule2_deny(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = mpc.exp %x : tensor<8x8xf32>
  %1 = mpc.add %0, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = mpc.neg %1 : tensor<8x8xf32>
  %3 = mpc.mul %2, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %4 = mpc.relu %3 : tensor<8x8xf32>
  %5 = mpc.matmul %4, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %6 = mpc.tanh %5 : tensor<8x8xf32>
  %7 = mpc.cumsum %6 axis(0) : tensor<8x8xf32>
  return %7 : tensor<8x8xf32>
}

// -----

// Rule 2 reads the lists: a sum is denied in f16 and inferred in bf16.
// CHECK-LABEL: @rule2_lists_differ
// CHECK: mpc.reduce_sum {{.*}}rule = "high"{{.*}} : tensor<8x8xf32> -> tensor<8x1xf32>
// CHECK: mpc.sub {{.*}}reason = "follows 'reduce_sum', which is on the deny list"
// BF16-LABEL: @rule2_lists_differ
// BF16: mpc.reduce_sum {{.*}}rule = "follow"{{.*}} : tensor<8x8xbf16> -> tensor<8x1xbf16>
// BF16: mpc.sub {{.*}}: (tensor<8x8xbf16>, tensor<8x1xbf16>) -> tensor<8x8xbf16>
func.func private @rule2_lists_differ(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = mpc.matmul %x, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = mpc.reduce_sum %0 axes([1]) keep_dims : tensor<8x8xf32> -> tensor<8x1xf32>
  %2 = mpc.sub %0, %1 : (tensor<8x8xf32>, tensor<8x1xf32>) -> tensor<8x8xf32>
  %3 = mpc.cumsum %2 axis(0) : tensor<8x8xf32>
  return %3 : tensor<8x8xf32>
}

// -----

// Rule 3: ops between two matmuls run in 16 bits, softmax included.
// CHECK-LABEL: @rule3_between
// CHECK: mpc.softmax {{.*}}rule = "follow"{{.*}}reason = "between ops of the allow list"{{.*}} : tensor<8x8xf16>
// CHECK: mpc.transpose {{.*}}rule = "clear"{{.*}}reason = "between ops of the allow list"{{.*}} : tensor<8x8xf16> to tensor<8x8xf16>
func.func private @rule3_between(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = mpc.matmul %x, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = mpc.softmax %0 axis(1) : tensor<8x8xf32>
  %2 = mpc.transpose %1 [1, 0] : tensor<8x8xf32> to tensor<8x8xf32>
  %3 = mpc.matmul %2, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %4 = mpc.sin %3 : tensor<8x8xf32>
  return %4 : tensor<8x8xf32>
}

// -----

// Rule 4: an infer op follows its 16-bit input, and so does the next; the other
// input of the sum is rounded for it. A denied input forbids it.
// CHECK-LABEL: @rule4_follow
// CHECK-SAME: %{{.*}}: tensor<8x8xf32>, %[[Y:.*]]: tensor<8xf32>
// CHECK: %[[B:.*]] = mpc.cast %[[Y]] : tensor<8xf32> to tensor<8xf16>
// CHECK: mpc.add %{{.*}}, %[[B]] {{.*}}reason = "follows 16-bit 'matmul'"{{.*}} : (tensor<8x8xf16>, tensor<8xf16>) -> tensor<8x8xf16>
// CHECK: mpc.sigmoid {{.*}}reason = "follows 16-bit 'add'"{{.*}} : tensor<8x8xf16>
// CHECK: mpc.exp {{.*}}: tensor<8x8xf32>
// CHECK: mpc.mul {{.*}}reason = "follows 'exp', which is on the deny list"{{.*}} -> tensor<8x8xf32>
func.func private @rule4_follow(%x: tensor<8x8xf32>, %y: tensor<8xf32>) -> tensor<8x8xf32> {
  %0 = mpc.matmul %x, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = mpc.add %0, %y : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8x8xf32>
  %2 = mpc.sigmoid %1 : tensor<8x8xf32>
  %3 = mpc.exp %x : tensor<8x8xf32>
  %4 = mpc.mul %2, %3 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %5 = mpc.sin %4 : tensor<8x8xf32>
  return %5 : tensor<8x8xf32>
}

// -----

// Rule 5: clear ops take the colour from either side, a comparison too.
// CHECK-LABEL: @rule5_clear
// CHECK: mpc.abs {{.*}}reason = "adjacent to 16-bit 'matmul'"{{.*}} : tensor<8x8xf16>
// CHECK: mpc.matmul
// CHECK: mpc.reduce_max {{.*}} : tensor<8x8xf16> -> tensor<8x1xf16>
// CHECK: mpc.compare gt {{.*}}(tensor<8x8xf16>, tensor<8x1xf16>) -> tensor<8x8xi1>
func.func private @rule5_clear(%x: tensor<8x8xf32>) -> tensor<8x8xi1> {
  %0 = mpc.abs %x : tensor<8x8xf32>
  %1 = mpc.matmul %0, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = mpc.reduce_max %1 axes([1]) keep_dims : tensor<8x8xf32> -> tensor<8x1xf32>
  %3 = mpc.compare gt %1, %2 : (tensor<8x8xf32>, tensor<8x1xf32>) -> tensor<8x8xi1>
  %4 = mpc.not %3 : tensor<8x8xi1>
  return %4 : tensor<8x8xi1>
}

// -----

// Rule 6: f64 and integers have no 16-bit form here; a count carried in a float
// is an integer too, though its op is clear.
// CHECK-LABEL: @rule6_other_types
// CHECK: mpc.matmul {{.*}}rule = "untouched"{{.*}} -> tensor<8x8xf64>
// CHECK: mpc.cast %{{.*}} : tensor<8xi64> to tensor<8xf32>
// CHECK: mpc.max {{.*}}reason = "carries integers that 16 bits cannot hold"{{.*}} -> tensor<8xf32>
func.func private @rule6_other_types(%d: tensor<8x8xf64>, %i: tensor<8xi64>, %x: tensor<8x8xf32>) -> (tensor<8x8xf64>, tensor<8x8xf32>) {
  %one = mpc.constant dense<1.0> : tensor<f32>
  %0 = mpc.matmul %d, %d : (tensor<8x8xf64>, tensor<8x8xf64>) -> tensor<8x8xf64>
  %1 = mpc.matmul %x, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = mpc.cast %i : tensor<8xi64> to tensor<8xf32>
  %3 = mpc.max %2, %one : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %4 = mpc.div %1, %3 : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8x8xf32>
  %5 = mpc.sin %4 : tensor<8x8xf32>
  return %0, %5 : tensor<8x8xf64>, tensor<8x8xf32>
}

// -----

// Rule 8: a cast to f32 with only 16-bit readers converts directly to f16; a
// pinned cast rounds as in the model, and a cast with an f32 reader stays.
// CHECK-LABEL: @rule8_casts
// CHECK: %[[A:.*]] = mpc.cast %{{.*}} : tensor<8x8xf64> to tensor<8x8xf16>
// CHECK: %[[P:.*]] = mpc.cast %{{.*}} pinned {{.*}} : tensor<8x8xf64> to tensor<8x8xf32>
// CHECK-NEXT: %[[Q:.*]] = mpc.cast %[[P]] : tensor<8x8xf32> to tensor<8x8xf16>
// CHECK: mpc.matmul %[[A]], %[[Q]]
// CHECK: mpc.cast %{{.*}} : tensor<8x8xf64> to tensor<8x8xf32>
func.func private @rule8_casts(%d: tensor<8x8xf64>) -> tensor<8x8xf32> {
  %0 = mpc.cast %d : tensor<8x8xf64> to tensor<8x8xf32>
  %1 = mpc.cast %d pinned : tensor<8x8xf64> to tensor<8x8xf32>
  %2 = mpc.matmul %0, %1 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = mpc.cast %d : tensor<8x8xf64> to tensor<8x8xf32>
  %4 = mpc.matmul %2, %3 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %5 = mpc.sin %3 : tensor<8x8xf32>
  %6 = mpc.pow %4, %5 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %6 : tensor<8x8xf32>
}

// -----

// Rule 9: one rounding of a value serves all its 16-bit readers.
// CHECK-LABEL: @rule9_shared
// CHECK-COUNT-1: : tensor<8x8xf32> to tensor<8x8xf16>
// CHECK: mpc.matmul %[[X:.*]], %[[X]]
// CHECK: mpc.add %{{.*}}, %[[X]]
// CHECK: mpc.sin
func.func private @rule9_shared(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = mpc.matmul %x, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = mpc.add %0, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = mpc.sin %1 : tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}

// -----

// An op in no list is never converted and no colour passes it; in bf16 the list
// has it.
// CHECK-LABEL: @unlisted
// CHECK: mpc.rsqrt {{.*}}reason = "in no list"{{.*}} : tensor<8x8xf32>
// CHECK: mpc.tanh {{.*}}reason = "no rule converts it to 16 bits"{{.*}} : tensor<8x8xf32>
// BF16-LABEL: @unlisted
// BF16: mpc.rsqrt {{.*}}rule = "follow"{{.*}} : tensor<8x8xbf16>
// BF16: mpc.tanh {{.*}} : tensor<8x8xbf16>
func.func private @unlisted(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = mpc.matmul %x, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = mpc.rsqrt %0 : tensor<8x8xf32>
  %2 = mpc.tanh %1 : tensor<8x8xf32>
  %3 = mpc.matmul %2, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %4 = mpc.sin %3 : tensor<8x8xf32>
  return %4 : tensor<8x8xf32>
}
