//===- RowKernels.cpp - row kernels on one thread -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Schedules a row program (softmax, norms, reductions) for a single thread.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"

#include "RowKernelEmitter.h"
#include "TileRegions.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

/// Inputs that cost more than this per element are computed once and buffered.
static constexpr int64_t kRecomputeCost = 6;

/// Maximum row length for processing two rows at a time. Between its loops a
/// row waits for a horizontal sum, a division and a root, some 100 cycles each,
/// which is negligible for longer rows; and both rows fit in L1.
static constexpr int64_t kLongestPair = 2048;
/// Rows with 16-bit results are less memory-bound: up to this length they are
/// processed four at a time, as far as registers permit.
static constexpr int64_t kLongestOfFour = 1024;
/// The same for pairs of 32-bit rows with exponentials, which have enough work
/// in between.
static constexpr int64_t kLongestPairOfPowers = 256;

/// Total elements above which rows exceed L2. Two rows at a time are more
/// streams than the hardware prefetchers follow well, so they are prefetched by
/// software; 32-bit rows are memory-bound either way and would lose by it.
static constexpr int64_t kCached = 1 << 18;

namespace {
class RowPhase : public Phase {
public:
  RowPhase(LoopContext &context, ArrayRef<Root> roots, RowPattern rows)
      : Phase(context, roots), form(std::move(rows)) {
    if (form.isVertical())
      planVertical();
    else if (goesInPairs())
      together = fitsFour() && form.rows() % 4 == 0 ? 4 : 2;
  }

  PhaseCost cost() override;
  void emit(Value item) override;

private:
  void planVertical();
  bool isCached() const { return form.rows() * form.length() <= kCached; }
  bool isNarrow() const;
  bool goesInPairs() const;
  bool fitsFour() const;
  /// Two registers per row of four leave some for the computation.
  int64_t vectorOfFour() const { return 2 * target.lanes; }
  SmallVector<Value> keptBy(Operation *op);

  RowPattern form;
  /// Adjacent rows per item: more than 1 only if the last dimension is not
  /// reduced.
  int64_t lanes = 1;
  /// Rows of an item processed in parallel (interleaved).
  int64_t together = 1;
};
} // namespace

void RowPhase::planVertical() {
  // Results of the reducing ops count as available.
  SmallVector<Value> tensors;
  for (Operation *op : form.ops) {
    tensors.push_back(op->getOperand(0));
    emitter.bindSource(op->getResult(0), {});
  }
  for (const Root &root : roots)
    if (shapeOf(root.tensor) == ArrayRef<int64_t>(form.shape))
      tensors.push_back(root.tensor);
  SmallVector<LaneSegment> segments =
      planLanes(emitter, tensors, form.shape.back());
  bool whole = segments.size() == 1 && llvm::all_of(tensors, [&](Value tensor) {
                 return isContiguous(emitter, tensor, segments.front().range);
               });
  if (whole)
    lanes = segments.front().lanes;
  // Sums leave registers free, and longer vectors read longer pieces of memory.
  bool onlyJoins = llvm::all_of(
      form.ops, [](Operation *op) { return op->hasTrait<ReducesRows>(); });
  if (whole && onlyJoins && target.registers >= 32 &&
      form.shape.back() % (2 * lanes) == 0)
    lanes *= 2;
  for (Operation *op : form.ops)
    emitter.unbind(op->getResult(0));
}

bool RowPhase::isNarrow() const {
  return llvm::all_of(roots, [](const Root &root) {
    return getElementTypeOrSelf(root.tensor.getType())
               .getIntOrFloatBitWidth() <= 16;
  });
}

bool RowPhase::goesInPairs() const {
  if (!target.privateScratch || form.rows() % 2 != 0)
    return false;
  bool hasPowers = llvm::any_of(
      form.ops, [](Operation *op) { return isa<SoftmaxOp, LogSoftmaxOp>(op); });
  return (isNarrow() || isCached()) &&
         form.length() <=
             (hasPowers && !isNarrow() ? kLongestPairOfPowers : kLongestPair);
}

bool RowPhase::fitsFour() const {
  return target.privateScratch && target.registers >= 32 &&
         !form.isVertical() && isNarrow() && form.length() <= kLongestOfFour &&
         form.length() % vectorOfFour() == 0;
}

PhaseCost RowPhase::cost() {
  int64_t items = form.rows();
  if (form.isVertical() && items)
    items =
        items / form.shape.back() * llvm::divideCeil(form.shape.back(), lanes);
  double cycles = 0;
  for (Operation *op : form.ops)
    cycles += isa<SoftmaxOp, LogSoftmaxOp>(op) ? 3.0 : 1.5;
  return {
      items / together,
      static_cast<double>(together) *
          (20 + cycles * static_cast<double>(form.length()) *
                    (form.isVertical() ? std::max(1.0, lanes / 8.0) : 1.0))};
}

/// Do not buffer inputs that are read once, or that are in memory already.
SmallVector<Value> RowPhase::keptBy(Operation *op) {
  Value input = op->getOperand(0);
  bool single = op->hasTrait<ReducesRows>() && input.hasOneUse();
  if (!target.privateScratch || single || emitter.isBound(input))
    return {};
  bool plain = breaksOf(emitter, input).empty() &&
               isContiguous(emitter, input, {0, form.shape.back()});
  if (plain && costOf(emitter, input) <= kRecomputeCost)
    return {};
  return {input};
}

void RowPhase::emit(Value item) {
  RowKernelSchedule choice;
  choice.columns = lanes;
  choice.takesOneWalk = form.isVertical() && form.fitsOneWalk();
  choice.keepsPowers = target.privateScratch;
  // Also if rows are no multiple of four: a row's summation order is fixed.
  if (fitsFour())
    choice.vector = vectorOfFour();
  choice.kept = [&](size_t op) { return keptBy(form.ops[op]); };
  SmallVector<RowKernelEmitter::Stored> stored;
  for (const Root &root : roots)
    stored.push_back({{root.tensor, root.tensor, 0, {}}, root.memref});
  RowKernelEmitter program(emitter, form, std::move(choice), stored);
  // A failure is recorded in `emitter`.
  if (together == 1)
    return (void)program.emitItem(item);
  Value first = index.mul(item, together);
  SmallVector<Value> others;
  for (int64_t number = 1; number < together; ++number)
    others.push_back(index.add(first, emitter.index(number)));
  Operation *before = others.back().getDefiningOp();
  (void)program.emitItem(first);
  SmallVector<Operation *> ops;
  for (Operation *op = before->getNextNode();
       op && op != builder.getInsertionPoint().getNodePtr();
       op = op->getNextNode())
    ops.push_back(op);
  unrollAndJamItems(
      builder, ops, first, others,
      form.rows() * form.length() > kCached ? together * form.length() : 0);
}

std::unique_ptr<Phase> mpc::makeRowPhase(LoopContext &context,
                                         ArrayRef<Root> roots) {
  RowPattern form;
  if (failed(form.analyze(context.emitter, roots)))
    return nullptr;
  return std::make_unique<RowPhase>(context, roots, std::move(form));
}
