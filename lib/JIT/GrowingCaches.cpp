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

namespace {
/// A cache with its new rows: as the program returns it, the rows first, and as
/// the model goes on with it.
struct Grown {
  Value rowsFirst, inOrder;
};
} // namespace

/// Makes `argument`, which is what the model has of `type` and adds `more` to
/// along `axis`, a buffer of all rows, with these first, so that new ones are
/// one piece at its end, and elements of type `element`.
static Grown growInPlace(OpBuilder &builder, Location loc,
                         BlockArgument argument, RankedTensorType type,
                         ValueRange more, int64_t axis, Type element) {
  int64_t rank = type.getRank(), rows = type.getDimSize(axis);
  for (Value part : more)
    rows += cast<RankedTensorType>(part.getType()).getDimSize(axis);
  SmallVector<int64_t> order = {axis}, inverse(rank);
  for (int64_t i = 0; i < rank; ++i)
    if (i != axis)
      order.push_back(i);
  for (auto [to, from] : llvm::enumerate(order))
    inverse[from] = to;
  SmallVector<int64_t> kept;
  for (int64_t dimension : order)
    kept.push_back(type.getDimSize(dimension));
  SmallVector<int64_t> shape = kept;
  shape.front() = rows;

  argument.setType(RankedTensorType::get(shape, element));
  auto before = SliceOp::create(
      builder, loc, RankedTensorType::get(kept, element), argument,
      builder.getDenseI64ArrayAttr(SmallVector<int64_t>(rank, 0)),
      builder.getDenseI64ArrayAttr(kept), DenseI64ArrayAttr());
  SmallVector<Value> parts = {before};
  for (Value part : more)
    parts.push_back(
        reordered(builder, loc, converted(builder, loc, part, element), order));
  Value grown = ConcatOp::create(builder, loc, parts, /*axis=*/0);
  return {grown,
          converted(builder, loc, reordered(builder, loc, grown, inverse),
                    type.getElementType())};
}

/// Entry `index` of the first dimension of `value`.
static Value entryOf(OpBuilder &builder, Location loc, Value value,
                     int64_t index) {
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> offsets(type.getRank(), 0), sizes(type.getShape());
  offsets.front() = index;
  sizes.front() = 1;
  return SliceOp::create(builder, loc, type.clone(sizes), value,
                         builder.getDenseI64ArrayAttr(offsets),
                         builder.getDenseI64ArrayAttr(sizes),
                         DenseI64ArrayAttr());
}

namespace {
/// Where a function takes a cache and where it returns it.
struct Ends {
  unsigned argument, result;
};
} // namespace

/// Ends of the same kind as `first` behind all others of the function.
static Ends addEnds(func::FuncOp function, Ends first) {
  Ends ends{function.getNumArguments(), function.getNumResults()};
  Type type = function.getArgument(first.argument).getType();
  // The bodies' types follow at the end of placeCaches().
  [[maybe_unused]] LogicalResult added = function.insertArgument(
      ends.argument, type, function.getArgAttrDict(first.argument),
      function.getArgument(first.argument).getLoc());
  assert(succeeded(added) && "nothing refuses one more argument");
  added = function.insertResult(ends.result, type,
                                function.getResultAttrDict(first.result));
  assert(succeeded(added) && "nothing refuses one more result");
  Operation *terminator = function.getBody().front().getTerminator();
  terminator->insertOperands(ends.result, function.getArgument(ends.argument));
  return ends;
}

/// Lets `concat`, which adds rows to the argument of `first`, write these into
/// a buffer of elements of type `element`, or into one for each entry of the
/// batch.
static void placeRows(func::FuncOp function, const GrowingCache &cache,
                      Ends first, ConcatOp concat, Type element) {
  auto type = cast<RankedTensorType>(concat.getInputs().front().getType());
  int64_t axis = concat.getAxis(), entries = 1;
  if (cache.apart) {
    entries = type.getDimSize(0);
    SmallVector<int64_t> shape(type.getShape());
    shape.front() = 1;
    type = type.clone(shape);
  }
  OpBuilder builder(concat);
  Location loc = concat.getLoc();
  Operation *terminator = function.getBody().front().getTerminator();
  SmallVector<Value> grown;
  for (int64_t entry = 0; entry < entries; ++entry) {
    Ends ends = entry == 0 ? first : addEnds(function, first);
    SmallVector<Value> more(concat.getInputs().drop_front());
    if (cache.apart) {
      for (Value &part : more)
        part = entryOf(builder, loc, part, entry);
      auto name = [&](const std::string &of) {
        return builder.getStringAttr(GrowingCache::nameAt(of, entry));
      };
      function.setArgAttr(ends.argument, MpcDialect::kNameAttr,
                          name(cache.argument));
      function.setResultAttr(ends.result, MpcDialect::kNameAttr,
                             name(cache.result));
    }
    Grown rows = growInPlace(builder, loc, function.getArgument(ends.argument),
                             type, more, axis, element);
    terminator->setOperand(ends.result, rows.rowsFirst);
    function.setResultAttr(ends.result, MpcDialect::kAliasAttr,
                           builder.getI64IntegerAttr(ends.argument));
    grown.push_back(rows.inOrder);
  }
  concat.replaceAllUsesWith(
      grown.size() == 1
          ? grown.front()
          : ConcatOp::create(builder, loc, grown, /*axis=*/0).getResult());
  concat.erase();
}

LogicalResult mpc::placeCaches(func::FuncOp function,
                               ArrayRef<GrowingCache> caches, Type narrow) {
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
    if (cache.apart && cache.axis == 0)
      return emitError(returned.getLoc())
             << "cache '" << cache.argument
             << "' grows along the batch, whose entries are to have a buffer "
                "each";
    placeRows(function, cache, {*argument, *result}, concat, element);
  }
  function.setType(FunctionType::get(function.getContext(),
                                     function.getBody().getArgumentTypes(),
                                     terminator->getOperandTypes()));
  return success();
}
