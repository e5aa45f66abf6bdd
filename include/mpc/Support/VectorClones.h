//===- VectorClones.h - functions for several CPU levels --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_SUPPORT_VECTORCLONES_H
#define MPC_SUPPORT_VECTORCLONES_H

/// Compiles a function once more for AVX2 and AVX-512 and lets the loader
/// choose the best one for this CPU: for loops over all weights of a model. All
/// give the same bits, since no operation is contracted.
#if defined(__x86_64__) && defined(__clang__)
#define MPC_VECTOR_CLONES                                                      \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define MPC_VECTOR_CLONES
#endif

#endif // MPC_SUPPORT_VECTORCLONES_H
