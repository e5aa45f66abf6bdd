//===- MergeRepeatedOps.cpp - CSE of forward and backward pass ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contract in: mpc-differentiate's. Contract out: no two pure ops with equal
// operands and properties. Runs before precision, whose decisions are
// attributes.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/Training/Passes.h"

#include "mlir/IR/OperationSupport.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace mpc;

namespace mpc {
#define GEN_PASS_DEF_MERGEREPEATEDOPSPASS
#include "mpc/Dialect/Mpc/Training/Passes.h.inc"
} // namespace mpc

namespace {

/// Equality of computations, ignoring locations and discardable attributes.
struct SameComputation : llvm::DenseMapInfo<Operation *> {
  static constexpr auto kFlags =
      OperationEquivalence::Flags(OperationEquivalence::IgnoreLocations |
                                  OperationEquivalence::IgnoreDiscardableAttrs);

  static unsigned getHashValue(const Operation *op) {
    return OperationEquivalence::computeHash(
        const_cast<Operation *>(op), OperationEquivalence::directHashValue,
        OperationEquivalence::ignoreHashValue, kFlags);
  }
  static bool isEqual(const Operation *lhs, const Operation *rhs) {
    if (lhs == rhs)
      return true;
    if (lhs == getEmptyKey() || lhs == getTombstoneKey() ||
        rhs == getEmptyKey() || rhs == getTombstoneKey())
      return false;
    return OperationEquivalence::isEquivalentTo(
        const_cast<Operation *>(lhs), const_cast<Operation *>(rhs),
        OperationEquivalence::exactValueMatch, /*markEquivalent=*/nullptr,
        kFlags);
  }
};

struct MergeRepeatedOpsPass
    : mpc::impl::MergeRepeatedOpsPassBase<MergeRepeatedOpsPass> {
  using Base::Base;

  void runOnOperation() override {
    func::FuncOp func = getOperation();
    if (func.isDeclaration())
      return;
    llvm::DenseSet<Operation *, SameComputation> known;
    for (Operation &op : llvm::make_early_inc_range(
             func.getBody().front().without_terminator())) {
      if (isa<mpc::ConstantOp>(op) || op.getNumRegions() > 0 || !isPure(&op))
        continue;
      auto [first, isNew] = known.insert(&op);
      if (isNew)
        continue;
      op.replaceAllUsesWith(*first);
      op.erase();
      ++numShared;
    }
  }
};

} // namespace
