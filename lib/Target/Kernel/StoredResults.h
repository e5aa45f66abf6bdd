//===- StoredResults.h - what kernels around a contraction store *- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A contraction's epilogue: elementwise ops, transposes and slices that keep
// rows whole, and reshapes between the sums and the kernel's outputs. Where an
// anchor has several results, each has an epilogue of its own, and outputs may
// be concats of these. Where a product's columns are pairs, the epilogue begins
// with both halves.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_KERNEL_STOREDRESULTS_H
#define MPC_LIB_TARGET_KERNEL_STOREDRESULTS_H

#include "ElementEmitter.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>
#include <vector>

namespace mpc {

/// How the elements of a value are those of a contraction's result (of a half
/// of it): which of the result's dimensions each of its own is, and where it
/// begins there.
struct ResultOrder {
  llvm::SmallVector<int64_t> dimensions, first, shape;
  bool operator==(const ResultOrder &other) const = default;
};

/// What one output of a kernel stores, or an input of the concat that it
/// stores.
struct StoredResult {
  /// Reshapes stripped.
  mlir::Value value;
  /// Nothing where it does not come from the anchor's result in one order.
  std::optional<ResultOrder> order;
  /// Number of the output.
  unsigned output = 0;
  /// Where the output is a concat, perhaps transposed: the place of the value's
  /// first element in it, and how far neighbours along each dimension of the
  /// value stand apart there. No strides where the value is the output.
  int64_t first = 0;
  llvm::SmallVector<int64_t> strides = {};
};

class StoredResults {
public:
  /// Of the anchor's first result or its halves, which all outputs come from.
  StoredResults(mlir::func::FuncOp kernel, mlir::Operation *anchor);

  /// Of each result of `anchor`: the outputs that come from it alone. Nothing
  /// where an output does not fit or comes from several other than by a concat.
  static std::optional<std::vector<StoredResults>>
  ofEach(mlir::func::FuncOp kernel, mlir::Operation *anchor);

  /// The kernel's only op of the type, of whose results ofEach() knows where
  /// they go; null where there is none, several, or one that does not fit.
  template <typename OpTy> static OpTy onlyOf(mlir::func::FuncOp kernel) {
    auto ops = kernel.getOps<OpTy>();
    if (!llvm::hasSingleElement(ops) || !ofEach(kernel, *ops.begin()))
      return {};
    return *ops.begin();
  }

  /// Checks that results are elementwise in the anchor's result, or transposes
  /// and slices of that which keep the last dimension, or reshapes of these; a
  /// diagnostic otherwise.
  mlir::LogicalResult check() const;
  /// The same without a diagnostic.
  bool fits() const;

  /// Takes `sums` (a scalar or vector in the type of sums, of a pair's product
  /// one of each half) at `indices` of the anchor's result or of its halves
  /// through the epilogue to `outputs`. Outputs that are slices store what lies
  /// in them.
  mlir::LogicalResult store(ElementEmitter &emitter,
                            llvm::ArrayRef<mlir::Value> outputs,
                            llvm::ArrayRef<mlir::Value> sums,
                            mlir::ValueRange indices, int64_t lanes,
                            mlir::Value mask = {}) const;

  llvm::ArrayRef<StoredResult> all() const { return results; }

private:
  explicit StoredResults(mlir::Value anchor) : roots({anchor}) {}
  bool fits(const StoredResult &result) const;
  mlir::Value outputMemory(ElementEmitter &emitter, mlir::Value output,
                           const StoredResult &stored) const;

  /// The result, or its halves.
  llvm::SmallVector<mlir::Value, 2> roots;
  std::vector<StoredResult> results;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_KERNEL_STOREDRESULTS_H
