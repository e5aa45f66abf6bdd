//===- LossScalingRanks.cpp - whose gradient overflowed -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ranks that train together check the mean of their gradients, which is not
// finite where one rank's is not: all decide alike without a message. The
// record of an overflow names the rank as well, so that each tells the others
// what it found in its own.
//
//===----------------------------------------------------------------------===//

#include "LossScaling.h"

#include "mpc/Dialect/Mpc/IR/MpcCommunicationOps.h"

#include <limits>

using namespace mlir;
using namespace mpc;

Value LossScaling::ownOf(Value gradient) {
  auto mean = gradient.getDefiningOp<AllReduceOp>();
  return mean ? mean.getInputs()[cast<OpResult>(gradient).getResultNumber()]
              : gradient;
}

int64_t LossScaling::ranksOf(const Group &group) {
  for (Value gradient : group.gradients)
    if (auto mean = gradient.getDefiningOp<AllReduceOp>())
      return int64_t(mean.getRanks());
  return 1;
}

void LossScaling::gatherRecords(Group &group, AllFiniteOp finite) {
  int64_t ranks = ranksOf(group);
  Type i64 = builder.getI64Type();
  auto record = cast<RankedTensorType>(group.record.getType());
  auto records = RankedTensorType::get({ranks, 2}, i64);
  auto constantOf = [&](RankedTensorType type, ArrayRef<int64_t> values) {
    return create<mpc::ConstantOp>(
        cast<ElementsAttr>(DenseElementsAttr::get(type, values)));
  };
  SmallVector<Value> own = llvm::map_to_vector(group.gradients, ownOf);
  auto check = AllFiniteOp::create(builder, loc, finite.getFinite().getType(),
                                   record, own, finite.getUnscale(),
                                   finite.getNames(), finite.getUnscaleMode());
  Value all =
      AllGatherOp::create(builder, loc, TypeRange(Type(records)),
                          ValueRange(check.getRecord()), uint64_t(ranks))
          .getOutputs()
          .front();
  // Numbers count the ranks of the first tensor, then those of the next: the
  // least is the tensor that overflowed first, on the first rank where it did.
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  SmallVector<int64_t> offsets, none;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    offsets.append({rank, 0});
    none.append({kNone, kNone});
  }
  Value zero = constantOf(record, {0, 0});
  Value numbered =
      create<AddOp>(create<MulOp>(all, constantOf(record, {ranks, 1})),
                    constantOf(records, offsets));
  Value found =
      create<SelectOp>(create<CompareOp>(ComparePredicate::ge, all, zero),
                       numbered, constantOf(records, none));
  auto reduce = [&]<typename OpTy>(OpTy, Value values) -> Value {
    return OpTy::create(builder, loc, record, values,
                        builder.getDenseI64ArrayAttr({0}),
                        /*keep_dims=*/UnitAttr(), /*accumulate=*/TypeAttr());
  };
  Value first = reduce(ReduceMinOp(), found);
  // Means of finite gradients may overflow: no rank's did.
  first =
      create<SelectOp>(create<CompareOp>(ComparePredicate::eq, first,
                                         constantOf(record, {kNone, kNone})),
                       constantOf(record, {-1, -1}), first);
  Value counts = reduce(ReduceSumOp(), create<MaxOp>(all, zero));
  Value isCount =
      create<mpc::ConstantOp>(cast<ElementsAttr>(DenseElementsAttr::get(
          record.clone(builder.getI1Type()), ArrayRef<bool>{false, true})));
  group.record = create<SelectOp>(isCount, counts, first);
}
