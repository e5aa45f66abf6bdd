//===- EvaluateCollectives.cpp - collectives ------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Executes all ranks at once: an operand is one tensor per rank.
//
//===----------------------------------------------------------------------===//

#include "EvaluateCollectives.h"

#include "Evaluation.h"

#include "mpc/Support/NeighborTree.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::reference;

namespace {

/// Reduction of one element's values, neighboring ranks first.
class Reducer {
public:
  template <typename OpTy>
  Reducer(OpTy op, Type element, Rounding rounding)
      : kind(op.getReduction()),
        accumulate(op.getAccumulate().value_or(element)), element(element),
        rounds(roundsToTypes(rounding)) {}

  double reduce(ArrayRef<double> values) const {
    double total = combineNeighbors(values, [&](double x, double y) {
      switch (kind) {
      case RankReduction::sum:
      case RankReduction::mean:
        return sum(x + y);
      case RankReduction::min:
        return minimum(x, y);
      case RankReduction::max:
        return maximum(x, y);
      }
      llvm_unreachable("all kinds are covered");
    });
    if (kind == RankReduction::mean)
      total = sum(total / double(values.size()));
    return rounds ? roundTo(total, element) : total;
  }

  int64_t reduce(ArrayRef<int64_t> values) const {
    IntegerKind type(element);
    return combineNeighbors(values, [&](int64_t x, int64_t y) {
      switch (kind) {
      case RankReduction::sum:
      case RankReduction::mean:
        return type.wrap(int64_t(uint64_t(x) + uint64_t(y)));
      case RankReduction::min:
        return type.less(y, x) ? y : x;
      case RankReduction::max:
        return type.less(x, y) ? y : x;
      }
      llvm_unreachable("all kinds are covered");
    });
  }

private:
  double sum(double value) const {
    return rounds ? roundTo(value, accumulate) : value;
  }

  RankReduction kind;
  Type accumulate, element;
  bool rounds;
};

/// Tensors of one operand, by rank.
using RankValues = SmallVector<const Tensor *>;

/// Calls `visit(index, values)` for each element with its values on all ranks.
template <typename T>
void eachElement(const RankValues &ranks,
                 llvm::function_ref<ArrayRef<T>(const Tensor &)> data,
                 llvm::function_ref<void(int64_t, ArrayRef<T>)> visit) {
  SmallVector<T> values(ranks.size());
  for (int64_t i = 0; i < ranks.front()->size(); ++i) {
    for (auto [value, tensor] : llvm::zip_equal(values, ranks))
      value = data(*tensor)[i];
    visit(i, values);
  }
}

ArrayRef<double> floatsOf(const Tensor &tensor) { return tensor.floats(); }
ArrayRef<int64_t> intsOf(const Tensor &tensor) { return tensor.ints(); }

/// Reduces an operand over all ranks, elementwise.
Tensor reduced(const RankValues &ranks, const Reducer &reducer) {
  Tensor result(ranks.front()->getType());
  if (result.isFloat())
    eachElement<double>(ranks, floatsOf, [&](int64_t i, ArrayRef<double> all) {
      result.floats()[i] = reducer.reduce(all);
    });
  else
    eachElement<int64_t>(ranks, intsOf, [&](int64_t i, ArrayRef<int64_t> all) {
      result.ints()[i] = reducer.reduce(all);
    });
  return result;
}

/// Copies elements from `begin` on, as many as both tensors have.
void copyPiece(const Tensor &from, int64_t begin, Tensor &to, int64_t at) {
  int64_t count =
      std::max<int64_t>(0, std::min(from.size() - begin, to.size() - at));
  for (int64_t i = 0; i < count; ++i)
    if (to.isFloat())
      to.floats()[at + i] = from.floats()[begin + i];
    else
      to.ints()[at + i] = from.ints()[begin + i];
}

} // namespace

LogicalResult mpc::reference::evaluateCollective(
    CollectiveOpInterface op, ArrayRef<SmallVector<const Tensor *>> operands,
    MutableArrayRef<SmallVector<Tensor>> results, Rounding rounding) {
  size_t ranks = operands.size();
  if (op.getRanks() != ranks)
    return op->emitOpError() << "is of " << op.getRanks() << " ranks, " << ranks
                             << " are executed";
  for (unsigned number = 0; number < op->getNumOperands(); ++number) {
    RankValues values;
    for (const SmallVector<const Tensor *> &own : operands)
      values.push_back(own[number]);
    Type element = values.front()->getElementType();
    auto type = cast<RankedTensorType>(op->getResult(number).getType());
    if (auto reduce = dyn_cast<AllReduceOp>(op.getOperation())) {
      Tensor all = reduced(values, Reducer(reduce, element, rounding));
      for (SmallVector<Tensor> &own : results)
        own.push_back(all);
    } else if (auto scatter = dyn_cast<ReduceScatterOp>(op.getOperation())) {
      Tensor all = reduced(values, Reducer(scatter, element, rounding));
      for (auto [rank, own] : llvm::enumerate(results)) {
        Tensor &piece = own.emplace_back(type);
        copyPiece(all, int64_t(rank) * piece.size(), piece, 0);
      }
    } else if (isa<AllGatherOp>(op.getOperation())) {
      Tensor all(type);
      for (auto [rank, value] : llvm::enumerate(values))
        copyPiece(*value, 0, all, int64_t(rank) * value->size());
      for (SmallVector<Tensor> &own : results)
        own.push_back(all);
    } else if (auto broadcast =
                   dyn_cast<CollectiveBroadcastOp>(op.getOperation())) {
      for (SmallVector<Tensor> &own : results)
        own.push_back(*values[broadcast.getRoot()]);
    } else {
      return op->emitOpError("is not supported by the reference interpreter");
    }
  }
  return success();
}
