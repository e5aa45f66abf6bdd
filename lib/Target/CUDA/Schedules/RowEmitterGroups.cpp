//===- RowEmitterGroups.cpp - joining what the threads of a group have ----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowEmitter.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using arith::CmpIPredicate;

static constexpr int64_t kWarp = 32;

/// The prelude has the named ways to join for f32.
bool RowEmitter::isNamed(Kind kind, ValueRange values) {
  return kind != Kind::Other &&
         getElementTypeOrSelf(values.front().getType()).isF32();
}

Carried RowEmitter::joinVector(ValueRange vectors, Kind kind, Join join) {
  if (isNamed(kind, vectors)) {
    auto combining = kind == Kind::Sum       ? vector::CombiningKind::ADD
                     : kind == Kind::Largest ? vector::CombiningKind::MAXIMUMF
                                             : vector::CombiningKind::MINIMUMF;
    return {vector::ReductionOp::create(kernel.builder, kernel.loc, combining,
                                        vectors.front())};
  }
  SmallVector<Carried> lanes(geometry.vector);
  for (auto [lane, values] : llvm::enumerate(lanes))
    for (Value vector : vectors)
      values.push_back(
          vector::ExtractOp::create(kernel.builder, kernel.loc, vector, lane));
  for (size_t count = lanes.size(); count > 1; count /= 2)
    for (size_t lane = 0; lane < count / 2; ++lane)
      lanes[lane] = join(lanes[2 * lane], lanes[2 * lane + 1]);
  return lanes.front();
}

Carried RowEmitter::joinAll(ValueRange own, StringRef name, Kind kind,
                            Join join) {
  Carried values(own);
  if (!form.isVertical() && geometry.vector > 1)
    values = joinVector(values, kind, join);
  values = joinGroup(values, name, kind, join);
  for (Value value : values)
    kernel.named(value, name);
  return values;
}

Carried RowEmitter::joinGroup(ValueRange values, StringRef name, Kind kind,
                              Join join) {
  if (geometry.group == 1)
    return Carried(values);
  if (form.isVertical())
    return joinColumns(values, name, join);
  Carried joined =
      joinWarp(values, std::min(geometry.group, kWarp), kind, join);
  return geometry.group > kWarp ? joinWarps(joined, name, kind, join) : joined;
}

Carried RowEmitter::joinWarp(ValueRange values, int64_t width, Kind kind,
                             Join join) {
  OpBuilder &builder = kernel.builder;
  Location loc = kernel.loc;
  if (width == 1)
    return Carried(values);
  if (isNamed(kind, values)) {
    auto operation = kind == Kind::Sum ? gpu::AllReduceOperation::ADD
                     : kind == Kind::Largest
                         ? gpu::AllReduceOperation::MAXIMUMF
                         : gpu::AllReduceOperation::MINIMUMF;
    return {gpu::SubgroupReduceOp::create(
        builder, loc, values.front(), operation, /*uniform=*/false,
        width == kWarp ? std::nullopt : std::optional<uint32_t>(width))};
  }
  Type i32 = builder.getI32Type();
  auto loop = scf::ForOp::create(builder, loc, emitter.index(0),
                                 emitter.index(llvm::Log2_64(width)),
                                 emitter.index(1), values);
  loop->setAttr(kUnrollAttr, builder.getUnitAttr());
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(loop.getBody());
  Value half = math.integer(i32, width / 2);
  Value distance = arith::ShRUIOp::create(
      builder, loc, half,
      arith::IndexCastOp::create(builder, loc, i32, loop.getInductionVar()));
  Carried others;
  for (Value value : loop.getRegionIterArgs())
    others.push_back(gpu::ShuffleOp::create(builder, loc, value, distance,
                                            math.integer(i32, kWarp),
                                            gpu::ShuffleMode::XOR)
                         .getShuffleResult());
  scf::YieldOp::create(builder, loc, join(loop.getRegionIterArgs(), others));
  return Carried(loop.getResults());
}

Carried RowEmitter::joinWarps(ValueRange values, StringRef name, Kind kind,
                              Join join) {
  OpBuilder &builder = kernel.builder;
  int64_t warps = geometry.group / kWarp;
  Value lane =
      gpu::LaneIdOp::create(builder, kernel.loc, /*upper_bound=*/nullptr);
  Value warp =
      gpu::SubgroupIdOp::create(builder, kernel.loc, /*upper_bound=*/nullptr);
  for (Value value : values)
    kernel.named(value, (name + "OfWarp").str());
  SmallVector<Value> arrays;
  for (Value value : values)
    arrays.push_back(kernel.shared({warps * geometry.items},
                                   memoryElementType(value.getType()),
                                   (name + "OfWarps").str()));
  Value isFirst = arith::CmpIOp::create(builder, kernel.loc, CmpIPredicate::eq,
                                        lane, emitter.index(0));
  (void)guarded(isFirst, {}, [&]() -> FailureOr<Carried> {
    for (auto [value, array] : llvm::zip(values, arrays))
      emitter.store(value, array, warp, 1);
    return Carried{};
  });
  kernel.barrier();
  Carried partial;
  Value place = index.rem(lane, warps);
  if (column)
    place = index.add(index.mul(column, warps), place);
  for (auto [value, array] : llvm::zip(values, arrays))
    partial.push_back(emitter.load(array, value.getType(), place, 1));
  return joinWarp(partial, warps, kind, join);
}

Carried RowEmitter::joinColumns(ValueRange values, StringRef name, Join join) {
  int64_t lanes = geometry.vector;
  Value place = column ? index.mul(column, lanes) : emitter.index(0);
  SmallVector<Value> arrays;
  for (Value value : values) {
    Type element = getElementTypeOrSelf(value.getType());
    Value array =
        kernel.shared({geometry.group, geometry.items * lanes},
                      memoryElementType(element), (name + "OfLines").str());
    emitter.store(value, array, {member, place}, lanes);
    arrays.push_back(array);
  }
  kernel.barrier();
  auto load = [&](Value line) {
    Carried loaded;
    for (auto [value, array] : llvm::zip(values, arrays))
      loaded.push_back(emitter.load(
          array, getElementTypeOrSelf(value.getType()), {line, place}, lanes));
    return loaded;
  };
  return *carryLoop(emitter, emitter.index(1), emitter.index(geometry.group), 1,
                    load(emitter.index(0)),
                    [&](Value line, ValueRange carried) -> FailureOr<Carried> {
                      return join(carried, load(line));
                    });
}
