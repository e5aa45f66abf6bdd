//===- SumPrices.h - what rounding a running sum costs ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A value that is added to again and again, as a residual stream is, is a
// running sum. Stored in 16 bits it is rounded at every step, as the sum of a
// contraction would be in a 16-bit accumulator. Says what a store of such a
// value costs beside the bytes that it saves.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_ANALYSIS_SUMPRICES_H
#define MPC_LIB_ANALYSIS_SUMPRICES_H

#include "mlir/IR/Value.h"

#include "llvm/ADT/DenseMap.h"

namespace mpc {

class PlacementModel;
class PlanBuilder;
class StorageRules;

class SumPrices {
public:
  SumPrices(const PlanBuilder &builder, const PlacementModel &model,
            const StorageRules &rules);

  /// What storing `value` narrow costs, as a multiple of the bytes that it
  /// saves: 0 for what is in no running sum.
  double of(mlir::Value value) const { return prices.lookup(value); }

  /// Partial sums that would be rounded on the longest way through `value`.
  unsigned roundingsThrough(mlir::Value value) const {
    return before.lookup(value) + after.lookup(value);
  }

private:
  llvm::DenseMap<mlir::Value, double> prices;
  /// Partial sums that would be rounded up to a value, itself included, and
  /// after it.
  llvm::DenseMap<mlir::Value, unsigned> before, after;
};

} // namespace mpc

#endif // MPC_LIB_ANALYSIS_SUMPRICES_H
