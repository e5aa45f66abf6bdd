// RUN: mpc-opt %s --mpc-set-target=target=cuda:sm_90a | FileCheck %s
// RUN: mpc-opt %s --mpc-set-target=target=cuda:sm_80 --mpc-set-target | FileCheck %s --check-prefix=AGAIN
// RUN: mpc-opt %s --mpc-set-target=target=cpu:native | FileCheck %s --check-prefix=NATIVE
// RUN: not mpc-opt %s --mpc-set-target=target=tpu 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not mpc-opt %s --mpc-pad-contractions=target=tpu 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// A target is an attribute of the module: the letter of an architecture is kept,
// "native" is replaced by this machine's level.

// CHECK: module attributes {exe.target = #exe.target<"cuda:sm_90a">}
// AGAIN: module attributes {exe.target = #exe.target<"cpu:avx512">}
// NATIVE: module attributes {exe.target = #exe.target<"cpu:{{avx2|avxvnni|avx512|avx512vnni|avx512bf16|amx|amxfp16}}">}
// UNKNOWN: target 'tpu' is not one of cpu:avx2, cpu:avxvnni, cpu:avx512, cpu:avx512vnni, cpu:avx512bf16, cpu:amx, cpu:amxfp16, cuda:sm_60,
func.func @f() {
  return
}
