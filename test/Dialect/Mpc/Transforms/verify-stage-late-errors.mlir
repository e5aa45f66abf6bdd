// RUN: split-file %s %t
// RUN: mpc-opt %t/precision.mlir --mpc-verify-stage=stage=precision --verify-diagnostics --split-input-file
// RUN: mpc-opt %t/pad.mlir --mpc-verify-stage=stage=pad --verify-diagnostics --split-input-file
// RUN: mpc-opt %t/layout.mlir --mpc-verify-stage=stage=layout --verify-diagnostics --split-input-file
// RUN: mpc-opt %t/fuse.mlir --mpc-verify-stage=stage=fuse --verify-diagnostics --split-input-file

//--- precision.mlir
func.func private @no_decision(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{carries no 'mpc.decision'}}
  %0 = mpc.relu %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func private @narrow_softmax(%x: tensor<4xbf16>) -> tensor<4xbf16> {
  // expected-error @below {{computes in 'bf16'; softmax is f32 unless an override says otherwise}}
  %0 = mpc.softmax %x axis(0) {mpc.decision = #mpc.decision<rule = "follow", list = "mixed_bfloat16">} : tensor<4xbf16>
  return %0 : tensor<4xbf16>
}

// -----

// An f32 list entry is no excuse, whoever wrote it; the rules of
// imitated systems are.
func.func private @narrow_softmax_of_imitation(%x: tensor<4xbf16>) -> (tensor<4xbf16>, tensor<4xbf16>) {
  // expected-error @below {{computes in 'bf16'; softmax is f32 unless an override says otherwise}}
  %0 = mpc.softmax %x axis(0) {mpc.decision = #mpc.decision<rule = "high_result", list = "torch_autocast_cuda_bfloat16">} : tensor<4xbf16>
  %1 = mpc.softmax %x axis(0) {mpc.decision = #mpc.decision<rule = "follow", list = "torch_autocast_cpu_bfloat16">} : tensor<4xbf16>
  return %0, %1 : tensor<4xbf16>, tensor<4xbf16>
}

//--- layout.mlir
func.func private @channels_first(%x: tensor<1x1x4xf32>) -> tensor<1x1x2xf32> {
  // expected-error @below {{is channels_first after the layout stage}}
  %0 = mpc.max_pool %x window([2]) strides([2]) pad([0], [0]) dilations([1]) : tensor<1x1x4xf32> -> tensor<1x1x2xf32>
  return %0 : tensor<1x1x2xf32>
}

//--- fuse.mlir
func.func private @outside(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{is not inside a fusion}}
  %0 = mpc.relu %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// The matmul's kernel should have rounded its result.
func.func private @stray_cast(%x: tensor<4x4xbf16>) -> tensor<4x4xbf16> {
  %0 = mpc.fusion kind(contraction) name("matmul") (%a = %x : tensor<4x4xbf16>) -> tensor<4x4xf32> {
    // expected-note @below {{the kernel of this op should contain the cast}}
    %2 = mpc.matmul %a, %a : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xf32>
    mpc.yield %2 : tensor<4x4xf32>
  }
  // expected-error @below {{is a cast kernel, but the cost model assumed that the cast is fused}}
  %1 = mpc.fusion kind(elementwise) name("cast") (%a = %0 : tensor<4x4xf32>) -> tensor<4x4xbf16> {
    %2 = mpc.cast %a : tensor<4x4xf32> to tensor<4x4xbf16>
    mpc.yield %2 : tensor<4x4xbf16>
  }
  return %1 : tensor<4x4xbf16>
}

// -----

// The cast of a program input has no kernel to be fused into.
func.func private @input_cast(%x: tensor<4x4xf32>) -> tensor<4x4xbf16> {
  %0 = mpc.fusion kind(elementwise) name("cast") (%a = %x : tensor<4x4xf32>) -> tensor<4x4xbf16> {
    %2 = mpc.cast %a : tensor<4x4xf32> to tensor<4x4xbf16>
    mpc.yield %2 : tensor<4x4xbf16>
  }
  return %0 : tensor<4x4xbf16>
}

//--- pad.mlir

func.func private @padded_relu(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // expected-error @below {{carries 'mpc.padding' but is not a contraction}}
  %0 = mpc.relu %x {mpc.padding = #mpc.padding<from = [1, 7, 8, 8], to = [1, 8, 8, 8], extra_flops = 8>} : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// -----

func.func private @three_extents(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // expected-error @below {{carries 'mpc.padding' without four extents before and after}}
  %0 = mpc.matmul %x, %x {mpc.padding = #mpc.padding<from = [7, 8, 8], to = [8, 8, 8], extra_flops = 8>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// -----

func.func private @shrinks(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // expected-error @below {{carries 'mpc.padding' with an extent that shrinks from 9 to 8}}
  %0 = mpc.matmul %x, %x {mpc.padding = #mpc.padding<from = [1, 9, 8, 8], to = [1, 8, 8, 8], extra_flops = 8>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
