//===- SelectResultEntries.cpp - computing a single entry of a result -----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// CompileOptions::chosen: computes only the entry of a result that an argument
// selects. The gather is moved up through the producers: for a decoder's prompt
// the LM head and the last layer's ops after its attention have one row.
//
//===----------------------------------------------------------------------===//

#include "Compiler.h"

#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"

using namespace mlir;
using namespace mpc;

namespace {

/// Operands of an op, with the dimension of each, whose single entry suffices
/// for one entry of the result.
using EntrySources = SmallVector<std::pair<unsigned, int64_t>>;

} // namespace

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static RankedTensorType withExtent(RankedTensorType type, int64_t dimension,
                                   int64_t extent) {
  SmallVector<int64_t> shape(type.getShape());
  shape[dimension] = extent;
  return type.clone(shape);
}

/// Operands are aligned at the last dimension; an operand that is broadcast
/// along `dimension` stays unchanged.
static EntrySources sourcesOfElementwise(Operation *op, int64_t dimension) {
  RankedTensorType result = typeOf(op->getResult(0));
  EntrySources sources;
  for (OpOperand &operand : op->getOpOperands()) {
    RankedTensorType type = typeOf(operand.get());
    int64_t own = dimension - (result.getRank() - type.getRank());
    if (own >= 0 && type.getDimSize(own) == result.getDimSize(dimension))
      sources.push_back({operand.getOperandNumber(), own});
  }
  return sources;
}

/// A row of a matmul needs one row of its left side, if the right side is
/// shared by all rows.
static std::optional<EntrySources> sourcesOfMatmul(MatmulOp op,
                                                   int64_t dimension) {
  int64_t rank = typeOf(op.getResult()).getRank(),
          own = typeOf(op.getLhs()).getRank();
  bool rows = rank == own && dimension == rank - 2 && !op.getTransposeLhs();
  if (!rows || op->getNumOperands() != 2)
    return std::nullopt;
  return EntrySources{{0, dimension}};
}

/// A reshape that does not merge `dimension` with others.
static std::optional<EntrySources> sourcesOfReshape(ReshapeOp op,
                                                    int64_t dimension) {
  RankedTensorType from = typeOf(op.getInput()), to = typeOf(op.getResult());
  int64_t before = 1, found = 1;
  for (int64_t i = 0; i < dimension; ++i)
    before *= to.getDimSize(i);
  for (int64_t i = 0; i < from.getRank(); found *= from.getDimSize(i++))
    if (found == before && from.getDimSize(i) == to.getDimSize(dimension))
      return EntrySources{{0, i}};
  return std::nullopt;
}

/// A dimension that is neither reduced nor normalized over.
static std::optional<EntrySources> sourcesOfReduction(ReductionOpInterface op,
                                                      int64_t dimension) {
  int64_t rank = typeOf(op->getOperand(0)).getRank();
  bool keeps = rank == typeOf(op->getResult(0)).getRank();
  // Other operands of these norms have the normalized dimensions only.
  if (op->getNumOperands() > 1 && !op->hasTrait<Normalizes>())
    return std::nullopt;
  for (int64_t own = 0, at = 0; own < rank; ++own) {
    bool isReduced = llvm::is_contained(op.getReductionAxes(), own);
    if (!isReduced && at == dimension)
      return EntrySources{{0, own}};
    at += !isReduced || keeps;
  }
  return std::nullopt;
}

static std::optional<EntrySources> sourcesOf(Operation *op, int64_t dimension) {
  if (op->getNumResults() != 1)
    return std::nullopt;
  if (auto matmul = dyn_cast<MatmulOp>(op))
    return sourcesOfMatmul(matmul, dimension);
  if (auto reshape = dyn_cast<ReshapeOp>(op))
    return sourcesOfReshape(reshape, dimension);
  if (auto reduction = dyn_cast<ReductionOpInterface>(op))
    return sourcesOfReduction(reduction, dimension);
  if (isa<ElementwiseOpInterface>(op))
    return sourcesOfElementwise(op, dimension);
  return std::nullopt;
}

/// Makes the terminator's operand `result` its entry `index` along `dimension`,
/// which stays with extent 1. An op computes the entry only if all of its
/// readers need just that.
static void selectEntry(OpBuilder &builder, OpOperand &result,
                        int64_t dimension, Value index) {
  // Operands that need one entry of their value, and its dimension.
  llvm::MapVector<Value, SmallVector<std::pair<OpOperand *, int64_t>>> needed;
  needed[result.get()].push_back({&result, dimension});
  auto select = [&](Value value) {
    auto uses = needed.lookup(value);
    Operation *op = value.getDefiningOp();
    int64_t own = uses.front().second;
    std::optional<EntrySources> sources;
    bool isOnly =
        llvm::range_size(value.getUses()) == uses.size() &&
        llvm::all_of(uses, [&](auto &use) { return use.second == own; });
    if (op && isOnly)
      sources = sourcesOf(op, own);
    if (sources) {
      for (auto [operand, from] : *sources) {
        OpOperand &source = op->getOpOperand(operand);
        needed[source.get()].push_back({&source, from});
      }
      value.setType(withExtent(typeOf(value), own, 1));
      return;
    }
    for (auto [use, at] : uses) {
      builder.setInsertionPointAfterValue(value);
      use->set(GatherOp::create(builder, value.getLoc(),
                                withExtent(typeOf(value), at, 1), value, index,
                                at));
    }
  };
  // All readers of a value come after its op.
  Block &block = *result.getOwner()->getBlock();
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    for (Value value : op.getResults())
      if (needed.contains(value))
        select(value);
  for (Value value : block.getArguments())
    if (needed.contains(value))
      select(value);
}

LogicalResult mpc::selectResultEntries(func::FuncOp function,
                                       ArrayRef<ChosenEntry> chosen) {
  Operation *terminator = function.getBody().front().getTerminator();
  OpBuilder builder(terminator);
  for (const ChosenEntry &entry : chosen) {
    unsigned result = 0;
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      if (auto name = function.getResultAttrOfType<StringAttr>(
              i, MpcDialect::kNameAttr);
          name && name.getValue() == entry.result)
        result = i;
    if (function.getNumResults() == 0)
      return function.emitError() << "has no output";
    Value value = terminator->getOperand(result);
    RankedTensorType type = typeOf(value);
    if (entry.axis >= type.getRank() ||
        type.getDimSize(entry.axis) != entry.count)
      return emitError(value.getLoc())
             << "output '" << entry.result << "' is " << type
             << ", but one of the " << entry.count
             << " entries of its dimension " << entry.axis
             << " must be selected";
    unsigned place = function.getNumArguments();
    NamedAttrList attributes;
    attributes.append(
        MpcDialect::kRoleAttr,
        RoleAttr::get(builder.getContext(), RoleKind::input, StringAttr()));
    attributes.append(MpcDialect::kNameAttr,
                      builder.getStringAttr(entry.argument));
    [[maybe_unused]] LogicalResult added = function.insertArgument(
        place, RankedTensorType::get({1}, builder.getI64Type()),
        attributes.getDictionary(builder.getContext()), function.getLoc());
    assert(succeeded(added) && "nothing refuses one more argument");
    selectEntry(builder, terminator->getOpOperand(result), entry.axis,
                function.getArgument(place));
  }
  function.setType(FunctionType::get(function.getContext(),
                                     function.getBody().getArgumentTypes(),
                                     terminator->getOperandTypes()));
  return success();
}
