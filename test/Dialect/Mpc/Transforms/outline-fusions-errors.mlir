// RUN: mpc-opt %s --split-input-file --verify-diagnostics --mpc-outline-fusions

func.func @unmarked(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{'mpc.exp' op is in no group; run mpc-select-fusion-groups before}}
  %0 = mpc.exp %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @cycle(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = mpc.exp %x {mpc.group = 0 : i64} : tensor<4xf32>
  %1 = mpc.abs %0 {mpc.group = 1 : i64} : tensor<4xf32>
  // expected-error @below {{'mpc.neg' op is in group 0, which depends on a group that depends on it}}
  %2 = mpc.neg %1 {mpc.group = 0 : i64} : tensor<4xf32>
  return %2 : tensor<4xf32>
}
