// RUN: not mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-fuse-gated-matmuls{block=0}))' 2>&1 | FileCheck %s
// CHECK: mpc-fuse-gated-matmuls: block must be from 1 to 512, found 0
func.func @empty() {
  return
}
