//===- BatchIndependence.cpp - batch independence of results --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Traverses the two functions in parallel: extents that differ contain rows.
// Every op must map the rows of its operands to one dimension of each result;
// an op without a rule is rejected (RowPropagation.cpp).
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/BatchIndependence.h"

#include "mpc/Analysis/RowPropagation.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

#include <cstring>

using namespace mlir;
using namespace mpc;

namespace {

/// Traverses two functions in parallel.
class BatchRowTracker {
public:
  BatchRowTracker(int64_t fewRows, int64_t manyRows, StringRef dimension)
      : fewRows(fewRows), manyRows(manyRows), dimension(dimension) {}

  BatchIndependence run(func::FuncOp few, func::FuncOp many);

private:
  using Outcome = BatchIndependence::Outcome;

  /// Returns the dimensions in which the extents of two values differ; nullopt
  /// if the types differ otherwise.
  static std::optional<SmallVector<unsigned>> differingDims(Value few,
                                                            Value many);
  /// Returns true if two ops are the same except for extents.
  bool isSameOp(Operation &few, Operation &many) const;
  Outcome follow(Operation &few, Operation &many);
  Outcome followSource(Operation &few, Operation &many, unsigned dim);
  Outcome define(Value few, Value many, std::optional<RowLocation> place);
  Outcome mixed(Operation &op, const Twine &why) const;
  /// Number of elements per row in a dimension of this extent.
  int64_t elementsPerRow(Value value, unsigned dim) const {
    return shapeOf(value)[dim] / manyRows;
  }

  int64_t fewRows, manyRows;
  StringRef dimension;
  /// By values of the function with many rows.
  llvm::DenseMap<Value, Value> twins;
  llvm::DenseMap<Value, RowLocation> places;
};

} // namespace

std::optional<SmallVector<unsigned>>
BatchRowTracker::differingDims(Value few, Value many) {
  auto left = dyn_cast<RankedTensorType>(few.getType()),
       right = dyn_cast<RankedTensorType>(many.getType());
  if (!left || !right || left.getRank() != right.getRank() ||
      left.getElementType() != right.getElementType())
    return std::nullopt;
  SmallVector<unsigned> dims;
  for (unsigned i = 0; i < left.getRank(); ++i)
    if (left.getDimSize(i) != right.getDimSize(i))
      dims.push_back(i);
  return dims;
}

/// Returns true if two constants of one type contain the same bytes.
static bool holdSame(ElementsAttr few, ElementsAttr many) {
  if (few == many)
    return true;
  FailureOr<ConstantBytes> left = ConstantBytes::get(few),
                           right = ConstantBytes::get(many);
  return few.getType() == many.getType() && succeeded(left) &&
         succeeded(right) && left->bytes() == right->bytes();
}

/// Returns true if the constants have equal elements in the rows that both have
/// along `dim`, each row being one index.
static bool beginAlike(ElementsAttr few, ElementsAttr many, unsigned dim) {
  FailureOr<ConstantBytes> left = ConstantBytes::get(few),
                           right = ConstantBytes::get(many);
  if (failed(left) || failed(right))
    return false;
  ArrayRef<int64_t> shape = cast<RankedTensorType>(few.getType()).getShape();
  int64_t outer = productOf(shape.take_front(dim));
  if (outer == 0 || left->bytes().empty())
    return true;
  size_t fewRun = left->bytes().size() / size_t(outer),
         manyRun = right->bytes().size() / size_t(outer);
  for (size_t i = 0; i < size_t(outer); ++i)
    if (std::memcmp(left->bytes().data() + i * fewRun,
                    right->bytes().data() + i * manyRun,
                    std::min(fewRun, manyRun)) != 0)
      return false;
  return true;
}

bool BatchRowTracker::isSameOp(Operation &few, Operation &many) const {
  if (few.getName() != many.getName() ||
      few.getNumOperands() != many.getNumOperands() ||
      few.getNumResults() != many.getNumResults())
    return false;
  for (auto [left, right] :
       llvm::zip_equal(few.getOperands(), many.getOperands()))
    if (twins.lookup(right) != left)
      return false;
  // Values are compared once it is known which of them belong to which row.
  if (isa<mpc::ConstantOp>(many))
    return true;
  // The slice's size follows from the result's extents.
  if (auto slice = dyn_cast<SliceOp>(many)) {
    auto other = cast<SliceOp>(few);
    return slice.getOffsets() == other.getOffsets() &&
           slice.getStrideValues() == other.getStrideValues();
  }
  return few.getPropertiesAsAttribute() == many.getPropertiesAsAttribute();
}

BatchIndependence::Outcome BatchRowTracker::mixed(Operation &op,
                                                  const Twine &why) const {
  op.emitError() << "'" << op.getName() << "' " << why.str() << ": dimension '"
                 << dimension << "' cannot be padded from "
                 << std::min(fewRows, manyRows) << " to "
                 << std::max(fewRows, manyRows) << "; give it no buckets";
  return Outcome::Mixed;
}

BatchIndependence::Outcome
BatchRowTracker::define(Value few, Value many,
                        std::optional<RowLocation> place) {
  twins[many] = few;
  std::optional<SmallVector<unsigned>> dims = differingDims(few, many);
  if (!dims)
    return Outcome::OtherProgram;
  Operation *op = many.getDefiningOp();
  if (dims->empty())
    return place ? mixed(*op, "combines all rows into one value")
                 : Outcome::Independent;
  if (dims->size() > 1 || !place || place->dim != dims->front())
    return mixed(*op, "combines different rows");
  unsigned dim = dims->front();
  int64_t perRow = elementsPerRow(many, dim);
  if (perRow * manyRows != shapeOf(many)[dim] ||
      perRow * fewRows != shapeOf(few)[dim] || perRow % place->width != 0)
    return mixed(*op,
                 "has extents that are not proportional to the number of rows");
  places[many] = *place;
  return Outcome::Independent;
}

BatchIndependence::Outcome
BatchRowTracker::followSource(Operation &few, Operation &many, unsigned dim) {
  Value left = few.getResult(0), right = many.getResult(0);
  int64_t perRow = elementsPerRow(right, dim);
  // If all elements along the dimension are equal, their order is irrelevant.
  RowLocation place{dim, std::max<int64_t>(perRow, 1)};
  if (auto constant = dyn_cast<mpc::ConstantOp>(many)) {
    ElementsAttr before = cast<mpc::ConstantOp>(few).getValue();
    std::optional<double> splat = splatValue(constant.getValue());
    bool same =
        splat ? splatValue(before) == splat
              : perRow == 1 && beginAlike(before, constant.getValue(), dim);
    if (!same)
      return mixed(many, "contains values that depend on the number of rows");
  } else if (auto iota = dyn_cast<IotaOp>(many)) {
    if (iota.getAxis() == dim && perRow != 1)
      return mixed(many, "numbers positions across rows");
  } else if (!isa<BroadcastOp>(many)) {
    return mixed(many, "is not known to keep rows independent");
  }
  return define(left, right, place);
}

BatchIndependence::Outcome BatchRowTracker::follow(Operation &few,
                                                   Operation &many) {
  if (!isSameOp(few, many))
    return Outcome::OtherProgram;
  if (many.getNumRegions() != 0)
    return mixed(many, "has regions, which the row analysis does not support");
  bool readsRows = llvm::any_of(
      many.getOperands(), [&](Value value) { return places.contains(value); });
  if (!readsRows) {
    // The same values, or the same for each row.
    for (auto [left, right] :
         llvm::zip_equal(few.getResults(), many.getResults())) {
      std::optional<SmallVector<unsigned>> dims = differingDims(left, right);
      if (!dims)
        return Outcome::OtherProgram;
      Outcome outcome = Outcome::Independent;
      if (dims->empty()) {
        auto constant = dyn_cast<mpc::ConstantOp>(many);
        if (constant && !holdSame(cast<mpc::ConstantOp>(few).getValue(),
                                  constant.getValue()))
          return mixed(many,
                       "contains values that depend on the number of rows");
        outcome = define(left, right, std::nullopt);
      } else if (dims->size() > 1 || many.getNumResults() != 1) {
        return mixed(many, "combines different rows");
      } else {
        outcome = followSource(few, many, dims->front());
      }
      if (outcome != Outcome::Independent)
        return outcome;
    }
    return Outcome::Independent;
  }
  RowPropagation rules(&many, places, manyRows);
  for (unsigned i = 0; i < many.getNumResults(); ++i) {
    std::optional<RowLocation> place = rules.placeIn(i);
    if (!place)
      return mixed(many, rules.why());
    if (Outcome outcome = define(few.getResult(i), many.getResult(i), place);
        outcome != Outcome::Independent)
      return outcome;
  }
  return Outcome::Independent;
}

BatchIndependence BatchRowTracker::run(func::FuncOp few, func::FuncOp many) {
  BatchIndependence result;
  Block &left = few.getBody().front(), &right = many.getBody().front();
  result.outcome = Outcome::OtherProgram;
  if (left.getNumArguments() != right.getNumArguments())
    return result;
  for (auto [argument, padded] :
       llvm::zip_equal(left.getArguments(), right.getArguments())) {
    std::optional<SmallVector<unsigned>> dims = differingDims(argument, padded);
    if (!dims || dims->size() > 1)
      return result;
    twins[padded] = argument;
    if (!dims->empty())
      places[padded] = {dims->front(), 1};
  }
  auto op = left.begin(), twin = right.begin();
  for (; op != left.end() && twin != right.end(); ++op, ++twin) {
    if (twin->hasTrait<OpTrait::IsTerminator>())
      break;
    if (Outcome outcome = follow(*op, *twin); outcome != Outcome::Independent) {
      result.outcome = outcome;
      return result;
    }
  }
  if (op == left.end() || twin == right.end() || !isSameOp(*op, *twin))
    return result;
  for (Value value : twin->getOperands()) {
    auto place = places.find(value);
    result.results.push_back(
        place == places.end() ? std::nullopt : std::optional(place->second));
  }
  result.outcome = Outcome::Independent;
  return result;
}

BatchIndependence mpc::checkBatchIndependence(func::FuncOp few,
                                              func::FuncOp many,
                                              int64_t fewRows, int64_t manyRows,
                                              StringRef dimension) {
  return BatchRowTracker(fewRows, manyRows, dimension).run(few, many);
}
