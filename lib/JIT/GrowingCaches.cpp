//===- GrowingCaches.cpp - a decoder's caches in place --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// CompileOptions::caches: a cache that a model takes and returns with rows
// behind it becomes one buffer whose last rows the program writes.
//
//===----------------------------------------------------------------------===//

#include "Compiler.h"

#include "mpc/Dialect/Mpc/IR/MpcOps.h"

using namespace mlir;
using namespace mpc;

/// The number whose attribute MpcDialect::kNameAttr, as `nameAt` gives it, is
/// `name`; nullopt where there is none.
static std::optional<unsigned>
findNamed(unsigned count, StringRef name,
          llvm::function_ref<StringAttr(unsigned)> nameAt) {
  for (unsigned i = 0; i < count; ++i)
    if (StringAttr found = nameAt(i); found && found.getValue() == name)
      return i;
  return std::nullopt;
}

/// `value` with dimension `i` of the result taken from `order[i]`.
static Value reordered(OpBuilder &builder, Location loc, Value value,
                       ArrayRef<int64_t> order) {
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> shape;
  for (int64_t dimension : order)
    shape.push_back(type.getDimSize(dimension));
  return TransposeOp::create(builder, loc, type.clone(shape), value, order);
}

static Value converted(OpBuilder &builder, Location loc, Value value,
                       Type element) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getElementType() == element)
    return value;
  return CastOp::create(builder, loc, type.clone(element), value);
}

/// Makes argument `number`, to which `concat` adds rows, a buffer of the
/// concat's rows, with these first, so that new ones are one piece at its end,
/// and elements of type `element`. Returns the concat in that order.
static Value placeRows(func::FuncOp function, unsigned number, ConcatOp concat,
                       Type element) {
  BlockArgument argument = function.getArgument(number);
  auto past = cast<RankedTensorType>(argument.getType());
  int64_t rank = past.getRank(), axis = concat.getAxis();
  SmallVector<int64_t> order = {axis}, inverse(rank);
  for (int64_t i = 0; i < rank; ++i)
    if (i != axis)
      order.push_back(i);
  for (auto [to, from] : llvm::enumerate(order))
    inverse[from] = to;
  SmallVector<int64_t> shape, kept;
  for (int64_t dimension : order) {
    shape.push_back(concat.getType().getDimSize(dimension));
    kept.push_back(past.getDimSize(dimension));
  }

  OpBuilder builder(concat);
  Location loc = concat.getLoc();
  argument.setType(RankedTensorType::get(shape, element));
  auto rows = SliceOp::create(
      builder, loc, RankedTensorType::get(kept, element), argument,
      builder.getDenseI64ArrayAttr(SmallVector<int64_t>(rank, 0)),
      builder.getDenseI64ArrayAttr(kept), DenseI64ArrayAttr());
  SmallVector<Value> parts = {rows};
  for (Value more : concat.getInputs().drop_front())
    parts.push_back(
        reordered(builder, loc, converted(builder, loc, more, element), order));
  Value grown = ConcatOp::create(builder, loc, parts, /*axis=*/0);
  concat.replaceAllUsesWith(converted(builder, loc,
                                      reordered(builder, loc, grown, inverse),
                                      past.getElementType()));
  concat.erase();
  return grown;
}

LogicalResult mpc::placeCaches(func::FuncOp function,
                               ArrayRef<GrowingCache> caches, Type narrow) {
  Builder builder(function.getContext());
  Operation *terminator = function.getBody().front().getTerminator();
  for (const GrowingCache &cache : caches) {
    std::optional<unsigned> argument =
        findNamed(function.getNumArguments(), cache.argument, [&](unsigned i) {
          return function.getArgAttrOfType<StringAttr>(i,
                                                       MpcDialect::kNameAttr);
        });
    std::optional<unsigned> result =
        findNamed(function.getNumResults(), cache.result, [&](unsigned i) {
          return function.getResultAttrOfType<StringAttr>(
              i, MpcDialect::kNameAttr);
        });
    if (!argument || !result)
      return function.emitError()
             << "has no " << (argument ? "output" : "input") << " '"
             << (argument ? cache.result : cache.argument)
             << "', which a cache is made of ('" << cache.argument << "' and '"
             << cache.result << "')";
    Value returned = terminator->getOperand(*result),
          past = function.getArgument(*argument);
    auto concat = returned.getDefiningOp<ConcatOp>();
    if (!concat || int64_t(concat.getAxis()) != cache.axis ||
        concat.getInputs().front() != past || concat.getInputs().size() < 2)
      return emitError(returned.getLoc())
             << "output '" << cache.result << "' is no concatenation of input '"
             << cache.argument << "' and new rows along dimension "
             << cache.axis << ", as a cache that is kept between runs must be";
    if (!past.hasOneUse())
      return emitError(returned.getLoc())
             << "input '" << cache.argument
             << "' is read beside its concatenation with new rows, output '"
             << cache.result << "', which is to replace it";
    Type own = getElementTypeOrSelf(past), element = own;
    if (cache.element)
      element = compilerType({*cache.element, {}}, *function.getContext())
                    .getElementType();
    else if (narrow && bytesPerElement(narrow) < bytesPerElement(own))
      element = narrow;
    if (!isa<FloatType>(own) || !isa<FloatType>(element))
      return emitError(returned.getLoc())
             << "cache '" << cache.argument << "' of " << own
             << " cannot be kept as " << element << "; both must be floats";
    Value grown = placeRows(function, *argument, concat, element);
    terminator->setOperand(*result, grown);
    function.setResultAttr(*result, MpcDialect::kAliasAttr,
                           builder.getI64IntegerAttr(*argument));
  }
  function.setType(FunctionType::get(function.getContext(),
                                     function.getBody().getArgumentTypes(),
                                     terminator->getOperandTypes()));
  return success();
}
