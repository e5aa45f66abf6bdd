//===- LossScalingRanks.cpp - overflow checks over ranks ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Data-parallel ranks check the reduced gradients, which are not finite if any
// rank's are not: all ranks decide alike without a message. To record the
// overflowing rank too, ranks exchange the records of their own gradients. With
// sharded gradients the same message carries the records of all shards and
// their partial norms.
//
//===----------------------------------------------------------------------===//

#include "LossScaling.h"

#include "mpc/Dialect/Mpc/IR/MpcCommunicationOps.h"

#include <limits>

using namespace mlir;
using namespace mpc;

/// Returns the collective that produced `gradient`, or null.
static CollectiveOpInterface messageOf(Value gradient) {
  Operation *op = gradient.getDefiningOp();
  return isa_and_nonnull<AllReduceOp, ReduceScatterOp>(op)
             ? cast<CollectiveOpInterface>(op)
             : CollectiveOpInterface();
}

Value LossScaling::ownOf(Value gradient) {
  CollectiveOpInterface message = messageOf(gradient);
  return message
             ? message->getOperand(cast<OpResult>(gradient).getResultNumber())
             : gradient;
}

int64_t LossScaling::ranksOf(const Group &group) {
  for (Value gradient : group.gradients)
    if (CollectiveOpInterface message = messageOf(gradient))
      return int64_t(message.getRanks());
  return 1;
}

bool LossScaling::isSharded(const Group &group) {
  return llvm::any_of(group.gradients, [](Value gradient) {
    return gradient.getDefiningOp<ReduceScatterOp>();
  });
}

void LossScaling::gatherRecords(Group &group, AllFiniteOp finite) {
  int64_t ranks = ranksOf(group);
  bool sharded = isSharded(group);
  Type i64 = builder.getI64Type();
  auto record = cast<RankedTensorType>(group.record.getType());
  auto tableOf = [&](int64_t rows) {
    return RankedTensorType::get({rows, 2}, i64);
  };
  auto constantOf = [&](RankedTensorType type, ArrayRef<int64_t> values) {
    return create<mpc::ConstantOp>(
        cast<ElementsAttr>(DenseElementsAttr::get(type, values)));
  };
  auto reduce = [&]<typename OpTy>(OpTy, Value values) -> Value {
    return OpTy::create(builder, loc, record, values,
                        builder.getDenseI64ArrayAttr({0}),
                        /*keep_dims=*/UnitAttr(), /*accumulate=*/TypeAttr());
  };
  SmallVector<Value> own = llvm::map_to_vector(group.gradients, ownOf);
  auto check = AllFiniteOp::create(builder, loc, finite.getFinite().getType(),
                                   record, own, finite.getUnscale(),
                                   finite.getNames(), finite.getUnscaleMode());
  SmallVector<Value> told = {check.getRecord()};
  if (sharded)
    told.push_back(group.record);
  SmallVector<Type> tables(told.size(), tableOf(ranks));
  auto gather = AllGatherOp::create(builder, loc, TypeRange(tables),
                                    ValueRange(told), uint64_t(ranks));
  Value ownRecords = gather.getOutputs()[0];
  Value sumRecords = sharded ? Value(gather.getOutputs()[1])
                             : create<ReshapeOp>(tableOf(1), group.record);

  // Numbers each tensor per rank, plus one for the sum: the minimum is the
  // first tensor that overflowed, on the first such rank.
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  Value zero = constantOf(record, {0, 0});
  auto numbered = [&](Value records, llvm::function_ref<int64_t(int64_t)> at) {
    auto type = cast<RankedTensorType>(records.getType());
    SmallVector<int64_t> offsets, none(2 * type.getDimSize(0), kNone);
    for (int64_t row = 0; row < type.getDimSize(0); ++row)
      offsets.append({at(row), 0});
    Value numbers = create<AddOp>(
        create<MulOp>(records, constantOf(record, {ranks + 1, 1})),
        constantOf(type, offsets));
    return reduce(
        ReduceMinOp(),
        create<SelectOp>(create<CompareOp>(ComparePredicate::ge, records, zero),
                         numbers, constantOf(type, none)));
  };
  Value first =
      create<MinOp>(numbered(ownRecords, [](int64_t row) { return row; }),
                    numbered(sumRecords, [&](int64_t) { return ranks; }));
  first =
      create<SelectOp>(create<CompareOp>(ComparePredicate::eq, first,
                                         constantOf(record, {kNone, kNone})),
                       constantOf(record, {-1, -1}), first);
  auto countsOf = [&](Value records) {
    return reduce(ReduceSumOp(), create<MaxOp>(records, zero));
  };
  Value ownCounts = countsOf(ownRecords), sumCounts = countsOf(sumRecords);
  // A sum of finite gradients may overflow without an overflow on any rank.
  Value counts =
      create<SelectOp>(create<CompareOp>(ComparePredicate::gt, ownCounts, zero),
                       ownCounts, sumCounts);
  Value isCount =
      create<mpc::ConstantOp>(cast<ElementsAttr>(DenseElementsAttr::get(
          record.clone(builder.getI1Type()), ArrayRef<bool>{false, true})));
  group.record = create<SelectOp>(isCount, counts, first);
  if (!sharded)
    return;
  auto one = RankedTensorType::get({1}, i64);
  Value bad =
      create<SliceOp>(one, sumCounts, builder.getDenseI64ArrayAttr({1}),
                      builder.getDenseI64ArrayAttr({1}), DenseI64ArrayAttr());
  bad = create<ReshapeOp>(RankedTensorType::get({}, i64), bad);
  group.finite = create<CompareOp>(ComparePredicate::eq, bad, constant(i64, 0));
  group.when = group.finite;
}

Value LossScaling::normOfPieces(const Group &group, ValueRange pieces,
                                Value unscale, UnscaleMode mode) {
  Type f32 = builder.getF32Type();
  auto rowOf = [&](int64_t count) {
    return RankedTensorType::get({count}, f32);
  };
  auto sum = [&](RankedTensorType type, Value values, bool keeps) -> Value {
    return ReduceSumOp::create(builder, loc, type, values,
                               builder.getDenseI64ArrayAttr({0}),
                               keeps ? builder.getUnitAttr() : UnitAttr(),
                               /*accumulate=*/TypeAttr());
  };
  SmallVector<Value> sums;
  for (Value piece : pieces) {
    Value value = castTo(piece, f32);
    if (unscale && mode == UnscaleMode::divide)
      value = create<DivOp>(value, castTo(unscale, f32));
    else if (unscale)
      value = create<MulOp>(value, castTo(unscale, f32));
    sums.push_back(sum(rowOf(1), create<MulOp>(value, value), /*keeps=*/true));
  }
  int64_t tensors = sums.size(), ranks = ranksOf(group);
  Value own = tensors == 1 ? sums.front()
                           : create<ConcatOp>(rowOf(tensors), sums, /*axis=*/0);
  auto table = RankedTensorType::get({ranks, tensors}, f32);
  Value all = AllGatherOp::create(builder, loc, TypeRange(Type(table)),
                                  ValueRange(own), uint64_t(ranks))
                  .getOutputs()
                  .front();
  Value squares = sum(rowOf(tensors), all, /*keeps=*/false);
  if (preset.clip == LossScalePreset::Clip::Torch)
    return create<GlobalNormOp>(RankedTensorType::get({}, f32),
                                create<SqrtOp>(squares), Value(),
                                UnscaleMode::multiply, /*of_norms=*/false);
  return create<SqrtOp>(
      sum(RankedTensorType::get({}, f32), squares, /*keeps=*/false));
}
