//===- ThreadGroupReductions.cpp - reductions in a thread group
//-----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ThreadGroupLowering.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::tile;
using arith::CmpIPredicate;

static constexpr int64_t kWarp = 32;

/// Returns true if the prelude implements the reduction (f32 only).
static bool isNamed(ItemReduceOp op) {
  return op.getJoining() != NamedReduction::any &&
         getElementTypeOrSelf(op.getResultTypes()[0]).isF32();
}

Carried ThreadGroupLowering::joinVector(ItemReduceOp op, ValueRange vectors) {
  if (isNamed(op)) {
    auto combining = op.getJoining() == NamedReduction::sum
                         ? vector::CombiningKind::ADD
                     : op.getJoining() == NamedReduction::largest
                         ? vector::CombiningKind::MAXIMUMF
                         : vector::CombiningKind::MINIMUMF;
    return {vector::ReductionOp::create(kernel.builder, kernel.loc, combining,
                                        vectors.front())};
  }
  SmallVector<Carried> lanes(team.getVector());
  for (auto [lane, values] : llvm::enumerate(lanes))
    for (Value vector : vectors)
      values.push_back(
          vector::ExtractOp::create(kernel.builder, kernel.loc, vector, lane));
  for (size_t count = lanes.size(); count > 1; count /= 2)
    for (size_t lane = 0; lane < count / 2; ++lane)
      lanes[lane] = applyReduction(kernel.builder, op, lanes[2 * lane],
                                   lanes[2 * lane + 1]);
  return lanes.front();
}

Carried ThreadGroupLowering::joinAll(ItemReduceOp op) {
  std::string partial = "partial" + op.getName().take_front().upper() +
                        op.getName().drop_front().str();
  for (Value value : op.getValues())
    kernel.named(value, partial);
  Carried values(op.getValues());
  if (!team.getColumns() && team.getVector() > 1)
    values = joinVector(op, values);
  values = joinTeam(op, values);
  for (Value value : values)
    kernel.named(value, op.getName());
  return values;
}

Carried ThreadGroupLowering::joinTeam(ItemReduceOp op, ValueRange values) {
  int64_t members = team.getMembers();
  if (members == 1)
    return Carried(values);
  if (team.getColumns())
    return joinColumns(op, values);
  Carried joined = joinWarp(op, values, std::min(members, kWarp));
  return members > kWarp ? joinWarps(op, joined) : joined;
}

Carried ThreadGroupLowering::joinWarp(ItemReduceOp op, ValueRange values,
                                      int64_t width) {
  OpBuilder &builder = kernel.builder;
  Location loc = kernel.loc;
  if (width == 1)
    return Carried(values);
  if (isNamed(op)) {
    auto operation = op.getJoining() == NamedReduction::sum
                         ? gpu::AllReduceOperation::ADD
                     : op.getJoining() == NamedReduction::largest
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
  scf::YieldOp::create(
      builder, loc,
      applyReduction(builder, op, loop.getRegionIterArgs(), others));
  return Carried(loop.getResults());
}

Carried ThreadGroupLowering::joinWarps(ItemReduceOp op, ValueRange values) {
  OpBuilder &builder = kernel.builder;
  StringRef name = op.getName();
  int64_t warps = team.getMembers() / kWarp;
  Value lane =
      gpu::LaneIdOp::create(builder, kernel.loc, /*upper_bound=*/nullptr);
  Value warp =
      gpu::SubgroupIdOp::create(builder, kernel.loc, /*upper_bound=*/nullptr);
  for (Value value : values)
    kernel.named(value, (name + "OfWarp").str());
  SmallVector<Value> arrays;
  for (Value value : values)
    arrays.push_back(kernel.shared({warps * team.getItems()},
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
  return joinWarp(op, partial, warps);
}

Carried ThreadGroupLowering::joinColumns(ItemReduceOp op, ValueRange values) {
  StringRef name = op.getName();
  int64_t lanes = team.getVector();
  Value place = column ? index.mul(column, lanes) : emitter.index(0);
  SmallVector<Value> arrays;
  for (Value value : values) {
    Type element = getElementTypeOrSelf(value.getType());
    Value array =
        kernel.shared({team.getMembers(), team.getItems() * lanes},
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
  return *carryLoop(emitter, emitter.index(1), emitter.index(team.getMembers()),
                    1, load(emitter.index(0)),
                    [&](Value line, ValueRange carried) -> FailureOr<Carried> {
                      return applyReduction(kernel.builder, op, carried,
                                            load(line));
                    });
}
