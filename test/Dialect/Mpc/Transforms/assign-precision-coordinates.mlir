// RUN: mpc-opt %s --mpc-assign-precision=policy=mixed_bfloat16 | FileCheck %s
// RUN: mpc-opt %s --mpc-assign-precision=policy=bfloat16 | FileCheck %s --check-prefix=ALL
// RUN: mpc-opt %s --mpc-assign-precision="policy=mixed_bfloat16 set=op:matmul=bfloat16" | FileCheck %s --check-prefix=SET
// RUN: mpc-opt %s --mpc-assign-precision=policy=torch_autocast_cuda_bfloat16 | FileCheck %s --check-prefix=TORCH

// An affine map of positions, sampled by floor: in bf16 the grid of 256 positions would be off
// by a quarter of one.
// CHECK-LABEL: func.func @grid(
// CHECK: mpc.matmul {{.*}}"an index, a length or a count depends on it"{{.*}} : (tensor<1x65536x3xf32>, tensor<1x3x2xf32>)
// CHECK-NOT: bf16
// CHECK: mpc.sub {{.*}} : (tensor<1x65536x2xf32>, tensor<1x65536x2xf32>)
// ALL-LABEL: func.func @grid(
// ALL: mpc.matmul {{.*}} : (tensor<1x65536x3xf32>, tensor<1x3x2xf32>)
// ALL: %[[P:.*]] = mpc.mul {{.*}} -> tensor<1x65536x2xf32>
// ALL: mpc.floor %[[P]] {{.*}} : tensor<1x65536x2xf32>
// SET-LABEL: func.func @grid(
// SET: mpc.matmul {{.*}} : (tensor<1x65536x3xbf16>, tensor<1x3x2xbf16>)
// TORCH-LABEL: func.func @grid(
// TORCH: mpc.matmul {{.*}} : (tensor<1x65536x3xbf16>, tensor<1x3x2xbf16>)
func.func @grid(%theta: tensor<1x3x2xf32>, %base: tensor<1x65536x3xf32>, %image: tensor<65536xf32>) -> tensor<1x65536x2xf32> {
  %half = mpc.constant dense<128.0> : tensor<f32>
  %0 = mpc.matmul %base, %theta : (tensor<1x65536x3xf32>, tensor<1x3x2xf32>) -> tensor<1x65536x2xf32> loc("grid")
  %1 = mpc.mul %0, %half : (tensor<1x65536x2xf32>, tensor<f32>) -> tensor<1x65536x2xf32> loc("positions")
  %2 = mpc.floor %1 : tensor<1x65536x2xf32>
  %3 = mpc.cast %2 : tensor<1x65536x2xf32> to tensor<1x65536x2xi64>
  %4 = mpc.sub %1, %2 : (tensor<1x65536x2xf32>, tensor<1x65536x2xf32>) -> tensor<1x65536x2xf32>
  %5 = mpc.gather %image, %3 axis(0) : (tensor<65536xf32>, tensor<1x65536x2xi64>) -> tensor<1x65536x2xf32>
  %6 = mpc.mul %5, %4 : (tensor<1x65536x2xf32>, tensor<1x65536x2xf32>) -> tensor<1x65536x2xf32>
  return %6 : tensor<1x65536x2xf32>
}

// The same after a layer that predicts the map: the layer follows the policy, its result is
// not rounded.
// CHECK-LABEL: func.func @transformer(
// CHECK: mpc.matmul {{.*}} : (tensor<8x512xbf16>, tensor<512x6xbf16>) -> tensor<8x6xf32>
// CHECK-NOT: bf16
// CHECK: mpc.matmul {{.*}} : (tensor<8x4096x3xf32>, tensor<8x3x2xf32>)
// CHECK-NOT: bf16
// CHECK: return
func.func @transformer(%x: tensor<8x512xf32>, %w: tensor<512x6xf32>, %base: tensor<8x4096x3xf32>) -> tensor<8x4096x2xi64> {
  %0 = mpc.matmul %x, %w : (tensor<8x512xf32>, tensor<512x6xf32>) -> tensor<8x6xf32>
  %1 = mpc.reshape %0 : tensor<8x6xf32> to tensor<8x3x2xf32>
  %2 = mpc.matmul %base, %1 : (tensor<8x4096x3xf32>, tensor<8x3x2xf32>) -> tensor<8x4096x2xf32>
  %3 = mpc.round %2 : tensor<8x4096x2xf32>
  %4 = mpc.cast %3 : tensor<8x4096x2xf32> to tensor<8x4096x2xi64>
  return %4 : tensor<8x4096x2xi64>
}

// Fourier features of three coordinates.
// CHECK-LABEL: func.func @features(
// CHECK: mpc.matmul {{.*}}"an angle that grows with the position"{{.*}} : (tensor<4096x3xf32>, tensor<3x64xf32>)
// CHECK: mpc.mul {{.*}} -> tensor<4096x64xf32>
// CHECK: mpc.sin {{.*}} : tensor<4096x64xf32>
// SET-LABEL: func.func @features(
// SET: mpc.matmul {{.*}} : (tensor<4096x3xbf16>, tensor<3x64xbf16>)
func.func @features(%x: tensor<4096x3xf32>) -> tensor<4096x64xf32> {
  %b = mpc.constant dense<9.7> : tensor<3x64xf32>
  %turn = mpc.constant dense<6.2831853> : tensor<f32>
  %0 = mpc.matmul %x, %b : (tensor<4096x3xf32>, tensor<3x64xf32>) -> tensor<4096x64xf32> loc("projection")
  %1 = mpc.mul %0, %turn : (tensor<4096x64xf32>, tensor<f32>) -> tensor<4096x64xf32>
  %2 = mpc.sin %1 : tensor<4096x64xf32>
  return %2 : tensor<4096x64xf32>
}

// Few terms that become neither: an ordinary layer, and a rotation of points.
// CHECK-LABEL: func.func @layers(
// CHECK: mpc.matmul {{.*}} : (tensor<64x5xbf16>, tensor<5x4xbf16>)
// CHECK: mpc.matmul {{.*}} : (tensor<64x4xbf16>, tensor<4x64xbf16>)
func.func @layers(%x: tensor<64x5xf32>, %w: tensor<5x4xf32>, %v: tensor<4x64xf32>) -> tensor<64x64xf32> {
  %0 = mpc.matmul %x, %w : (tensor<64x5xf32>, tensor<5x4xf32>) -> tensor<64x4xf32>
  %1 = mpc.relu %0 : tensor<64x4xf32>
  %2 = mpc.matmul %1, %v : (tensor<64x4xf32>, tensor<4x64xf32>) -> tensor<64x64xf32>
  return %2 : tensor<64x64xf32>
}

// Three halvings of a length under a policy that rounds every op.
// ALL-LABEL: func.func @lengths(
// ALL-NOT: bf16
// ALL: return
func.func @lengths(%n: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi64>) {
  %half = mpc.constant dense<0.5> : tensor<f32>
  %0 = mpc.mul %n, %half : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = mpc.floor %0 : tensor<4xf32>
  %2 = mpc.mul %1, %half : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %3 = mpc.floor %2 : tensor<4xf32>
  %4 = mpc.cast %3 : tensor<4xf32> to tensor<4xi64>
  return %3, %4 : tensor<4xf32>, tensor<4xi64>
}
