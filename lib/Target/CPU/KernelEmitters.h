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
// terminator exist; emitters insert before the terminator. Items are
// tile.for_each. Memrefs are contiguous and row-major with the tensor's shape
// and memoryElementType.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CPU_KERNELEMITTERS_H
#define MPC_LIB_TARGET_CPU_KERNELEMITTERS_H

#include "mpc/Target/CPU/Codegen.h"

#include "../Kernel/KernelFunction.h"

namespace mpc::cpu {

struct ContractionKernel;

/// Kernels around one contraction with an elementwise epilogue. Return the
/// bytes of scratch memory that they use.
using ContractionFunction =
    mlir::FailureOr<int64_t>(const ContractionKernel &kernel);
ContractionFunction emitCpuGemm, emitInt8SliceGemm, emitConvolution,
    emitDepthwise, emitFilterGradient, emitAttention, emitPacking;
/// Vector width and limits of this target for loop kernels.
ElementTarget elementTarget(const CpuTarget &target);
/// The same for any target with lanes and registers.
ElementTarget elementTarget(const TargetInfo &target);

/// Attributes of a function on memory: bytes of scratch memory, bytes of the
/// argument shared by all calls (before the items), buffers without aliases;
/// after tiles are lowered, the number of items, of those that run after the
/// others, and of items per task.
inline constexpr llvm::StringLiteral kScratchBytesAttr = "mpc.scratch_bytes",
                                     kSharedBytesAttr = "mpc.shared_bytes",
                                     kNoAliasAttr = "mpc.no_alias",
                                     kItemsAttr = "mpc.items",
                                     kLaterItemsAttr = "mpc.later_items",
                                     kGrainAttr = "mpc.grain";
/// Indices of the arguments that are the first output and its word, in a
/// function with watched results.
inline constexpr llvm::StringLiteral kCheckedArgumentsAttr =
    "mpc.checked_arguments";
/// Instruments every store to a watched result of `kernel`
/// (kCheckedResultsAttr): sets the result's word, an argument of `impl`, to 1
/// if an infinity or a NaN is stored that is not exempt (kExemptValuesAttr).
void instrumentNonFiniteStores(mlir::func::FuncOp impl);
/// Suffix of a kernel's name for its function on memory.
inline constexpr llvm::StringLiteral kImplSuffix = "_impl";
/// Sets the size of the last argument of `impl`.
void setScratch(mlir::func::FuncOp impl, int64_t bytes);

/// Registers the interfaces that lowerToLlvm looks up.
void registerLoweringInterfaces(mlir::DialectRegistry &registry);
/// Lowers func, scf, memref, vector, arith and math to LLVM dialect; memrefs
/// become bare pointers.
mlir::LogicalResult lowerToLlvm(mlir::ModuleOp module);

} // namespace mpc::cpu

#endif // MPC_LIB_TARGET_CPU_KERNELEMITTERS_H
