//===- RowKernel.cpp - codegen of row reductions --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parameters of the row program for a thread group, and the epilogue of
// reductions over rows.
//
//===----------------------------------------------------------------------===//

#include "RowReductionPlan.h"
#include "ThreadGroupLowering.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

/// Returns the number of columns that each of `threads` reduces at a time.
static int64_t columnsAtOnce(const RowReductionPlan &plan, ValueRange returned,
                             int64_t threads) {
  int64_t joined = kVectorBytes / int64_t(sizeof(float));
  for (const RowColumnSum &sum : plan.columnSums()) {
    int64_t columns = shapeOf(sum.op->getOperand(0)).back();
    joined = std::min(joined, kVectorBytes / bytesPerElement(carriedType(
                                                 accumulatorType(sum.op))));
    while (columns % joined)
      joined /= 2;
    // Reshaped columns are stored element by element.
    for (unsigned result : sum.results)
      if (ArrayRef<int64_t> shape = shapeOf(returned[result]);
          sum.isPerColumn && (shape.empty() || shape.back() != columns))
        joined = 1;
  }
  // Vectorize only if every thread has a vector.
  while (joined > 1 && plan.length() / joined < threads)
    joined /= 2;
  return joined;
}

/// Generates the epilogue of column sums, or of full sums (not `columns`).
static LogicalResult emitTotal(GpuKernel &kernel, ElementEmitter &emitter,
                               const RowReductionPlan &plan,
                               ArrayRef<Value> sums, bool columns, int64_t by) {
  OpBuilder &builder = kernel.builder;
  IndexMath index{builder, kernel.loc};
  SmallVector<const RowColumnSum *> of;
  SmallVector<Value> summed;
  SmallVector<Type> types = {builder.getIndexType()};
  for (auto [sum, value] : llvm::zip(plan.columnSums(), sums)) {
    auto type = cast<tile::AccumulatorsType>(value.getType());
    if ((type.getColumns() > 1) != columns)
      continue;
    of.push_back(&sum);
    summed.push_back(value);
    types.push_back(lanesOf(type.getElement(), by));
  }
  if (of.empty())
    return success();
  auto total = tile::TotalOp::create(builder, kernel.loc, summed, by);
  OpBuilder::InsertionGuard guard(builder);
  Block &block = total.getBody().emplaceBlock();
  block.addArguments(types, SmallVector<Location>(types.size(), kernel.loc));
  builder.setInsertionPointToEnd(&block);
  Operation *terminator = kernel.kernel.getBody().front().getTerminator();
  Value column = block.getArgument(0);
  for (auto [sum, value] : llvm::zip(of, block.getArguments().drop_front())) {
    emitter.bindValue(sum->op->getResult(0),
                      finishReduction(emitter, sum->op, value));
    for (unsigned number : sum->results) {
      Value result = terminator->getOperand(number);
      SmallVector<Value> indices =
          columns
              ? index.delinearize(column, shapeOf(result))
              : SmallVector<Value>(shapeOf(result).size(), index.constant(0));
      FailureOr<Value> made = emitter.emit(result, indices, by);
      if (failed(made))
        return failure();
      emitter.store(*made, kernel.outputs[number], indices, by);
    }
  }
  tile::YieldOp::create(builder, kernel.loc, ValueRange{});
  return success();
}

/// Rejects a user-provided schedule whose thread group does not fit.
static LogicalResult checkTeam(GpuKernel &kernel, const RowReductionPlan &plan,
                               tile::ThreadMappingAttr team) {
  const Schedule &schedule = kernel.schedule;
  auto refuse = [&](const Twine &what, int64_t needed, int64_t found) {
    return kernel.kernel.emitError()
           << "the schedule of kernel '" << kernel.kernel.getName()
           << "' needs " << what << " " << needed << ", found " << found;
  };
  bool isVertical = plan.form().isVertical();
  if (team.getColumns() != isVertical)
    return refuse("a thread mapping with columns =", isVertical,
                  team.getColumns());
  int64_t threads = team.getMembers() * team.getItems();
  if (threads != schedule.threads)
    return refuse("members times items threads,", threads, schedule.threads);
  if (plan.lanes() % team.getVector())
    return refuse("a vector width that divides", plan.lanes(),
                  team.getVector());
  int64_t covered = team.getSplits() * team.getSteps() * team.getMembers() *
                    (isVertical ? 1 : team.getVector());
  if (covered < plan.length())
    return refuse("a thread mapping that covers all positions,", plan.length(),
                  covered);
  if (team.getSplits() > 1 && !plan.isOneWalk())
    return refuse("splits =", 1, team.getSplits());
  int64_t shared =
      team.getKeep() == tile::Place::shared
          ? plan.keptBytes() * threads * team.getVector() * team.getSteps()
          : 0;
  if (schedule.sharedBytes < shared)
    return refuse("bytes of shared memory for buffers, at least", shared,
                  schedule.sharedBytes);
  int64_t scratch = 0;
  if (!plan.columnSums().empty())
    scratch = ColumnSumScratch(plan.sumTypes(), team, schedule.blocks[0]).bytes;
  else if (team.getSplits() > 1)
    scratch =
        SplitScratch(plan.items(team.getVector()), team, plan.partials()).bytes;
  if (schedule.scratchBytes < scratch)
    return refuse("bytes of scratch memory, at least", scratch,
                  schedule.scratchBytes);
  return success();
}

RowKernelSchedule RowReductionPlan::choice(tile::ThreadMappingAttr team) const {
  RowKernelSchedule choice;
  choice.columns = form().isVertical() ? team.getVector() : 1;
  choice.vector = team.getVector();
  choice.takesOneWalk = isOneWalk();
  choice.storesEarly = true;
  bool keeps = team.getKeep() != tile::Place::nowhere;
  choice.joinsSoftmax = !keeps && team.getSteps() > 1;
  choice.kept = [this, keeps](size_t op) {
    SmallVector<Value> kept;
    for (auto [tensor, walk] : keptTensors)
      if (keeps && walk == op)
        kept.push_back(tensor);
    return kept;
  };
  return choice;
}

LogicalResult cuda::emitRows(GpuKernel &kernel, const RowReductionPlan &plan,
                             tile::ThreadMappingAttr team) {
  if (!team)
    return kernel.kernel.emitError()
           << "kernel '" << kernel.kernel.getName()
           << "' has a row schedule without a thread mapping";
  if (failed(checkTeam(kernel, plan, team)))
    return failure();
  if (plan.rowCount() == 0)
    return success();
  OpBuilder &builder = kernel.builder;
  ElementEmitter emitter(builder, kernel.loc, cudaElementTarget());
  for (auto [argument, memref] :
       llvm::zip(plan.function().getArguments(), kernel.inputs))
    emitter.bindMemory(argument, emitter.viewAs(memref, shapeOf(argument)));
  SmallVector<RowKernelEmitter::Stored> results;
  for (const RowResult &result : plan.results())
    results.push_back({result, emitter.viewAs(kernel.outputs[result.number],
                                              shapeOf(result.result))});

  RowKernelSchedule choice = plan.choice(team);
  SmallVector<Value> sums;
  SmallVector<RowSum> summed;
  for (auto [type, sum] : llvm::zip(plan.sumTypes(), plan.columnSums())) {
    sums.push_back(tile::AccumulatorsOp::create(builder, kernel.loc, type));
    summed.push_back({sum.operand, sums.back()});
  }
  RowKernelEmitter program(emitter, plan.form(), std::move(choice), results);
  program.addSums(summed, plan.sumsOnFirstWalk());
  auto own = tile::ForEachOp::create(
      builder, kernel.loc, plan.items(team.getVector()), /*cycles=*/1.0,
      /*inOrder=*/false, team);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(own.getBody().front().getTerminator());
    if (failed(program.emitItem(own.getItem())))
      return failure();
  }
  if (sums.empty())
    return success();
  // The epilogue uses the original kernel's values.
  kernel.bindInputs(emitter);
  ValueRange returned =
      kernel.kernel.getBody().front().getTerminator()->getOperands();
  int64_t by =
      columnsAtOnce(plan, returned, team.getMembers() * team.getItems());
  return success(succeeded(emitTotal(kernel, emitter, plan, sums, true, by)) &&
                 succeeded(emitTotal(kernel, emitter, plan, sums, false, 1)));
}
