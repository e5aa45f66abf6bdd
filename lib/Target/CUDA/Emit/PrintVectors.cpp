//===- PrintVectors.cpp - printing of vector ops --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelPrinter.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

/// Returns "mpc::shuffleLanes<0, 2>": a permutation of the lanes of one or two
/// vectors.
static std::string lanePicker(ArrayRef<int64_t> lanes) {
  std::string text = "mpc::shuffleLanes<";
  for (auto [i, lane] : llvm::enumerate(lanes))
    text += (i ? ", " : "") + std::to_string(lane);
  return text + ">";
}

ReductionNames cuda::reductionNames(StringRef kind) {
  return llvm::StringSwitch<ReductionNames>(kind)
      .Case("add", {"sumOfLanes", "warpSum"})
      .Case("mul", {"productOfLanes", "warpProduct"})
      .Cases({"maximumf", "maxsi"}, {"maximumOfLanes", "warpMax"})
      .Cases({"minimumf", "minsi"}, {"minimumOfLanes", "warpMin"})
      .Case("and", {"allLanes", "warpAnd"})
      .Case("or", {"anyLane", "warpOr"})
      .Default({});
}

bool cuda::printVector(KernelPrinter &p, Operation *op) {
  if (auto broadcast = dyn_cast<vector::BroadcastOp>(op)) {
    if (isa<VectorType>(broadcast.getSourceType()))
      return false;
    Expression lane = p.take(broadcast.getSource());
    lane.splat = true;
    // Name the scalar; repeating a splat is free.
    if (p.inlines(broadcast, lane)) {
      p.define(broadcast, lane);
    } else {
      lane = p.takeSimple(broadcast.getSource(), "lane");
      lane.splat = true;
      p.bind(broadcast, lane);
    }
    return true;
  }
  if (auto extract = dyn_cast<vector::ExtractOp>(op)) {
    if (extract.getNumIndices() != 1 || isa<VectorType>(extract.getType()))
      return false;
    Expression vector = p.takeWhole(extract.getSource());
    bool isDynamic = extract.hasDynamicPosition();
    Expression lane =
        isDynamic ? p.take(extract.getDynamicPosition().front())
                  : Expression(std::to_string(extract.getStaticPosition()[0]));
    p.define(extract, {vector.in(Precedence::Primary) + "[" + lane.text + "]",
                       Precedence::Primary,
                       {vector, lane}});
    return true;
  }
  if (auto insert = dyn_cast<vector::InsertOp>(op)) {
    if (insert.getStaticPosition().size() != 1 ||
        isa<VectorType>(insert.getValueToStoreType()))
      return false;
    Expression lane =
        insert.hasDynamicPosition()
            ? p.take(insert.getDynamicPosition().front())
            : Expression(std::to_string(insert.getStaticPosition()[0]));
    Expression vector = p.takeWhole(insert.getDest());
    Expression value = p.take(insert.getValueToStore());
    p.define(insert, call("mpc::withLane", {vector, lane, value}));
    return true;
  }
  if (auto elements = dyn_cast<vector::FromElementsOp>(op)) {
    SmallVector<Expression> lanes;
    for (Value element : elements.getElements())
      lanes.push_back(p.take(element));
    p.define(elements, call(p.typeName(elements.getType(), op), lanes, "{}"));
    return true;
  }
  if (auto shuffle = dyn_cast<vector::ShuffleOp>(op)) {
    Expression first = p.takeWhole(shuffle.getV1());
    SmallVector<Expression> operands = {first};
    int64_t lanes = shuffle.getV1VectorType().getDimSize(0);
    bool both = llvm::any_of(shuffle.getMask(),
                             [&](int64_t lane) { return lane >= lanes; });
    Expression second = p.takeWhole(shuffle.getV2());
    if (both)
      operands.push_back(second);
    p.define(shuffle, call(lanePicker(shuffle.getMask()), operands));
    return true;
  }
  if (auto slice = dyn_cast<vector::ExtractStridedSliceOp>(op)) {
    int64_t begin = cast<IntegerAttr>(slice.getOffsets()[0]).getInt();
    SmallVector<int64_t> lanes;
    for (int64_t i = 0; i < cast<VectorType>(slice.getType()).getDimSize(0);
         ++i)
      lanes.push_back(begin + i);
    p.define(slice, call(lanePicker(lanes), p.takeWhole(slice.getSource())));
    return true;
  }
  if (auto cast = dyn_cast<vector::BitCastOp>(op)) {
    p.define(cast, call("mpc::bitcast<" + p.typeName(cast.getType(), op) + ">",
                        p.takeWhole(cast.getSource())));
    return true;
  }
  if (auto step = dyn_cast<vector::StepOp>(op)) {
    VectorType type = step.getType();
    p.define(step, Expression("mpc::laneNumbers<" +
                              std::to_string(type.getDimSize(0)) + ", " +
                              p.typeName(type.getElementType(), op) + ">()"));
    return true;
  }
  if (auto mask = dyn_cast<vector::ConstantMaskOp>(op)) {
    p.define(mask,
             Expression("mpc::firstLanes<" +
                        std::to_string(mask.getType().getDimSize(0)) + ">(" +
                        std::to_string(mask.getMaskDimSizes()[0]) + ")"));
    return true;
  }
  if (auto mask = dyn_cast<vector::CreateMaskOp>(op)) {
    std::string lanes = std::to_string(mask.getType().getDimSize(0));
    p.define(mask, call("mpc::firstLanes<" + lanes + ">",
                        p.take(mask.getOperands().front())));
    return true;
  }
  if (auto reduction = dyn_cast<vector::ReductionOp>(op)) {
    StringRef name =
        reductionNames(vector::stringifyCombiningKind(reduction.getKind()))
            .ofLanes;
    if (name.empty())
      return false;
    Expression result =
        call(("mpc::" + name).str(), p.takeWhole(reduction.getVector()));
    if (Value start = reduction.getAcc()) {
      if (name != "sumOfLanes" || !reduction.getType().isF32())
        return false;
      result = binary(p.take(start), "+", result, Precedence::Sum);
    }
    p.define(reduction, result);
    return true;
  }
  return false;
}
