//===- PaddedValues.h - cache of padded values ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tensor cores need extents that are multiples of 8. Tracks the padded copy of
// each value and converts between paddings where a user needs another one: of
// constants at compile time, of other values by a slice and a pad at run time,
// which all users with the same padding share.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRANSFORMS_PADDEDVALUES_H
#define MPC_LIB_DIALECT_MPC_TRANSFORMS_PADDEDVALUES_H

#include "mpc/Analysis/PaddingAxes.h"

namespace mpc {

/// A value, its padded dimensions and the contents of the padding.
struct PaddedForm {
  mlir::Value value;
  llvm::SmallVector<DimPadding> dims;
  llvm::SmallVector<PaddingState> lanes;
};

/// The dimensions of a value without padding.
llvm::SmallVector<DimPadding> plainDims(mlir::Value value);

/// Padded forms of a function's values, keyed by the unpadded value.
class PaddedValues {
public:
  explicit PaddedValues(mlir::MLIRContext *context) : builder(context) {}

  /// Records the form in which `value` is computed.
  void define(mlir::Value value, PaddedForm form);

  /// Returns the form in which `value` is computed.
  PaddedForm defined(mlir::Value value) const;

  /// Returns `value` with `dims`. New padding holds `fill`; padding from the
  /// computation holds what its lanes describe. Null if constant data is
  /// unavailable.
  PaddedForm get(mlir::Value value, llvm::ArrayRef<DimPadding> dims,
                 double fill = 0);

  /// Returns `form` with `fill` in the padding of one dimension; masks it at
  /// the builder's insertion point unless it is known to hold `fill`. The
  /// dimension may be a broadcast extent of 1.
  PaddedForm hold(mlir::OpBuilder &at, mlir::Location loc,
                  const PaddedForm &form, unsigned dim, double fill = 0);

  int64_t pads = 0, slices = 0, masks = 0;

private:
  PaddedForm getConstant(mlir::Value value, llvm::ArrayRef<DimPadding> dims,
                         double fill);
  mlir::Value slice(mlir::Value value, llvm::ArrayRef<DimPadding> from,
                    llvm::ArrayRef<bool> dropped);
  mlir::Value pad(mlir::Value value, llvm::ArrayRef<DimPadding> to,
                  llvm::ArrayRef<bool> added, double fill);
  mlir::Value reshape(mlir::Value value, llvm::ArrayRef<int64_t> shape);

  mlir::OpBuilder builder;
  llvm::DenseMap<mlir::Value, PaddedForm> forms;
  struct Version {
    double fill;
    PaddedForm form;
  };
  llvm::DenseMap<mlir::Value, llvm::SmallVector<Version, 2>> versions;
};

/// Returns an i1 constant, true at the unpadded indices of a dimension, of
/// shape [extent, 1, ...] with `trailing` ones.
mlir::ElementsAttr originalIndicesMask(mlir::MLIRContext *context,
                                       const DimPadding &padding,
                                       int64_t trailing);

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRANSFORMS_PADDEDVALUES_H
