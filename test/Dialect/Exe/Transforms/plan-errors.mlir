// RUN: mpc-opt %s --mpc-plan --verify-diagnostics --split-input-file

func.func @not_fused(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{'mpc.exp' is in no fusion; run mpc-fuse before mpc-plan}}
  %0 = mpc.exp %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// expected-error @below {{mpc-plan needs tensors of static shape, found 'tensor<?xf32>'}}
func.func @dynamic(%x: tensor<?xf32>) -> tensor<?xf32> {
  return %x : tensor<?xf32>
}

// -----

// A slice that starts at an unaligned offset cannot be a view.
func.func @unaligned_part(%x: tensor<4x3xf32>) -> tensor<1x3xf32> {
  %0 = mpc.fusion kind(elementwise) name("exp") (%p = %x : tensor<4x3xf32>) -> tensor<4x3xf32> {
    %r = mpc.exp %p : tensor<4x3xf32>
    mpc.yield %r : tensor<4x3xf32>
  }
  // expected-error @below {{'mpc.slice' is in no fusion; run mpc-fuse before mpc-plan}}
  %1 = mpc.slice %0 [1, 0] [1, 3] : tensor<4x3xf32> to tensor<1x3xf32>
  return %1 : tensor<1x3xf32>
}
