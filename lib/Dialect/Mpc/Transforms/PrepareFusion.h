//===- PrepareFusion.h - bring ops to where they fuse -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The steps of mpc-prepare-fusion. None changes a value.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRANSFORMS_PREPAREFUSION_H
#define MPC_LIB_DIALECT_MPC_TRANSFORMS_PREPAREFUSION_H

#include "mpc/Dialect/Mpc/IR/MpcOps.h"
#include "mpc/Target/TargetInfo.h"

namespace mpc {

// PrepareReshapes.cpp.

/// Brings reshapes from behind the arithmetic of updates to before it, so that
/// all of that has the shape of the parameter and is one kernel.
void reshapeBeforeUpdates(mlir::Block &block);

/// Lets sums over all rows read the matrix that a product reads of the same
/// values, so that one kernel has one operand for both.
void sumMatrices(mlir::Block &block);

// PrepareConcats.cpp.

/// Makes trees of concats of more operands than one kernel can have ops: the
/// code that finds the operand of an element grows with their number, and the
/// time to compile one function faster than its code.
void splitConcats(mlir::Block &block);

// PrepareProducts.cpp.

/// Makes products of gradients of filters that have no window, where the
/// target's vectors multiply pairs of positions.
void multiplyPixels(mlir::Block &block, const TargetInfo &target);

// PrepareCasts.cpp.

/// Whether the cast is a transpose's last step that memory keeps: it neither
/// has copies nor is computed again.
bool isStoredTranspose(CastOp cast);

/// Lets data move in 16 bits: a movement of a widened value becomes the
/// widening of the moved value. In block order, so that casts travel as far as
/// they can.
void widenAfterMovement(mlir::Block &block);

/// Brings a narrowing cast back over movement that only it reads, to the op
/// whose kernel can store 16 bits: the movement else keeps them apart.
void narrowBeforeMovement(mlir::Block &block);

/// Narrows a value before it is handed out in slices where each of them is
/// narrowed: the kernel that makes it stores 16 bits.
void narrowBeforeSlices(mlir::Block &block);

/// Reshapes a program input before the cast that narrows it, so that the kernel
/// that reads the reshape can load the input itself.
void narrowInputsLast(mlir::Block &block);

/// Gives each reader of a widening cast its own, so that the wide value needs
/// no memory.
void repeatWideningCasts(mlir::Block &block);

// ProveIndices.cpp.

/// Takes the mark that an index out of range is an error (kCheckedIndicesAttr)
/// from gathers and scatters whose indices are in range for every input: they
/// are constants, positions, clamped or the like (KnownRanges).
void dropProvenIndexChecks(mlir::func::FuncOp function);

// PrepareCopies.cpp.

/// Gives each reader its own copy of arithmetic on a tensor that is in memory
/// anyway, such as the difference from a mean: no more bytes are read than
/// before, and none written. In reverse block order, so that whole chains are
/// repeated.
void repeatArithmetic(mlir::Block &block);

/// Gives each reader of a slice, concat, pad, transpose or cast of an input its
/// own, where all of them load through it and that moves fewer bytes than one
/// kernel would.
void repeatMovement(mlir::Block &block, const TargetInfo &target);

/// Gives each loop that reads a reshape of a loop's result its own, where loops
/// alone read it: inside a kernel a reshape costs nothing.
void repeatReshapes(mlir::Block &block);

/// Gives each product that reads narrow panels its own unpacking of them:
/// products unpack in their kernels.
void repeatPanels(mlir::Block &block);

/// Gives the checks of gradients their own copy of the scalar arithmetic that
/// they unscale by: the updates, which wait for the checks, read it too, and it
/// would else be a kernel before both.
void repeatScalarsForChecks(mlir::Block &block);

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRANSFORMS_PREPAREFUSION_H
