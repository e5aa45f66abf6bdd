//===- ContractionEpilogue.h - epilogues of contractions --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A contraction's epilogue: elementwise ops, transposes and slices that keep
// rows whole, and reshapes between the accumulators and the kernel's outputs.
// If an anchor has several results, each has its own epilogue, and outputs may
// be concats of these. For a GEMM with interleaved columns, the epilogue starts
// with both halves.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_KERNEL_CONTRACTIONEPILOGUE_H
#define MPC_LIB_TARGET_KERNEL_CONTRACTIONEPILOGUE_H

#include "ElementEmitter.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>
#include <vector>

namespace mpc {

/// Maps the elements of a value to those of a contraction's result (or half):
/// the result's dimension for each of its own, and the first index there.
struct ResultOrder {
  llvm::SmallVector<int64_t> dimensions, first, shape;
  bool operator==(const ResultOrder &other) const = default;
};

/// One output of a kernel, or an input of the concat that it stores.
struct EpilogueOutput {
  /// Without reshapes.
  mlir::Value value;
  /// nullopt if it does not come from the anchor's result in one order.
  std::optional<ResultOrder> order;
  /// Index of the output.
  unsigned output = 0;
  /// If the output is a concat, perhaps transposed: the offset of the value's
  /// first element in it, and the stride of each dimension of the value there.
  /// No strides if the value is the output.
  int64_t first = 0;
  llvm::SmallVector<int64_t> strides = {};
};

class ContractionEpilogue {
public:
  /// For the anchor's first result or its halves, from which all outputs come.
  ContractionEpilogue(mlir::func::FuncOp kernel, mlir::Operation *anchor);

  /// Returns, for each result of `anchor`, the outputs computed from it only.
  /// nullopt if an output is unsupported or combines several results other than
  /// by a concat.
  static std::optional<std::vector<ContractionEpilogue>>
  ofEach(mlir::func::FuncOp kernel, mlir::Operation *anchor);

  /// Returns the kernel's only op of the type, if ofEach() supports its
  /// results; null if there is none, several, or an unsupported one.
  template <typename OpTy> static OpTy onlyOf(mlir::func::FuncOp kernel) {
    auto ops = kernel.getOps<OpTy>();
    if (!llvm::hasSingleElement(ops) || !ofEach(kernel, *ops.begin()))
      return {};
    return *ops.begin();
  }

  /// Checks that results are elementwise in the anchor's result, or transposes
  /// and slices of it that preserve the last dimension, or reshapes of these;
  /// reports others.
  mlir::LogicalResult check() const;
  /// The same without a diagnostic.
  bool fits() const;

  /// Applies the epilogue to `sums` (a scalar or vector of the accumulator
  /// type, one per half for interleaved columns) at `indices` of the anchor's
  /// result or of its halves, and stores to `outputs`. Outputs that are slices
  /// store only their elements.
  mlir::LogicalResult store(ElementEmitter &emitter,
                            llvm::ArrayRef<mlir::Value> outputs,
                            llvm::ArrayRef<mlir::Value> sums,
                            mlir::ValueRange indices, int64_t lanes,
                            mlir::Value mask = {}) const;

  llvm::ArrayRef<EpilogueOutput> all() const { return results; }

private:
  explicit ContractionEpilogue(mlir::Value anchor) : roots({anchor}) {}
  bool fits(const EpilogueOutput &result) const;

  /// The result, or its halves.
  llvm::SmallVector<mlir::Value, 2> roots;
  std::vector<EpilogueOutput> results;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_KERNEL_CONTRACTIONEPILOGUE_H
