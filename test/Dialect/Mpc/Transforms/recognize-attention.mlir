// RUN: mpc-opt %s --mpc-recognize-attention --split-input-file | FileCheck %s
// RUN: mpc-opt %s --mpc-recognize-attention --split-input-file | mpc-opt --mpc-recognize-attention --split-input-file | FileCheck %s

!batch = tensor<2x4x8x16xf32>

// BERT: the key is transposed with the heads; scale and additive mask on the scores.
// CHECK-LABEL: func @bert
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<2x4x8x16xf32>, %[[K:[a-z0-9]+]]: tensor<2x8x4x16xf32>, %[[V:[a-z0-9]+]]: tensor<2x4x8x16xf32>, %[[M:[a-z0-9]+]]: tensor<2x1x1x8xf32>
// CHECK: %[[KT:.*]] = mpc.transpose %[[K]] [0, 2, 1, 3]
// CHECK: %[[R:.*]] = mpc.attention %[[Q]], %[[KT]], %[[V]] mask(%[[M]]) scale(2.500000e-01) {mpc.layer = "attention"}
// CHECK-NEXT: return %[[R]]
func.func @bert(%q: !batch, %k: tensor<2x8x4x16xf32>, %v: !batch, %mask: tensor<2x1x1x8xf32>) -> !batch {
  %scale = mpc.constant dense<0.25> : tensor<f32>
  %kt = mpc.transpose %k [0, 2, 3, 1] : tensor<2x8x4x16xf32> to tensor<2x4x16x8xf32>
  %0 = mpc.matmul %q, %kt : (!batch, tensor<2x4x16x8xf32>) -> tensor<2x4x8x8xf32>
  %1 = mpc.mul %0, %scale : (tensor<2x4x8x8xf32>, tensor<f32>) -> tensor<2x4x8x8xf32>
  %2 = mpc.add %1, %mask : (tensor<2x4x8x8xf32>, tensor<2x1x1x8xf32>) -> tensor<2x4x8x8xf32>
  %3 = mpc.softmax %2 axis(3) : tensor<2x4x8x8xf32>
  %4 = mpc.matmul %3, %v {mpc.layer = "attention"} : (tensor<2x4x8x8xf32>, !batch) -> !batch
  return %4 : !batch
}

// -----

!packed = tensor<1x4x2x16xf32>

// GPT: a division, and a causal mask that selects a fill value. The condition is
// constant and no row is fully masked: it becomes attention's boolean mask.
// CHECK-LABEL: func @gpt
// CHECK: %[[M:.*]] = mpc.constant dense<{{\[\[}}true, false], [true, true]]> : tensor<2x2xi1>
// CHECK: mpc.attention %{{.*}}, %{{.*}}, %{{.*}} mask(%[[M]]) scale(2.500000e-01)
// CHECK-NOT: mpc.select
// CHECK: return
func.func @gpt(%q: !packed, %k: !packed, %v: !packed) -> !packed {
  %root = mpc.constant dense<4.0> : tensor<f32>
  %fill = mpc.constant dense<-3.40282347E+38> : tensor<f32>
  %drop = mpc.constant dense<[[false, true], [false, false]]> : tensor<2x2xi1>
  %kt = mpc.transpose %k [0, 1, 3, 2] : !packed to tensor<1x4x16x2xf32>
  %0 = mpc.matmul %q, %kt : (!packed, tensor<1x4x16x2xf32>) -> tensor<1x4x2x2xf32>
  %1 = mpc.div %0, %root : (tensor<1x4x2x2xf32>, tensor<f32>) -> tensor<1x4x2x2xf32>
  %2 = mpc.select %drop, %fill, %1 : (tensor<2x2xi1>, tensor<f32>, tensor<1x4x2x2xf32>) -> tensor<1x4x2x2xf32>
  %3 = mpc.softmax %2 axis(3) : tensor<1x4x2x2xf32>
  %4 = mpc.matmul %3, %v : (tensor<1x4x2x2xf32>, !packed) -> !packed
  return %4 : !packed
}

// -----

// ViT: half of the scale on the query and half on the key, which is transposed
// below a reshape of its batch dimensions.
// CHECK-LABEL: func @vit
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<2x3x8x16xf32>, %[[K:[a-z0-9]+]]: tensor<6x8x16xf32>, %[[V:[a-z0-9]+]]: tensor<2x3x8x16xf32>
// CHECK: %[[KR:.*]] = mpc.reshape %[[K]] : tensor<6x8x16xf32> to tensor<2x3x8x16xf32>
// CHECK: mpc.attention %[[Q]], %[[KR]], %[[V]] scale(2.500000e-01)
func.func @vit(%q: tensor<2x3x8x16xf32>, %k: tensor<6x8x16xf32>, %v: tensor<2x3x8x16xf32>) -> tensor<2x3x8x16xf32> {
  %half = mpc.constant dense<0.5> : tensor<1xf32>
  %kt = mpc.transpose %k [0, 2, 1] : tensor<6x8x16xf32> to tensor<6x16x8xf32>
  %kr = mpc.reshape %kt : tensor<6x16x8xf32> to tensor<2x3x16x8xf32>
  %0 = mpc.mul %q, %half : (tensor<2x3x8x16xf32>, tensor<1xf32>) -> tensor<2x3x8x16xf32>
  %1 = mpc.mul %kr, %half : (tensor<2x3x16x8xf32>, tensor<1xf32>) -> tensor<2x3x16x8xf32>
  %2 = mpc.matmul %0, %1 : (tensor<2x3x8x16xf32>, tensor<2x3x16x8xf32>) -> tensor<2x3x8x8xf32>
  %3 = mpc.softmax %2 axis(3) : tensor<2x3x8x8xf32>
  %4 = mpc.matmul %3, %v : (tensor<2x3x8x8xf32>, tensor<2x3x8x16xf32>) -> tensor<2x3x8x16xf32>
  return %4 : tensor<2x3x8x16xf32>
}

// -----

!heads = tensor<3x8x16xf32>

// torch's guard: fully masked rows give zeros, which is what attention computes for
// a boolean mask. The additive form 0 / -inf is that mask.
// CHECK-LABEL: func @guarded
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<3x8x16xf32>, %[[K:[a-z0-9]+]]: tensor<3x8x16xf32>, %[[V:[a-z0-9]+]]: tensor<3x8x16xf32>, %[[KEEP:[a-z0-9]+]]: tensor<8x8xi1>
// CHECK: mpc.attention %[[Q]], %[[K]], %[[V]] mask(%[[KEEP]]) scale(1.000000e+00)
// CHECK-NEXT: return
func.func @guarded(%q: !heads, %k: !heads, %v: !heads, %keep: tensor<8x8xi1>) -> !heads {
  %zero = mpc.constant dense<0.0> : tensor<f32>
  %inf = mpc.constant dense<0xFF800000> : tensor<f32>
  %mask = mpc.select %keep, %zero, %inf : (tensor<8x8xi1>, tensor<f32>, tensor<f32>) -> tensor<8x8xf32>
  %0 = mpc.matmul %q, %k transpose_rhs : (!heads, !heads) -> tensor<3x8x8xf32>
  %1 = mpc.add %0, %mask : (tensor<3x8x8xf32>, tensor<8x8xf32>) -> tensor<3x8x8xf32>
  %2 = mpc.softmax %1 axis(2) : tensor<3x8x8xf32>
  %3 = mpc.is_nan %2 : tensor<3x8x8xf32> -> tensor<3x8x8xi1>
  %4 = mpc.select %3, %zero, %2 : (tensor<3x8x8xi1>, tensor<f32>, tensor<3x8x8xf32>) -> tensor<3x8x8xf32>
  %5 = mpc.matmul %4, %v : (tensor<3x8x8xf32>, !heads) -> !heads
  return %5 : !heads
}

// -----

!heads = tensor<3x8x16xf32>

// A run-time condition with a fill of -FLT_MAX: a fully masked row gives the mean of the
// values. A boolean mask would give zeros, an added fill gives the mean.
// CHECK-LABEL: func @variable_condition
// CHECK: %[[M:.*]] = mpc.select %{{.*}}, %{{.*}}, %{{.*}} : (tensor<8x8xi1>, tensor<f32>, tensor<f32>) -> tensor<8x8xf32>
// CHECK: mpc.attention %{{.*}}, %{{.*}}, %{{.*}} mask(%[[M]])
func.func @variable_condition(%q: !heads, %k: !heads, %v: !heads, %keep: tensor<8x8xi1>) -> !heads {
  %fill = mpc.constant dense<-3.40282347E+38> : tensor<f32>
  %0 = mpc.matmul %q, %k transpose_rhs : (!heads, !heads) -> tensor<3x8x8xf32>
  %1 = mpc.select %keep, %0, %fill : (tensor<8x8xi1>, tensor<3x8x8xf32>, tensor<f32>) -> tensor<3x8x8xf32>
  %2 = mpc.softmax %1 axis(2) : tensor<3x8x8xf32>
  %3 = mpc.matmul %2, %v : (tensor<3x8x8xf32>, !heads) -> !heads
  return %3 : !heads
}

// -----

!heads = tensor<3x8x16xf32>

// The same with -inf: a fully masked row is NaN, which no attention mask gives.
// CHECK-LABEL: func @keeps_nan_of_empty_rows
// CHECK: mpc.softmax
// CHECK-NOT: mpc.attention
// CHECK: return
func.func @keeps_nan_of_empty_rows(%q: !heads, %k: !heads, %v: !heads, %keep: tensor<8x8xi1>) -> !heads {
  %fill = mpc.constant dense<0xFF800000> : tensor<f32>
  %0 = mpc.matmul %q, %k transpose_rhs : (!heads, !heads) -> tensor<3x8x8xf32>
  %1 = mpc.select %keep, %0, %fill : (tensor<8x8xi1>, tensor<3x8x8xf32>, tensor<f32>) -> tensor<3x8x8xf32>
  %2 = mpc.softmax %1 axis(2) : tensor<3x8x8xf32>
  %3 = mpc.matmul %2, %v : (tensor<3x8x8xf32>, !heads) -> !heads
  return %3 : !heads
}

// -----

// A constant condition with a fully masked row keeps the fill value.
// CHECK-LABEL: func @empty_constant_row
// CHECK: %[[M:.*]] = mpc.select
// CHECK: mpc.attention %{{.*}} mask(%[[M]])
func.func @empty_constant_row(%q: tensor<1x2x16xf32>, %k: tensor<1x2x16xf32>, %v: tensor<1x2x16xf32>) -> tensor<1x2x16xf32> {
  %fill = mpc.constant dense<-1.0e38> : tensor<f32>
  %keep = mpc.constant dense<[[true, true], [false, false]]> : tensor<2x2xi1>
  %0 = mpc.matmul %q, %k transpose_rhs : (tensor<1x2x16xf32>, tensor<1x2x16xf32>) -> tensor<1x2x2xf32>
  %1 = mpc.select %keep, %0, %fill : (tensor<2x2xi1>, tensor<1x2x2xf32>, tensor<f32>) -> tensor<1x2x2xf32>
  %2 = mpc.softmax %1 axis(2) : tensor<1x2x2xf32>
  %3 = mpc.matmul %2, %v : (tensor<1x2x2xf32>, tensor<1x2x16xf32>) -> tensor<1x2x16xf32>
  return %3 : tensor<1x2x16xf32>
}

// -----

!heads = tensor<3x8x16xf32>

// The probabilities are an output as well.
// CHECK-LABEL: func @keeps_read_probabilities
// CHECK-NOT: mpc.attention
// CHECK: return
func.func @keeps_read_probabilities(%q: !heads, %k: !heads, %v: !heads) -> (!heads, tensor<3x8x8xf32>) {
  %0 = mpc.matmul %q, %k transpose_rhs : (!heads, !heads) -> tensor<3x8x8xf32>
  %1 = mpc.softmax %0 axis(2) : tensor<3x8x8xf32>
  %2 = mpc.matmul %1, %v : (tensor<3x8x8xf32>, !heads) -> !heads
  return %2, %1 : !heads, tensor<3x8x8xf32>
}

// -----

!heads = tensor<3x8x16xf32>

// A softmax over another axis, rank 2, and batches that broadcast.
// CHECK-LABEL: func @keeps_other_axis
// CHECK-NOT: mpc.attention
// CHECK: return
func.func @keeps_other_axis(%q: !heads, %k: !heads, %v: !heads) -> !heads {
  %0 = mpc.matmul %q, %k transpose_rhs : (!heads, !heads) -> tensor<3x8x8xf32>
  %1 = mpc.softmax %0 axis(1) : tensor<3x8x8xf32>
  %2 = mpc.matmul %1, %v : (tensor<3x8x8xf32>, !heads) -> !heads
  return %2 : !heads
}

// CHECK-LABEL: func @keeps_rank_2
// CHECK-NOT: mpc.attention
// CHECK: return
func.func @keeps_rank_2(%q: tensor<8x16xf32>, %k: tensor<8x16xf32>, %v: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %0 = mpc.matmul %q, %k transpose_rhs : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x8xf32>
  %1 = mpc.softmax %0 axis(1) : tensor<8x8xf32>
  %2 = mpc.matmul %1, %v : (tensor<8x8xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  return %2 : tensor<8x16xf32>
}

// CHECK-LABEL: func @keeps_broadcast_batch
// CHECK-NOT: mpc.attention
// CHECK: return
func.func @keeps_broadcast_batch(%q: !heads, %k: tensor<8x16xf32>, %v: !heads) -> !heads {
  %0 = mpc.matmul %q, %k transpose_rhs : (!heads, tensor<8x16xf32>) -> tensor<3x8x8xf32>
  %1 = mpc.softmax %0 axis(2) : tensor<3x8x8xf32>
  %2 = mpc.matmul %1, %v : (tensor<3x8x8xf32>, !heads) -> !heads
  return %2 : !heads
}

// -----

// Llama: two heads of keys and values, each for two of the query's, repeated by a
// broadcast. Attention reads them as they are.
// CHECK-LABEL: func @grouped
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<1x4x3x16xf32>, %[[K:[a-z0-9]+]]: tensor<1x2x5x16xf32>, %[[V:[a-z0-9]+]]: tensor<1x2x5x16xf32>
// CHECK: %[[KR:.*]] = mpc.reshape %{{.*}} : tensor<1x2x1x5x16xf32> to tensor<1x2x5x16xf32>
// CHECK: %[[VR:.*]] = mpc.reshape %{{.*}} : tensor<1x2x1x5x16xf32> to tensor<1x2x5x16xf32>
// CHECK: %[[R:.*]] = mpc.attention %[[Q]], %[[KR]], %[[VR]] scale(1.000000e+00)
// CHECK-NEXT: return %[[R]]
func.func @grouped(%q: tensor<1x4x3x16xf32>, %k: tensor<1x2x5x16xf32>, %v: tensor<1x2x5x16xf32>) -> tensor<1x4x3x16xf32> {
  %k0 = mpc.reshape %k : tensor<1x2x5x16xf32> to tensor<1x2x1x5x16xf32>
  %k1 = mpc.broadcast %k0 : tensor<1x2x1x5x16xf32> to tensor<1x2x2x5x16xf32>
  %k2 = mpc.reshape %k1 : tensor<1x2x2x5x16xf32> to tensor<1x4x5x16xf32>
  %v0 = mpc.reshape %v : tensor<1x2x5x16xf32> to tensor<1x2x1x5x16xf32>
  %v1 = mpc.broadcast %v0 : tensor<1x2x1x5x16xf32> to tensor<1x2x2x5x16xf32>
  %v2 = mpc.reshape %v1 : tensor<1x2x2x5x16xf32> to tensor<1x4x5x16xf32>
  %0 = mpc.matmul %q, %k2 transpose_rhs : (tensor<1x4x3x16xf32>, tensor<1x4x5x16xf32>) -> tensor<1x4x3x5xf32>
  %1 = mpc.softmax %0 axis(3) : tensor<1x4x3x5xf32>
  %2 = mpc.matmul %1, %v2 : (tensor<1x4x3x5xf32>, tensor<1x4x5x16xf32>) -> tensor<1x4x3x16xf32>
  return %2 : tensor<1x4x3x16xf32>
}

// -----

// The key is repeated four times before heads and positions are transposed, by Tile
// with extents of 1 between; the value two times by a concat, so two heads remain.
// CHECK-LABEL: func @grouped_by_tile_and_concat
// CHECK: mpc.attention %{{.*}} : (tensor<2x8x3x16xf32>, tensor<2x4x5x16xf32>, tensor<2x4x5x16xf32>)
func.func @grouped_by_tile_and_concat(%q: tensor<2x8x3x16xf32>, %k: tensor<2x5x2x16xf32>, %v: tensor<2x4x5x16xf32>) -> tensor<2x8x3x16xf32> {
  %k0 = mpc.reshape %k : tensor<2x5x2x16xf32> to tensor<1x2x1x5x1x2x1x1x1x16xf32>
  %k1 = mpc.broadcast %k0 : tensor<1x2x1x5x1x2x1x1x1x16xf32> to tensor<1x2x1x5x1x2x4x1x1x16xf32>
  %k2 = mpc.reshape %k1 : tensor<1x2x1x5x1x2x4x1x1x16xf32> to tensor<2x5x8x16xf32>
  %k3 = mpc.transpose %k2 [0, 2, 1, 3] : tensor<2x5x8x16xf32> to tensor<2x8x5x16xf32>
  %v0 = mpc.reshape %v : tensor<2x4x5x16xf32> to tensor<2x4x1x5x16xf32>
  %v1 = mpc.concat %v0, %v0 axis(2) : (tensor<2x4x1x5x16xf32>, tensor<2x4x1x5x16xf32>) -> tensor<2x4x2x5x16xf32>
  %v2 = mpc.reshape %v1 : tensor<2x4x2x5x16xf32> to tensor<2x8x5x16xf32>
  %0 = mpc.attention %q, %k3, %v2 scale(0.25) : (tensor<2x8x3x16xf32>, tensor<2x8x5x16xf32>, tensor<2x8x5x16xf32>) -> tensor<2x8x3x16xf32>
  return %0 : tensor<2x8x3x16xf32>
}

// -----

// Multi-query attention: the product broadcasts the one head of keys and values.
// CHECK-LABEL: func @multi_query
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<2x4x3x16xf32>, %[[K:[a-z0-9]+]]: tensor<2x1x5x16xf32>, %[[V:[a-z0-9]+]]: tensor<2x1x5x16xf32>
// CHECK: mpc.attention %[[Q]], %[[K]], %[[V]] scale(1.000000e+00)
func.func @multi_query(%q: tensor<2x4x3x16xf32>, %k: tensor<2x1x5x16xf32>, %v: tensor<2x1x5x16xf32>) -> tensor<2x4x3x16xf32> {
  %0 = mpc.matmul %q, %k transpose_rhs : (tensor<2x4x3x16xf32>, tensor<2x1x5x16xf32>) -> tensor<2x4x3x5xf32>
  %1 = mpc.softmax %0 axis(3) : tensor<2x4x3x5xf32>
  %2 = mpc.matmul %1, %v : (tensor<2x4x3x5xf32>, tensor<2x1x5x16xf32>) -> tensor<2x4x3x16xf32>
  return %2 : tensor<2x4x3x16xf32>
}

// -----

// The heads are repeated as a whole (a, b, a, b): head h of the query does not read
// head h / 2.
// CHECK-LABEL: func @keeps_tiled_heads
// CHECK: mpc.attention %{{.*}} : (tensor<1x4x3x16xf32>, tensor<1x4x5x16xf32>, tensor<1x4x5x16xf32>)
func.func @keeps_tiled_heads(%q: tensor<1x4x3x16xf32>, %k: tensor<1x2x5x16xf32>, %v: tensor<1x2x5x16xf32>) -> tensor<1x4x3x16xf32> {
  %k1 = mpc.concat %k, %k axis(1) : (tensor<1x2x5x16xf32>, tensor<1x2x5x16xf32>) -> tensor<1x4x5x16xf32>
  %v1 = mpc.concat %v, %v axis(1) : (tensor<1x2x5x16xf32>, tensor<1x2x5x16xf32>) -> tensor<1x4x5x16xf32>
  %0 = mpc.attention %q, %k1, %v1 scale(0.25) : (tensor<1x4x3x16xf32>, tensor<1x4x5x16xf32>, tensor<1x4x5x16xf32>) -> tensor<1x4x3x16xf32>
  return %0 : tensor<1x4x3x16xf32>
}

// -----

!batch = tensor<2x4x8x16xf32>

// T5: a bias per head and distance, and a mask. They are added to each other first.
// CHECK-LABEL: func @bias_and_mask
// CHECK-SAME: %[[B:[a-z0-9]+]]: tensor<1x4x8x8xf32>, %[[M:[a-z0-9]+]]: tensor<2x1x1x8xf32>
// CHECK: %[[SUM:.*]] = mpc.add %[[B]], %[[M]] : (tensor<1x4x8x8xf32>, tensor<2x1x1x8xf32>) -> tensor<2x4x8x8xf32>
// CHECK: mpc.attention %{{.*}} mask(%[[SUM]]) scale(1.000000e+00)
// CHECK-NEXT: return
func.func @bias_and_mask(%q: !batch, %k: !batch, %v: !batch, %bias: tensor<1x4x8x8xf32>, %mask: tensor<2x1x1x8xf32>) -> !batch {
  %0 = mpc.matmul %q, %k transpose_rhs : (!batch, !batch) -> tensor<2x4x8x8xf32>
  %1 = mpc.add %0, %mask : (tensor<2x4x8x8xf32>, tensor<2x1x1x8xf32>) -> tensor<2x4x8x8xf32>
  %2 = mpc.add %bias, %1 : (tensor<1x4x8x8xf32>, tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %3 = mpc.softmax %2 axis(3) : tensor<2x4x8x8xf32>
  %4 = mpc.matmul %3, %v : (tensor<2x4x8x8xf32>, !batch) -> !batch
  return %4 : !batch
}

// -----

!packed = tensor<1x4x2x16xf32>

// BLOOM: ALiBi slopes are added, later positions get a fill. No row is fully masked.
// CHECK-LABEL: func @bias_below_select
// CHECK-SAME: %[[B:[a-z0-9]+]]: tensor<4x1x2xf32>
// CHECK-DAG: %[[KEEP:.*]] = mpc.constant dense<{{\[\[}}true, false], [true, true]]> : tensor<2x2xi1>
// CHECK-DAG: %[[INF:.*]] = mpc.constant dense<0xFF800000> : tensor<f32>
// CHECK: %[[MASK:.*]] = mpc.select %[[KEEP]], %[[B]], %[[INF]] : (tensor<2x2xi1>, tensor<4x1x2xf32>, tensor<f32>) -> tensor<4x2x2xf32>
// CHECK: mpc.attention %{{.*}} mask(%[[MASK]]) scale(2.500000e-01)
func.func @bias_below_select(%q: !packed, %k: !packed, %v: !packed, %slopes: tensor<4x1x2xf32>) -> !packed {
  %scale = mpc.constant dense<0.25> : tensor<f32>
  %fill = mpc.constant dense<-1.0e4> : tensor<f32>
  %keep = mpc.constant dense<[[true, false], [true, true]]> : tensor<2x2xi1>
  %0 = mpc.matmul %q, %k transpose_rhs : (!packed, !packed) -> tensor<1x4x2x2xf32>
  %1 = mpc.mul %0, %scale : (tensor<1x4x2x2xf32>, tensor<f32>) -> tensor<1x4x2x2xf32>
  %2 = mpc.add %1, %slopes : (tensor<1x4x2x2xf32>, tensor<4x1x2xf32>) -> tensor<1x4x2x2xf32>
  %3 = mpc.select %keep, %2, %fill : (tensor<2x2xi1>, tensor<1x4x2x2xf32>, tensor<f32>) -> tensor<1x4x2x2xf32>
  %4 = mpc.softmax %3 axis(3) : tensor<1x4x2x2xf32>
  %5 = mpc.matmul %4, %v : (tensor<1x4x2x2xf32>, !packed) -> !packed
  return %5 : !packed
}

// -----

!heads = tensor<3x8x16xf32>
!scores = tensor<3x8x8xf32>

// The biased scores are an output as well.
// CHECK-LABEL: func @keeps_read_biased_scores
// CHECK-NOT: mpc.attention
// CHECK: return
func.func @keeps_read_biased_scores(%q: !heads, %k: !heads, %v: !heads, %bias: tensor<8x8xf32>, %mask: tensor<8xf32>) -> (!heads, !scores) {
  %0 = mpc.matmul %q, %k transpose_rhs : (!heads, !heads) -> !scores
  %1 = mpc.add %0, %bias : (!scores, tensor<8x8xf32>) -> !scores
  %2 = mpc.add %1, %mask : (!scores, tensor<8xf32>) -> !scores
  %3 = mpc.softmax %2 axis(2) : !scores
  %4 = mpc.matmul %3, %v : (!scores, !heads) -> !heads
  return %4, %1 : !heads, !scores
}
