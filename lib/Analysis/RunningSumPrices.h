//===- RunningSumPrices.h - price of rounding a running sum -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A value that is repeatedly added to, like a residual stream, is a running
// sum. Stored in 16 bits it is rounded at every step, like a contraction with a
// 16-bit accumulator. Computes the price of storing such a value, to weigh
// against the bytes saved.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_ANALYSIS_RUNNINGSUMPRICES_H
#define MPC_LIB_ANALYSIS_RUNNINGSUMPRICES_H

#include "mlir/IR/Value.h"

#include "llvm/ADT/DenseMap.h"

namespace mpc {

class CastPlacementModel;
class PlanBuilder;
class StorageRules;

class RunningSumPrices {
public:
  RunningSumPrices(const PlanBuilder &builder, const CastPlacementModel &model,
                   const StorageRules &rules);

  /// Price of storing `value` narrow, as a multiple of the bytes saved: 0 if it
  /// is in no running sum.
  double of(mlir::Value value) const { return prices.lookup(value); }

  /// Number of rounded partial sums on the longest path through `value`.
  unsigned roundingsThrough(mlir::Value value) const {
    return before.lookup(value) + after.lookup(value);
  }

private:
  llvm::DenseMap<mlir::Value, double> prices;
  /// Number of rounded partial sums up to and including a value, and after.
  llvm::DenseMap<mlir::Value, unsigned> before, after;
};

} // namespace mpc

#endif // MPC_LIB_ANALYSIS_RUNNINGSUMPRICES_H
