//===- HoistIndexChecks.cpp - index checks out of loops -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loop-invariant code motion of index checks (mpc-hoist-index-checks). MLIR's
// pass moves pure ops only; a check loads its index and may write a status
// word, which no kernel reads.
//
//===----------------------------------------------------------------------===//

#include "mpc/Target/CPU/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/LoopInvariantCodeMotionUtils.h"

namespace mpc {
#define GEN_PASS_DEF_HOISTINDEXCHECKSPASS
#include "mpc/Target/CPU/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

/// Returns true if `loop` has an iteration for any input.
static bool isEntered(scf::ForOp loop) {
  std::optional<int64_t> first = getConstantIntValue(loop.getLowerBound()),
                         end = getConstantIntValue(loop.getUpperBound());
  return first && end && *first < *end;
}

/// Returns true if `op` loads from an argument that its function only loads
/// from.
static bool loadsConstantMemory(Operation *op) {
  auto load = dyn_cast<memref::LoadOp>(op);
  return load && isa<BlockArgument>(load.getMemRef()) &&
         llvm::all_of(load.getMemRef().getUsers(), [](Operation *user) {
           return hasSingleEffect<MemoryEffects::Read>(user);
         });
}

/// Returns true if `op` is the branch of an index check, which updates a word
/// by an atomic maximum and has no other effect.
static bool isIndexCheck(Operation *op) {
  auto branch = dyn_cast<scf::IfOp>(op);
  if (!branch || branch.getNumResults() != 0 || branch.elseBlock())
    return false;
  auto body = branch.thenBlock()->without_terminator();
  return llvm::hasSingleElement(body) &&
         isa<memref::AtomicRMWOp>(*body.begin()) &&
         cast<memref::AtomicRMWOp>(*body.begin()).getKind() ==
             arith::AtomicRMWKind::maxu &&
         body.begin()->use_empty();
}

namespace {

struct HoistIndexChecksPass
    : mpc::impl::HoistIndexChecksPassBase<HoistIndexChecksPass> {
  void runOnOperation() override {
    for (auto impl : getOperation().getOps<func::FuncOp>())
      // Few functions have checks.
      if (impl.walk([](Operation *op) {
                return isIndexCheck(op) ? WalkResult::interrupt()
                                        : WalkResult::advance();
              })
              .wasInterrupted())
        // Inner loops first.
        impl.walk([&](scf::ForOp loop) {
          if (isEntered(loop))
            hoist(loop);
        });
  }

  void hoist(scf::ForOp loop) {
    moveLoopInvariantCode(
        loop.getLoopRegions(),
        [&](Value value, Region *) {
          return loop.isDefinedOutsideOfLoop(value);
        },
        [&](Operation *op, Region *) {
          return isPure(op) || loadsConstantMemory(op) || isIndexCheck(op);
        },
        [&](Operation *op, Region *) {
          numChecks += isIndexCheck(op);
          loop.moveOutOfLoop(op);
        });
  }
};

} // namespace
