//===- MpcDialect.h - the mpc dialect ---------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The dialect class, its enums, attributes and interfaces. Ops: one
// header per family, Mpc*Ops.h.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCDIALECT_H
#define MPC_DIALECT_MPC_IR_MPCDIALECT_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "mpc/Dialect/Mpc/IR/KnownRange.h"
#include "mpc/Dialect/Mpc/IR/MpcEnums.h.inc"
#include "mpc/Dialect/Mpc/IR/MpcTraits.h"

namespace mpc {

/// Fusion classification of an op.
enum class FusionClass {
  Constant,    ///< a constant
  Source,      ///< computed from the index alone (iota)
  View,        ///< the same bytes under another shape
  Elementwise, ///< result element i needs (broadcast) operand elements i
  IndexMap,    ///< result element i is one operand element at a static index
  Gather,      ///< like IndexMap, with indices that are data
  Reduction,   ///< sums, extrema and arg-extrema over axes
  RowWise,     ///< softmax and norms: reduce and map along the same axes
  Scan,        ///< running sums
  Pool,        ///< sliding windows without a filter
  Contraction, ///< matmul
  Convolution, ///< convolutions
  Attention,   ///< the attention composite
  Recurrent,   ///< lstm, gru, rnn
  Opaque,      ///< a kernel of its own (scatter, top_k)
};

/// Returns the op's class; Opaque if it has no FusionOpInterface.
FusionClass fusionClassOf(mlir::Operation *op);

/// Returns true if `op` only moves the elements of its only operand, so that
/// analyses can look through it.
bool isUnaryMovement(mlir::Operation *op);

/// Access along one dimension of a movement's operand: reads index `stride` *
/// (result index along `dim`) + `offset`. Broadcast dimensions have extent 1
/// and `dim` -1.
struct AccessDim {
  int64_t dim = -1, stride = 0, offset = 0;
};
using Access = llvm::SmallVector<AccessDim>;

/// Access to each dimension of operand 0 (MovementOpInterface); nullopt if the
/// access is not strided.
std::optional<Access> accessOf(mlir::Operation *op);

/// Returns true if the result of `op` is infinite or NaN for a zero operand
/// `index` (SingularOpInterface).
bool isSingularAtZero(mlir::Operation *op, unsigned index);

/// Elements of a statically shaped tensor value or type; saturates at the
/// largest int64 where the product overflows, 0 for dynamic shapes.
int64_t elementCount(mlir::Type type);
int64_t elementCount(mlir::Value value);

/// Returns true for tensors and scalars of a floating-point type.
bool isFloatTensor(mlir::Value value);

/// Product of `values`, saturating.
int64_t productOf(llvm::ArrayRef<int64_t> values);

/// Bytes per element in memory; i1 takes one byte.
int64_t bytesPerElement(mlir::Type elementType);

/// Bytes of a statically shaped tensor, saturating.
int64_t byteCount(mlir::Type type);

/// Sum of byteCount over all operands and results of `op`.
int64_t operandAndResultBytes(mlir::Operation *op);

} // namespace mpc

#include "mpc/Dialect/Mpc/IR/MpcDialect.h.inc"
#include "mpc/Dialect/Mpc/IR/MpcInterfaces.h.inc"

#define GET_ATTRDEF_CLASSES
#include "mpc/Dialect/Mpc/IR/MpcAttributes.h.inc"

#endif // MPC_DIALECT_MPC_IR_MPCDIALECT_H
