// Each decision is a remark with the bytes, the launches and the time of the model: an
// A100 copies 1555 GB/s, and a node of a graph takes 1.25 us.
// RUN: mpc-opt %s --mpc-set-target=target=cuda:sm_80 --mpc-fuse=report -o /dev/null 2>&1 | FileCheck %s
// Without the option there is no report.
// RUN: mpc-opt %s --mpc-set-target=target=cuda:sm_80 --mpc-fuse -o /dev/null 2>&1 | FileCheck %s --check-prefix=SILENT --allow-empty
// SILENT-NOT: remark

// The sum is neither written nor read; ReLU likewise.
// CHECK: remark: 'matmul' takes add 'add' as epilogue: 1.334 us, 131072 bytes, 1 launch
// CHECK: remark: 'matmul' takes relu 'relu' as epilogue: 1.334 us, 131072 bytes, 1 launch
func.func @epilogue(%x: tensor<128x64xbf16>, %w: tensor<64x128xbf16>, %b: tensor<128xf32>) -> tensor<128x128xf32> {
  %0 = mpc.matmul %x, %w : (tensor<128x64xbf16>, tensor<64x128xbf16>) -> tensor<128x128xf32>
  %1 = mpc.add %0, %b : (tensor<128x128xf32>, tensor<128xf32>) -> tensor<128x128xf32>
  %2 = mpc.relu %1 : tensor<128x128xf32>
  return %2 : tensor<128x128xf32>
}

// Fusions are in order of savings, not of position: the large sum before the small
// one.
// CHECK: remark: {{.*}}'large' takes add 'add' as epilogue: 1.587 us, 524288 bytes, 1 launch
// CHECK: remark: {{.*}}'small' takes add 'add' as epilogue: 1.255 us, 8192 bytes, 1 launch
func.func @largest_first(%x: tensor<8x64xbf16>, %y: tensor<512x64xbf16>, %w: tensor<64x128xbf16>, %b: tensor<128xf32>) -> (tensor<8x128xf32>, tensor<512x128xf32>) {
  %0 = mpc.matmul %x, %w : (tensor<8x64xbf16>, tensor<64x128xbf16>) -> tensor<8x128xf32> loc("small")
  %1 = mpc.add %0, %b : (tensor<8x128xf32>, tensor<128xf32>) -> tensor<8x128xf32>
  %2 = mpc.matmul %y, %w : (tensor<512x64xbf16>, tensor<64x128xbf16>) -> tensor<512x128xf32> loc("large")
  %3 = mpc.add %2, %b : (tensor<512x128xf32>, tensor<128xf32>) -> tensor<512x128xf32>
  return %1, %3 : tensor<8x128xf32>, tensor<512x128xf32>
}

// 256 blocks of columns would each load the input in 32 bits: a separate kernel that casts
// it once is cheaper.
// CHECK: remark: 'matmul' leaves cast 'cast' as operand, it costs more than it saves: -
func.func @too_many_passes(%x: tensor<4096x768xf32>, %w: tensor<768x65536xbf16>) -> tensor<4096x65536xf32> {
  %0 = mpc.cast %x : tensor<4096x768xf32> to tensor<4096x768xbf16>
  %1 = mpc.matmul %0, %w : (tensor<4096x768xbf16>, tensor<768x65536xbf16>) -> tensor<4096x65536xf32>
  return %1 : tensor<4096x65536xf32>
}

// The sum depends on the norm, and the norm on the matmul.
// CHECK: remark: 'matmul' leaves add 'add' as epilogue, there is a kernel between them: 1.250 us, 256 bytes, 1 launch
// CHECK: remark: 'layer_norm' takes add 'add' as epilogue: 1.250 us, 768 bytes, 1 launch
func.func @cycle(%x: tensor<8x8xf32>, %s: tensor<8xf32>) -> tensor<8x8xf32> {
  %0 = mpc.matmul %x, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = mpc.layer_norm %0, %s axis(1) epsilon(1.0e-5) : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8x8xf32>
  %2 = mpc.add %0, %1 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}
