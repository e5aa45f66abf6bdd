//===- PrintVectors.cpp - printing of vector ops --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelPrinter.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

ReductionNames cuda::reductionNames(StringRef kind) {
  return llvm::StringSwitch<ReductionNames>(kind)
      .Case("add", {"sumOfLanes", "warpSum"})
      .Case("maximumf", {"maximumOfLanes", "warpMax"})
      .Case("minimumf", {"minimumOfLanes", "warpMin"})
      .Case("or", {"anyLane", ""})
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
    std::string mask = llvm::join(
        llvm::map_range(shuffle.getMask(),
                        [](int64_t lane) { return std::to_string(lane); }),
        ", ");
    p.define(shuffle, call("mpc::shuffleLanes<" + mask + ">", operands));
    return true;
  }
  if (auto cast = dyn_cast<vector::BitCastOp>(op)) {
    p.define(cast, call("mpc::bitcast<" + p.typeName(cast.getType(), op) + ">",
                        p.takeWhole(cast.getSource())));
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
