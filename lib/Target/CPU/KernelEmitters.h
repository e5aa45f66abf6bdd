//===- KernelEmitters.h - one emitter per kernel family ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An emitter reads a kernel on tensors (`kernel`, left alone) and fills the
// body of `impl`:
//   func.func private @k_impl(inputs: memref..., outputs: memref...,
//                             %begin: index, %end: index, %scratch:
//                             memref<?xi8>)
// in func, tile, scf, memref, vector, arith and math. Its entry block and
// terminator exist; emitters insert before the terminator. Items are tile.own.
// Memrefs are contiguous and row-major with the tensor's shape and
// memoryElementType.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CPU_KERNELEMITTERS_H
#define MPC_LIB_TARGET_CPU_KERNELEMITTERS_H

#include "mpc/Target/CPU/Codegen.h"

#include "../Kernel/KernelForm.h"

namespace mpc {

struct ContractionKernel;

/// Kernels around one contraction with an elementwise epilogue. Return the
/// bytes of scratch memory that they use.
using ContractionFunction =
    mlir::FailureOr<int64_t>(const ContractionKernel &kernel);
ContractionFunction emitProduct, emitDigitProduct, emitConvolution,
    emitDepthwise, emitFilterGradient, emitAttention, emitPacking;
/// What the loops of this target are made of.
ElementTarget elementTarget(const CpuTarget &target);
/// The same of any target with lanes and registers.
ElementTarget elementTarget(const TargetInfo &target);

/// What is said of a function on memory: its scratch memory, what an argument
/// in front of the items has that all calls share, which buffers no other one
/// is, and, once tiles are lowered, its items, how many of them begin when the
/// others have ended, and how many are worth a task.
inline constexpr llvm::StringLiteral kScratchBytesAttr = "mpc.scratch_bytes",
                                     kSharedBytesAttr = "mpc.shared_bytes",
                                     kApartAttr = "mpc.apart",
                                     kItemsAttr = "mpc.items",
                                     kLaterItemsAttr = "mpc.later_items",
                                     kGrainAttr = "mpc.grain";
/// Of a function with watched results: the numbers of the arguments that are
/// its first output and its first word.
inline constexpr llvm::StringLiteral kWatchedPlacesAttr = "mpc.watched_places";
/// Lets every store to a watched result of `kernel` (kWatchedResultsAttr) set
/// the result's word, an argument of `impl`, to 1 where it stores an infinity
/// or a NaN.
void watchStores(mlir::func::FuncOp impl);
/// What stands behind a kernel's name in that of its function on memory.
inline constexpr llvm::StringLiteral kImplSuffix = "_impl";
/// Gives the last argument of `impl` its size.
void setScratch(mlir::func::FuncOp impl, int64_t bytes);

} // namespace mpc

#endif // MPC_LIB_TARGET_CPU_KERNELEMITTERS_H
