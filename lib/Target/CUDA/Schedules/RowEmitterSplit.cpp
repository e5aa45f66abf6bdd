//===- RowEmitterSplit.cpp - rows that several blocks share ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each block leaves what it has of its items in the scratch buffer and counts
// itself; the last one finds everything there, joins it, stores the results and
// leaves the counter at zero for the next launch.
//
//===----------------------------------------------------------------------===//

#include "RowEmitter.h"

#include "mpc/Dialect/Cuda/IR/CudaOps.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using arith::CmpIPredicate;

LogicalResult RowEmitter::leavePartials(ArrayRef<Reducer> reducers,
                                        ArrayRef<Carried> partials) {
  OpBuilder &builder = kernel.builder;
  Location loc = kernel.loc;
  int64_t lanes = form.isVertical() ? geometry.vector : 1;
  RowScratch layout(*plan, geometry);
  Value line = kernel.block(gpu::Dimension::y), row = kernel.block();
  Value place = index.mul(row, geometry.items);
  if (column)
    place = index.add(place, column);
  place = index.mul(place, lanes);
  SmallVector<Value> arrays;
  for (auto [reducer, op] : llvm::zip(reducers, form.ops))
    for (Type type : plan->partials(op)) {
      Type stored = memoryElementType(type);
      Value flat = index.view(kernel.scratch, layout.offsets[arrays.size()],
                              geometry.splits * layout.lanes, stored);
      kernel.named(flat, (reducer.name + "OfBlocks").str());
      arrays.push_back(emitter.viewAs(flat, {geometry.splits, layout.lanes}));
    }
  (void)guarded(first, {}, [&]() -> FailureOr<Carried> {
    size_t next = 0;
    for (const Carried &values : partials)
      for (Value value : values)
        emitter.store(value, arrays[next++], {line, place}, lanes);
    return Carried{};
  });

  // Count.
  cuda::FenceOp::create(builder, loc);
  kernel.barrier();
  Type i32 = builder.getI32Type();
  Value counters = kernel.named(
      index.view(kernel.scratch, 0, layout.blocks, i32), "counters");
  Value last = kernel.shared({1}, i32, "blocksBefore");
  Value isFirstThread = arith::CmpIOp::create(
      builder, loc, CmpIPredicate::eq, kernel.thread(), emitter.index(0));
  (void)guarded(isFirstThread, {}, [&]() -> FailureOr<Carried> {
    Value before =
        memref::AtomicRMWOp::create(builder, loc, arith::AtomicRMWKind::addi,
                                    math.integer(i32, 1), counters, row);
    memref::StoreOp::create(builder, loc, before, last, emitter.index(0));
    return Carried{};
  });
  kernel.barrier();
  Value isLast =
      math.compare(CmpIPredicate::eq,
                   memref::LoadOp::create(builder, loc, last, emitter.index(0)),
                   math.integer(i32, geometry.splits - 1));
  FailureOr<Carried> done = guarded(isLast, {}, [&]() -> FailureOr<Carried> {
    cuda::FenceOp::create(builder, loc);
    if (failed(finishSplit(reducers, arrays, place)))
      return failure();
    (void)guarded(isFirstThread, {}, [&]() -> FailureOr<Carried> {
      memref::StoreOp::create(builder, loc, math.integer(i32, 0), counters,
                              row);
      return Carried{};
    });
    return Carried{};
  });
  return success(succeeded(done));
}

LogicalResult RowEmitter::finishSplit(ArrayRef<Reducer> reducers,
                                      ArrayRef<Value> arrays, Value place) {
  int64_t lanes = form.isVertical() ? geometry.vector : 1;
  int64_t steps = llvm::divideCeil(geometry.splits, geometry.group);
  size_t next = 0;
  for (auto [reducer, op] : llvm::zip(reducers, form.ops)) {
    SmallVector<Type> types = plan->partials(op);
    ArrayRef<Value> own = arrays.slice(next, types.size());
    next += types.size();
    Carried initial;
    for (Value value : reducer.initial)
      initial.push_back(lanes > 1 ? spread(value) : value);
    FailureOr<Carried> joined = carryLoop(
        emitter, emitter.index(0), emitter.index(steps), 1, initial,
        [&](Value iteration, ValueRange carried) -> FailureOr<Carried> {
          Value line = index.add(index.mul(iteration, geometry.group), member);
          Value exists = steps * geometry.group == geometry.splits
                             ? Value()
                             : index.less(line, geometry.splits);
          return guarded(exists, carried, [&]() -> FailureOr<Carried> {
            Carried partial;
            for (auto [array, type] : llvm::zip(own, types))
              partial.push_back(
                  emitter.load(array, type, {line, place}, lanes));
            return reducer.join(carried, partial);
          });
        });
    if (failed(joined))
      return failure();
    Carried values =
        joinGroup(*joined, reducer.name, reducer.kind, reducer.join);
    emitter.bindValue(op->getResult(0), reducer.finish(values));
  }
  return storeResults();
}
