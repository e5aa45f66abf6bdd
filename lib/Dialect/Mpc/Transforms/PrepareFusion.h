//===- PrepareFusion.h - canonicalize for fusion ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Steps of mpc-prepare-fusion. None changes a value.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRANSFORMS_PREPAREFUSION_H
#define MPC_LIB_DIALECT_MPC_TRANSFORMS_PREPAREFUSION_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"
#include "mpc/Target/TargetInfo.h"

namespace mpc {
class CastOp;

// MoveReshapes.cpp.

/// Hoists reshapes above the arithmetic of updates, so that an update has the
/// shape of its parameter and is one kernel.
void reshapeBeforeUpdates(mlir::Block &block);

/// Lets reductions over all rows read the same matrix as a matmul of the same
/// values, so that one kernel reads one operand for both.
void shareReducedMatrix(mlir::Block &block);

// SplitConcats.cpp.

/// Splits concats with more operands than a kernel can have ops into trees: the
/// code that selects an element's operand grows with their number, and the
/// compile time of a function superlinearly with its code.
void splitConcats(mlir::Block &block);

// FilterGradientToMatmul.cpp.

/// Replaces gradients of 1x1 filters by matmuls if the target's vector units
/// multiply pairs of k indices (bf16 dot product).
void filterGradientsToMatmuls(mlir::Block &block, const TargetInfo &target);

// MoveCasts.cpp.

/// Returns true if the cast is the stored last step of a transpose: it is
/// neither duplicated nor rematerialized.
bool isStoredTranspose(CastOp cast);

/// Sinks upcasts below data movement, so that data moves in 16 bits. In block
/// order, so that casts sink as far as possible.
void sinkUpcasts(mlir::Block &block);

/// Hoists a narrowing cast above data movement that only it reads, to the op
/// whose kernel can store 16 bits.
void hoistDowncasts(mlir::Block &block);

/// Narrows a value before it is sliced if every slice is narrowed, so that its
/// producer stores 16 bits.
void hoistDowncastsAboveSlices(mlir::Block &block);

/// Reshapes a program input before the cast that narrows it, so that the kernel
/// that reads the reshape can load the input itself.
void sinkInputCasts(mlir::Block &block);

/// Gives each reader its own upcast, so that the f32 value is never stored.
void rematerializeUpcasts(mlir::Block &block);

// RemoveIndexChecks.cpp.

/// Removes the bounds-check mark (kCheckedIndicesAttr) from gathers and
/// scatters whose indices are provably in range: constants, iotas, clamped
/// values and the like (RangeAnalysis).
void removeProvenIndexChecks(mlir::func::FuncOp function);

// RematerializeOps.cpp.

/// Gives each reader its own copy of arithmetic on a tensor that is stored
/// anyway, such as the difference from a mean: reads no more bytes and writes
/// none. In reverse block order, so that whole chains are copied.
void rematerializeArithmetic(mlir::Block &block);

/// Gives the transpose of a quantized tensor its own quantization if reading
/// the tensor again takes less time than a launch of the target: the copy runs
/// concurrently with later kernels, and others quantize as they load.
void rematerializeQuantization(mlir::Block &block, const TargetInfo &target);

/// Gives each reader of a slice, concat, pad, transpose or input cast its own
/// copy if all readers fuse it into their loads and that moves fewer bytes than
/// a separate kernel.
void rematerializeMovement(mlir::Block &block, const TargetInfo &target);

/// Gives each loop its own copy of a reshape of a loop's result if only loops
/// read it: a reshape inside a kernel is free.
void rematerializeReshapes(mlir::Block &block);

/// Gives each matmul its own dequantization of its compressed panels, which
/// fuses into its kernel.
void rematerializeDequantization(mlir::Block &block);

/// Gives the finite checks of gradients their own copy of the scalar unscaling
/// arithmetic, which would otherwise be a kernel before both the checks and the
/// updates.
void rematerializeUnscaling(mlir::Block &block);

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRANSFORMS_PREPAREFUSION_H
