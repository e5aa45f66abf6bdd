// RUN: not mpc-opt %s --pass-pipeline='builtin.module(func.func(mpc-pack-constants{columns=5}))' 2>&1 | FileCheck %s

// CHECK: mpc-pack-constants: columns must be an even number from 2 to 1024, found 5
func.func @nothing() {
  return
}
