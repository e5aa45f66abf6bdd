//===- PaddedValues.h - values in several padded forms ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Remembers in which padded form each value is computed and makes the forms
// that readers want: constants at compile time, others by one slice and one pad
// that all readers share.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRANSFORMS_PADDEDVALUES_H
#define MPC_LIB_DIALECT_MPC_TRANSFORMS_PADDEDVALUES_H

#include "mpc/Analysis/PaddingAxes.h"

namespace mpc {

/// A value with padded dimensions and what stands in the padded places.
struct PaddedForm {
  mlir::Value value;
  llvm::SmallVector<DimPadding> dims;
  llvm::SmallVector<LaneState> lanes;
};

/// The dimensions of a value without padding.
llvm::SmallVector<DimPadding> plainDims(mlir::Value value);

/// The forms of one function's values, by the value as it was before padding.
class PaddedValues {
public:
  explicit PaddedValues(mlir::MLIRContext *context) : builder(context) {}

  /// Records that `value` is computed in `form`.
  void define(mlir::Value value, PaddedForm form);

  /// `value` in the form that it is computed in.
  PaddedForm defined(mlir::Value value) const;

  /// `value` with `dims`. Places that are padded for this hold `fill`; those
  /// that the value is computed with hold what its lanes say. Null where the
  /// data of a constant is missing.
  PaddedForm get(mlir::Value value, llvm::ArrayRef<DimPadding> dims,
                 double fill = 0);

  /// `form` with `fill` in the padded places of one dimension; where they are
  /// not known to hold it, they are masked before the builder's place. The
  /// value may have one place for all of the dimension's.
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

/// An i1 constant that is true in the old places of a dimension, of shape
/// [extent, 1, ...] with `trailing` ones.
mlir::ElementsAttr oldPlaces(mlir::MLIRContext *context,
                             const DimPadding &padding, int64_t trailing);

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRANSFORMS_PADDEDVALUES_H
