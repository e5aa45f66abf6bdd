// RUN: not mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-decompose{max-steps=0}))' 2>&1 | FileCheck %s

// CHECK: mpc-decompose: max-steps must be at least 1, found 0
func.func @nothing() {
  return
}
