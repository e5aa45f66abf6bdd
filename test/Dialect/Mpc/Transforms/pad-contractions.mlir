// RUN: mpc-opt %s --mpc-set-target=target=cuda:sm_80 --mpc-pad-contractions --mpc-verify-stage=stage=pad --split-input-file | FileCheck %s
// RUN: mpc-opt %s --mpc-set-target=target=cuda:sm_80 --mpc-pad-contractions --split-input-file > %t.once.mlir
// RUN: mpc-opt %t.once.mlir --mpc-set-target=target=cuda:sm_80 --mpc-pad-contractions --split-input-file | diff %t.once.mlir -
// RUN: mpc-opt %s --mpc-set-target=target=cpu:avx512 --mpc-pad-contractions --split-input-file | FileCheck %s --check-prefix=CPU

// The masked edge kernels of a CPU gain nothing from padding.
// CPU-NOT: mpc.padding
// CPU-NOT: mpc.slice

// Two layers: one pad before, one slice after, constants padded with zeros.
// CHECK-LABEL: @chain_is_padded_once(
// CHECK-SAME: %[[X:.*]]: tensor<16x100xbf16>
// CHECK: %[[P:.*]] = mpc.pad %[[X]], %{{.*}} low([0, 0]) high([0, 4])
// CHECK: %[[BIAS:.*]] = mpc.constant dense<[{{.*}}2.000000e+00, 0.000000e+00]> : tensor<16xf32>
// CHECK: %[[M:.*]] = mpc.matmul %[[P]], %{{.*}} {mpc.padding = #mpc.padding<from = [1, 16, 15, 100], to = [1, 16, 16, 104], extra_flops = 5248>} : (tensor<16x104xbf16>, tensor<104x16xbf16>) -> tensor<16x16xf32>
// CHECK: %[[A:.*]] = mpc.add %[[M]], %[[BIAS]]
// CHECK: %[[R:.*]] = mpc.relu %[[A]] : tensor<16x16xf32>
// CHECK: %[[C:.*]] = mpc.cast %[[R]]
// CHECK: %[[N:.*]] = mpc.matmul %[[C]], %{{.*}} {mpc.padding = #mpc.padding<from = [1, 16, 31, 15], to = [1, 16, 32, 16], extra_flops = 1504>}
// CHECK: %[[S:.*]] = mpc.slice %[[N]] [0, 0] [16, 31]
// CHECK-NOT: mpc.slice
// CHECK: return %[[S]]
func.func private @chain_is_padded_once(%x: tensor<16x100xbf16>) -> tensor<16x31xf32> {
  %w = mpc.constant dense<0.5> : tensor<100x15xbf16>
  %b = mpc.constant dense<[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0]> : tensor<15xf32>
  %v = mpc.constant dense<0.25> : tensor<15x31xbf16>
  %0 = mpc.matmul %x, %w : (tensor<16x100xbf16>, tensor<100x15xbf16>) -> tensor<16x15xf32>
  %1 = mpc.add %0, %b : (tensor<16x15xf32>, tensor<15xf32>) -> tensor<16x15xf32>
  %2 = mpc.relu %1 : tensor<16x15xf32>
  %3 = mpc.cast %2 : tensor<16x15xf32> to tensor<16x15xbf16>
  %4 = mpc.matmul %3, %v : (tensor<16x15xbf16>, tensor<15x31xbf16>) -> tensor<16x31xf32>
  return %4 : tensor<16x31xf32>
}

// -----

// A residual shares the width of its layers: nothing is sliced in between.
// CHECK-LABEL: @residual_shares_the_layout(
// CHECK-COUNT-1: mpc.pad
// CHECK-NOT: mpc.slice
// CHECK: mpc.add %{{.*}}, %{{.*}} : (tensor<16x104xf32>, tensor<16x104xf32>) -> tensor<16x104xf32>
// CHECK-NOT: mpc.pad %
// CHECK: mpc.slice %{{.*}} [0, 0] [16, 100]
// CHECK-NEXT: return
func.func private @residual_shares_the_layout(%x: tensor<16x100xf32>) -> tensor<16x100xf32> {
  %w = mpc.constant dense<0.5> : tensor<100x100xbf16>
  %xh = mpc.cast %x : tensor<16x100xf32> to tensor<16x100xbf16>
  %0 = mpc.matmul %xh, %w : (tensor<16x100xbf16>, tensor<100x100xbf16>) -> tensor<16x100xf32>
  %1 = mpc.add %0, %x : (tensor<16x100xf32>, tensor<16x100xf32>) -> tensor<16x100xf32>
  %2 = mpc.gelu %1 : tensor<16x100xf32>
  %3 = mpc.cast %2 : tensor<16x100xf32> to tensor<16x100xbf16>
  %4 = mpc.matmul %3, %w : (tensor<16x100xbf16>, tensor<100x100xbf16>) -> tensor<16x100xf32>
  %5 = mpc.add %4, %1 : (tensor<16x100xf32>, tensor<16x100xf32>) -> tensor<16x100xf32>
  return %5 : tensor<16x100xf32>
}

// -----

// A norm over the width reads and writes the unpadded width.
// CHECK-LABEL: @norm_is_sliced_before(
// CHECK: mpc.slice %{{.*}} [0, 0] [16, 100]
// CHECK: mpc.layer_norm {{.*}} -> tensor<16x100xf32>
// CHECK: mpc.cast {{.*}} to tensor<16x100xbf16>
// CHECK: mpc.pad {{.*}} -> tensor<16x104xbf16>
// CHECK: mpc.matmul {{.*}} -> tensor<16x104xf32>
func.func private @norm_is_sliced_before(%x: tensor<16x104xbf16>) -> tensor<16x100xf32> {
  %u = mpc.constant dense<0.5> : tensor<104x100xbf16>
  %w = mpc.constant dense<0.5> : tensor<100x100xbf16>
  %one = mpc.constant dense<1.0> : tensor<100xf32>
  %0 = mpc.matmul %x, %u : (tensor<16x104xbf16>, tensor<104x100xbf16>) -> tensor<16x100xf32>
  %1 = mpc.layer_norm %0, %one, %one axis(1) epsilon(1.0e-05) : (tensor<16x100xf32>, tensor<100xf32>, tensor<100xf32>) -> tensor<16x100xf32>
  %2 = mpc.cast %1 : tensor<16x100xf32> to tensor<16x100xbf16>
  %3 = mpc.matmul %2, %w : (tensor<16x100xbf16>, tensor<100x100xbf16>) -> tensor<16x100xf32>
  return %3 : tensor<16x100xf32>
}

// -----

// log(0) is not finite: padding does not propagate through it.
// CHECK-LABEL: @log_is_sliced_before(
// CHECK: mpc.matmul {{.*}} -> tensor<16x104xf32>
// CHECK: mpc.slice {{.*}} to tensor<16x100xf32>
// CHECK: mpc.log %{{.*}} : tensor<16x100xf32>
func.func private @log_is_sliced_before(%x: tensor<16x104xbf16>) -> tensor<16x100xf32> {
  %u = mpc.constant dense<0.5> : tensor<104x100xbf16>
  %0 = mpc.matmul %x, %u : (tensor<16x104xbf16>, tensor<104x100xbf16>) -> tensor<16x100xf32>
  %1 = mpc.log %0 : tensor<16x100xf32>
  return %1 : tensor<16x100xf32>
}

// -----

// After a value is broadcast over the padding columns, exp of them is unknown:
// they are masked before the sum. A constant divisor is padded with ones.
// CHECK-LABEL: @masked_before_a_sum(
// CHECK: %[[DIVISOR:.*]] = mpc.constant dense<[{{.*}}4.000000e+00, 1.000000e+00]> : tensor<16xf32>
// CHECK: mpc.div %{{.*}}, %[[DIVISOR]]
// CHECK: %[[E:.*]] = mpc.exp
// CHECK: %[[C:.*]] = mpc.cast %[[E]]
// CHECK: %[[OLD:.*]] = mpc.constant dense<[{{.*}}true, false]> : tensor<16xi1>
// CHECK: %[[M:.*]] = mpc.select %[[OLD]], %[[C]], %{{.*}}
// CHECK: mpc.matmul %[[M]]
func.func private @masked_before_a_sum(%x: tensor<16x104xbf16>, %r: tensor<16x1xf32>) -> tensor<16x31xf32> {
  %u = mpc.constant dense<0.5> : tensor<104x15xbf16>
  %w = mpc.constant dense<0.5> : tensor<15x31xbf16>
  %d = mpc.constant dense<[2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 4.0]> : tensor<15xf32>
  %0 = mpc.matmul %x, %u : (tensor<16x104xbf16>, tensor<104x15xbf16>) -> tensor<16x15xf32>
  %1 = mpc.add %0, %r : (tensor<16x15xf32>, tensor<16x1xf32>) -> tensor<16x15xf32>
  %2 = mpc.div %1, %d : (tensor<16x15xf32>, tensor<15xf32>) -> tensor<16x15xf32>
  %3 = mpc.exp %2 : tensor<16x15xf32>
  %4 = mpc.cast %3 : tensor<16x15xf32> to tensor<16x15xbf16>
  %5 = mpc.matmul %4, %w : (tensor<16x15xbf16>, tensor<15x31xbf16>) -> tensor<16x31xf32>
  return %5 : tensor<16x31xf32>
}

// -----

// exp(sigmoid(0)) is constant and finite: the zeros of the weights after it suffice.
// CHECK-LABEL: @no_mask_for_known_values(
// CHECK: mpc.exp
// CHECK-NOT: mpc.select
// CHECK: return
func.func private @no_mask_for_known_values(%x: tensor<16x104xbf16>) -> tensor<16x31xf32> {
  %u = mpc.constant dense<0.5> : tensor<104x15xbf16>
  %w = mpc.constant dense<0.5> : tensor<15x31xbf16>
  %0 = mpc.matmul %x, %u : (tensor<16x104xbf16>, tensor<104x15xbf16>) -> tensor<16x15xbf16>
  %1 = mpc.sigmoid %0 : tensor<16x15xbf16>
  %2 = mpc.exp %1 : tensor<16x15xbf16>
  %3 = mpc.matmul %2, %w : (tensor<16x15xbf16>, tensor<15x31xbf16>) -> tensor<16x31xf32>
  return %3 : tensor<16x31xf32>
}

// -----

// Attention ignores padded keys; heads are padded one by one through the reshape.
// CHECK-LABEL: @attention_is_masked(
// CHECK: mpc.matmul {{.*}} -> tensor<40x120xbf16>
// CHECK: mpc.reshape {{.*}} to tensor<40x5x24xbf16>
// CHECK: mpc.transpose {{.*}} to tensor<5x40x24xbf16>
// CHECK: %[[OLD:.*]] = mpc.constant {{.*}} : tensor<40xi1>
// CHECK: mpc.attention {{.*}} mask(%[[OLD]]) scale(5.000000e-01) {mpc.padding = #mpc.padding<from = [5, 33, 33, 20], to = [5, 40, 40, 24]
// CHECK: mpc.reshape {{.*}} to tensor<40x120xbf16>
// CHECK: mpc.matmul {{.*}} : (tensor<40x120xbf16>, tensor<120x104xbf16>)
func.func private @attention_is_masked(%x: tensor<33x100xbf16>) -> tensor<33x100xbf16> {
  %w = mpc.constant dense<0.5> : tensor<100x100xbf16>
  %0 = mpc.matmul %x, %w : (tensor<33x100xbf16>, tensor<100x100xbf16>) -> tensor<33x100xbf16>
  %1 = mpc.reshape %0 : tensor<33x100xbf16> to tensor<33x5x20xbf16>
  %2 = mpc.transpose %1 [1, 0, 2] : tensor<33x5x20xbf16> to tensor<5x33x20xbf16>
  %3 = mpc.attention %2, %2, %2 scale(0.5) : (tensor<5x33x20xbf16>, tensor<5x33x20xbf16>, tensor<5x33x20xbf16>) -> tensor<5x33x20xbf16>
  %4 = mpc.transpose %3 [1, 0, 2] : tensor<5x33x20xbf16> to tensor<33x5x20xbf16>
  %5 = mpc.reshape %4 : tensor<33x5x20xbf16> to tensor<33x100xbf16>
  %6 = mpc.matmul %5, %w : (tensor<33x100xbf16>, tensor<100x100xbf16>) -> tensor<33x100xbf16>
  return %6 : tensor<33x100xbf16>
}

// -----

// A mask that the graph computes from a flag over the padded sequence: `not` of the
// flag's padding is true, so the padded keys are hidden again.
// CHECK-LABEL: @computed_mask_hides_padded_keys(
// CHECK: %[[KEEP:.*]] = mpc.not %{{.*}} : tensor<40xi1>
// CHECK: %[[OLD:.*]] = mpc.constant dense<[{{.*}}true, false, false, false, false, false, false, false]> : tensor<40xi1>
// CHECK: %[[MASK:.*]] = mpc.and %[[KEEP]], %[[OLD]]
// CHECK: mpc.attention {{.*}} mask(%[[MASK]])
func.func private @computed_mask_hides_padded_keys(%x: tensor<5x33x20xbf16>, %ignore: tensor<33xi1>) -> tensor<5x33x20xbf16> {
  %zero = mpc.constant dense<0.0> : tensor<bf16>
  %keep = mpc.not %ignore : tensor<33xi1>
  %rows = mpc.reshape %keep : tensor<33xi1> to tensor<33x1xi1>
  %gated = mpc.select %rows, %x, %zero : (tensor<33x1xi1>, tensor<5x33x20xbf16>, tensor<bf16>) -> tensor<5x33x20xbf16>
  %0 = mpc.attention %gated, %gated, %gated mask(%keep) scale(0.5) : (tensor<5x33x20xbf16>, tensor<5x33x20xbf16>, tensor<5x33x20xbf16>, tensor<33xi1>) -> tensor<5x33x20xbf16>
  return %0 : tensor<5x33x20xbf16>
}

// -----

// The same with an additive mask, whose padding elements are 0, and with one whose
// padding elements already are minus infinity.
// CHECK-LABEL: @additive_masks_hide_padded_keys(
// CHECK: %[[PLAIN:.*]] = mpc.select %{{.*}}, %{{.*}}, %{{.*}} : (tensor<40xi1>, tensor<f32>, tensor<f32>) -> tensor<40xf32>
// CHECK: %[[HIDING:.*]] = mpc.select %{{.*}}, %{{.*}}, %{{.*}} : (tensor<40xi1>, tensor<f32>, tensor<f32>) -> tensor<40xf32>
// CHECK: %[[MASK:.*]] = mpc.select %{{.*}}, %[[PLAIN]], %{{.*}} : (tensor<40xi1>, tensor<40xf32>, tensor<f32>) -> tensor<40xf32>
// CHECK: mpc.attention {{.*}} mask(%[[MASK]])
// CHECK: mpc.attention {{.*}} mask(%[[HIDING]])
func.func private @additive_masks_hide_padded_keys(%x: tensor<5x33x20xbf16>, %flag: tensor<33xi1>) -> (tensor<5x33x20xbf16>, tensor<5x33x20xbf16>) {
  %zero = mpc.constant dense<0.0> : tensor<bf16>
  %none = mpc.constant dense<0.0> : tensor<f32>
  %hide = mpc.constant dense<0xFF800000> : tensor<f32>
  %plain = mpc.select %flag, %hide, %none : (tensor<33xi1>, tensor<f32>, tensor<f32>) -> tensor<33xf32>
  %hiding = mpc.select %flag, %none, %hide : (tensor<33xi1>, tensor<f32>, tensor<f32>) -> tensor<33xf32>
  %rows = mpc.reshape %flag : tensor<33xi1> to tensor<33x1xi1>
  %gated = mpc.select %rows, %x, %zero : (tensor<33x1xi1>, tensor<5x33x20xbf16>, tensor<bf16>) -> tensor<5x33x20xbf16>
  %0 = mpc.attention %gated, %gated, %gated mask(%plain) scale(0.5) : (tensor<5x33x20xbf16>, tensor<5x33x20xbf16>, tensor<5x33x20xbf16>, tensor<33xf32>) -> tensor<5x33x20xbf16>
  %1 = mpc.attention %gated, %gated, %gated mask(%hiding) scale(0.5) : (tensor<5x33x20xbf16>, tensor<5x33x20xbf16>, tensor<5x33x20xbf16>, tensor<33xf32>) -> tensor<5x33x20xbf16>
  return %0, %1 : tensor<5x33x20xbf16>, tensor<5x33x20xbf16>
}

// -----

// Channels of a conv: 30 filters become 32, which the next conv reads. The adjacent
// grouped conv is unchanged.
// CHECK-LABEL: @channels_are_padded(
// CHECK: mpc.conv {{.*}}mpc.padding = #mpc.padding<from = [1, 64, 30, 144], to = [1, 64, 32, 144], extra_flops = 36864>{{.*}} -> tensor<1x32x8x8xf32>
// CHECK: mpc.conv {{.*}}mpc.padding{{.*}} : (tensor<1x32x8x8xbf16>, tensor<16x32x3x3xbf16>) -> tensor<1x16x8x8xf32>
// CHECK: mpc.conv {{.*}} groups(2) : (tensor<1x16x8x8xbf16>, tensor<30x8x3x3xbf16>) -> tensor<1x30x8x8xf32>
func.func private @channels_are_padded(%x: tensor<1x16x8x8xbf16>) -> tensor<1x30x8x8xf32> {
  %f = mpc.constant dense<0.5> : tensor<30x16x3x3xbf16>
  %g = mpc.constant dense<0.5> : tensor<16x30x3x3xbf16>
  %h = mpc.constant dense<0.5> : tensor<30x8x3x3xbf16>
  %0 = mpc.conv %x, %f strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) : (tensor<1x16x8x8xbf16>, tensor<30x16x3x3xbf16>) -> tensor<1x30x8x8xf32>
  %1 = mpc.relu %0 : tensor<1x30x8x8xf32>
  %2 = mpc.cast %1 : tensor<1x30x8x8xf32> to tensor<1x30x8x8xbf16>
  %3 = mpc.conv %2, %g strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) : (tensor<1x30x8x8xbf16>, tensor<16x30x3x3xbf16>) -> tensor<1x16x8x8xf32>
  %4 = mpc.cast %3 : tensor<1x16x8x8xf32> to tensor<1x16x8x8xbf16>
  %5 = mpc.conv %4, %h strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) groups(2) : (tensor<1x16x8x8xbf16>, tensor<30x8x3x3xbf16>) -> tensor<1x30x8x8xf32>
  return %5 : tensor<1x30x8x8xf32>
}

// -----

// Refused by the bound: a conv of one channel, a matmul of three columns, f32
// without a compute mode.
// CHECK-LABEL: @no_padding_that_costs_more(
// CHECK-NOT: mpc.padding
// CHECK: return
func.func private @no_padding_that_costs_more(%x: tensor<1x1x8x8xbf16>, %y: tensor<64x512xbf16>, %z: tensor<16x100xf32>)
    -> (tensor<1x32x6x6xf32>, tensor<64x3xf32>, tensor<16x15xf32>) {
  %f = mpc.constant dense<0.5> : tensor<32x1x3x3xbf16>
  %w = mpc.constant dense<0.5> : tensor<512x3xbf16>
  %v = mpc.constant dense<0.5> : tensor<100x15xf32>
  %0 = mpc.conv %x, %f strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) : (tensor<1x1x8x8xbf16>, tensor<32x1x3x3xbf16>) -> tensor<1x32x6x6xf32>
  %1 = mpc.matmul %y, %w : (tensor<64x512xbf16>, tensor<512x3xbf16>) -> tensor<64x3xf32>
  %2 = mpc.matmul %z, %v : (tensor<16x100xf32>, tensor<100x15xf32>) -> tensor<16x15xf32>
  return %0, %1, %2 : tensor<1x32x6x6xf32>, tensor<64x3xf32>, tensor<16x15xf32>
}

// -----

// tf32 wants multiples of 4.
// CHECK-LABEL: @tf32_wants_four(
// CHECK: mpc.matmul {{.*}} compute(tf32) {mpc.padding = #mpc.padding<from = [1, 16, 10, 100], to = [1, 16, 12, 100], extra_flops = 6400>}
func.func private @tf32_wants_four(%z: tensor<16x100xf32>) -> tensor<16x10xf32> {
  %v = mpc.constant dense<0.5> : tensor<100x10xf32>
  %0 = mpc.matmul %z, %v compute(tf32) : (tensor<16x100xf32>, tensor<100x10xf32>) -> tensor<16x10xf32>
  return %0 : tensor<16x10xf32>
}

// -----

// Both gradients of a conv: its filter's input and output channels, the channels that
// conv_transpose sums over and its output channels.
// CHECK-LABEL: @gradients_of_a_conv(
// CHECK: mpc.conv_filter_gradient {{.*}}mpc.padding = #mpc.padding<from = [1, 30, 270, 2048], to = [1, 32, 288, 2048], extra_flops = {{.*}} -> tensor<32x32x3x3xf32>
// CHECK: mpc.slice {{.*}} to tensor<30x30x3x3xf32>
// CHECK: mpc.conv_transpose {{.*}}mpc.padding = #mpc.padding<from = [8, 256, 30, 270], to = [8, 256, 32, 288], extra_flops = {{.*}} -> tensor<8x32x16x16xf32>
// CHECK: mpc.slice {{.*}} to tensor<8x30x16x16xf32>
func.func private @gradients_of_a_conv(%x: tensor<8x30x16x16xbf16>, %g: tensor<8x30x16x16xbf16>, %w: tensor<30x30x3x3xbf16>)
    -> (tensor<30x30x3x3xf32>, tensor<8x30x16x16xf32>) {
  %0 = mpc.conv_filter_gradient %x, %g strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) : (tensor<8x30x16x16xbf16>, tensor<8x30x16x16xbf16>) -> tensor<30x30x3x3xf32>
  %1 = mpc.conv_transpose %g, %w strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) output_padding([0, 0]) : (tensor<8x30x16x16xbf16>, tensor<30x30x3x3xbf16>) -> tensor<8x30x16x16xf32>
  return %0, %1 : tensor<30x30x3x3xf32>, tensor<8x30x16x16xf32>
}

// -----

// The gradient of attention: rows of its gradient are zero where padded, padded keys
// are hidden, and every gradient is sliced.
// CHECK-LABEL: @gradient_of_attention(
// CHECK: %[[OLD:.*]] = mpc.constant {{.*}} : tensor<40xi1>
// CHECK: %[[Q:.*]], %[[K:.*]], %[[V:.*]] = mpc.attention_gradient {{.*}} mask(%[[OLD]]) scale(5.000000e-01) {mpc.padding = #mpc.padding<from = [5, 33, 33, 20], to = [5, 40, 40, 24]
// CHECK-DAG: mpc.slice %[[Q]] {{.*}} to tensor<5x33x20xbf16>
// CHECK-DAG: mpc.slice %[[K]] {{.*}} to tensor<5x33x20xbf16>
// CHECK-DAG: mpc.slice %[[V]] {{.*}} to tensor<5x33x20xbf16>
func.func private @gradient_of_attention(%q: tensor<5x33x20xbf16>, %g: tensor<5x33x20xbf16>)
    -> (tensor<5x33x20xbf16>, tensor<5x33x20xbf16>, tensor<5x33x20xbf16>) {
  %0:3 = mpc.attention_gradient %q, %q, %q, %g scale(0.5) : (tensor<5x33x20xbf16>, tensor<5x33x20xbf16>, tensor<5x33x20xbf16>, tensor<5x33x20xbf16>) -> (tensor<5x33x20xbf16>, tensor<5x33x20xbf16>, tensor<5x33x20xbf16>)
  return %0#0, %0#1, %0#2 : tensor<5x33x20xbf16>, tensor<5x33x20xbf16>, tensor<5x33x20xbf16>
}

// -----

// A recurrent layer is unrolled, and its matmuls are padded: 13 inputs, and 30 units
// in each of the gates. The state between steps is padded as well.
// CHECK-LABEL: @products_of_an_lstm(
// CHECK: mpc.matmul {{.*}}mpc.padding{{.*}} : (tensor<2x8x16xbf16>, tensor<128x16xbf16>) -> tensor<2x8x128xf32>
// CHECK: mpc.matmul {{.*}}mpc.padding{{.*}} : (tensor<8x32xbf16>, tensor<128x32xbf16>) -> tensor<8x128xf32>
// CHECK: mpc.slice {{.*}} : tensor<8x128xf32> to tensor<8x32xf32>
// CHECK: mpc.matmul {{.*}}mpc.padding{{.*}} : (tensor<8x32xbf16>, tensor<128x32xbf16>) -> tensor<8x128xf32>
func.func private @products_of_an_lstm(%x: tensor<2x8x13xbf16>) -> tensor<2x1x8x30xf32> {
  %w = mpc.constant dense<0.5> : tensor<1x120x13xbf16>
  %r = mpc.constant dense<0.25> : tensor<1x120x30xbf16>
  %0:3 = mpc.lstm %x, %w, %r : (tensor<2x8x13xbf16>, tensor<1x120x13xbf16>, tensor<1x120x30xbf16>) -> (tensor<2x1x8x30xf32>, tensor<1x8x30xf32>, tensor<1x8x30xf32>)
  return %0#0 : tensor<2x1x8x30xf32>
}

// -----

// The gates of a GRU are two and one of three equal parts.
// CHECK-LABEL: @products_of_a_gru(
// CHECK: mpc.matmul {{.*}} : (tensor<2x8x16xbf16>, tensor<96x16xbf16>) -> tensor<2x8x96xf32>
// CHECK: mpc.matmul {{.*}} : (tensor<8x32xbf16>, tensor<64x32xbf16>) -> tensor<8x64xf32>
// CHECK: mpc.matmul {{.*}} : (tensor<8x32xbf16>, tensor<32x32xbf16>) -> tensor<8x32xf32>
func.func private @products_of_a_gru(%x: tensor<2x8x13xbf16>) -> tensor<2x1x8x30xf32> {
  %w = mpc.constant dense<0.5> : tensor<1x90x13xbf16>
  %r = mpc.constant dense<0.25> : tensor<1x90x30xbf16>
  %0:2 = mpc.gru %x, %w, %r : (tensor<2x8x13xbf16>, tensor<1x90x13xbf16>, tensor<1x90x30xbf16>) -> (tensor<2x1x8x30xf32>, tensor<1x8x30xf32>)
  return %0#0 : tensor<2x1x8x30xf32>
}
