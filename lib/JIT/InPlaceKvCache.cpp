//===- InPlaceKvCache.cpp - in-place KV caches ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// CompileOptions::caches: a KV cache that a model takes and returns with rows
// appended becomes one buffer, and the program writes only its last rows.
//
//===----------------------------------------------------------------------===//

#include "Compiler.h"

#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"
#include "mpc/Dialect/Mpc/Transforms/KvCacheFormat.h"

using namespace mlir;
using namespace mpc;

/// Returns the index whose name attribute (MpcDialect::kNameAttr, from
/// `nameAt`) is `name`, or nullopt.
static std::optional<unsigned>
findNamed(unsigned count, StringRef name,
          llvm::function_ref<StringAttr(unsigned)> nameAt) {
  for (unsigned i = 0; i < count; ++i)
    if (StringAttr found = nameAt(i); found && found.getValue() == name)
      return i;
  return std::nullopt;
}

/// Concatenates the rows of `argument` and `more` in the argument's buffer,
/// which grows to the total extent.
static Value growInPlace(OpBuilder &builder, Location loc,
                         BlockArgument argument, ArrayRef<int64_t> kept,
                         ArrayRef<Value> more) {
  Type element = getElementTypeOrSelf(more.front().getType());
  SmallVector<int64_t> shape(kept), zeros(kept.size(), 0);
  for (Value part : more)
    shape.front() += cast<RankedTensorType>(part.getType()).getDimSize(0);
  argument.setType(RankedTensorType::get(shape, element));
  SmallVector<Value> parts = {
      SliceOp::create(builder, loc, RankedTensorType::get(kept, element),
                      argument, builder.getDenseI64ArrayAttr(zeros),
                      builder.getDenseI64ArrayAttr(kept), DenseI64ArrayAttr())};
  llvm::append_range(parts, more);
  return ConcatOp::create(builder, loc, parts, /*axis=*/0);
}

/// Returns entry `index` of the first dimension of `value`.
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
/// Argument and result indices of a cache.
struct Ends {
  unsigned argument, result;
};
} // namespace

/// Adds an argument and a result like `first` at the end of the signature.
static Ends addEnds(func::FuncOp function, Ends first) {
  Ends ends{function.getNumArguments(), function.getNumResults()};
  Type type = function.getArgument(first.argument).getType();
  // makeCachesInPlace() updates the function type at the end.
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

/// Returns `grown`, which aliases the argument.
static void returnInPlace(func::FuncOp function, Ends ends, Value grown) {
  function.getBody().front().getTerminator()->setOperand(ends.result, grown);
  function.setResultAttr(
      ends.result, MpcDialect::kAliasAttr,
      Builder(function.getContext()).getI64IntegerAttr(ends.argument));
}

/// Rewrites `concat`, which appends rows to the argument of `first`, to write
/// them into a buffer of `element`s, or into one per batch entry.
static void placeRows(func::FuncOp function, const GrowingCache &cache,
                      Ends first, ConcatOp concat, ElementType element) {
  auto type = cast<RankedTensorType>(concat.getInputs().front().getType());
  int64_t entries = 1;
  RowOrder order(type.getRank(), concat.getAxis());
  SmallVector<int64_t> kept;
  for (int64_t from : order.toRows)
    kept.push_back(cache.apart && from == 0 ? 1 : type.getDimSize(from));
  if (cache.apart)
    entries = type.getDimSize(0);
  OpBuilder builder(concat);
  Location loc = concat.getLoc();
  KvCacheFormat format(builder, loc, element);
  auto setName = [&](Ends ends, auto nameOf) {
    auto set = [&](const std::string &name) {
      return builder.getStringAttr(nameOf(name));
    };
    function.setArgAttr(ends.argument, MpcDialect::kNameAttr,
                        set(cache.argument));
    function.setResultAttr(ends.result, MpcDialect::kNameAttr,
                           set(cache.result));
  };
  SmallVector<Value> grown;
  for (int64_t entry = 0; entry < entries; ++entry) {
    auto nameOf = [&](const std::string &name) {
      return cache.apart ? GrowingCache::nameAt(name, entry) : name;
    };
    Ends ends = entry == 0 ? first : addEnds(function, first);
    setName(ends, nameOf);
    SmallVector<Value> numbers, scales;
    for (Value part : concat.getInputs().drop_front()) {
      if (cache.apart)
        part = entryOf(builder, loc, part, entry);
      KvCacheRows rows =
          format.quantize(transposed(builder, loc, part, order.toRows));
      numbers.push_back(rows.numbers);
      scales.push_back(rows.scales);
    }
    KvCacheRows all;
    all.numbers = growInPlace(builder, loc, function.getArgument(ends.argument),
                              kept, numbers);
    returnInPlace(function, ends, all.numbers);
    if (format.isScaled()) {
      Ends beside = addEnds(function, first);
      setName(beside, [&](const std::string &name) {
        return scaleNameOf(nameOf(name));
      });
      SmallVector<int64_t> lines(kept);
      lines.back() = 1;
      all.scales = growInPlace(
          builder, loc, function.getArgument(beside.argument), lines, scales);
      returnInPlace(function, beside, all.scales);
    }
    grown.push_back(transposed(builder, loc,
                               format.dequantize(all, type.getElementType()),
                               order.fromRows));
  }
  concat.replaceAllUsesWith(
      grown.size() == 1
          ? grown.front()
          : ConcatOp::create(builder, loc, grown, /*axis=*/0).getResult());
  concat.erase();
}

LogicalResult mpc::makeCachesInPlace(func::FuncOp function,
                                     ArrayRef<GrowingCache> caches,
                                     std::optional<ElementType> narrow) {
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
             << "' of the KV cache ('" << cache.argument << "' and '"
             << cache.result << "')";
    Value returned = terminator->getOperand(*result),
          past = function.getArgument(*argument);
    auto concat = returned.getDefiningOp<ConcatOp>();
    if (!concat || int64_t(concat.getAxis()) != cache.axis ||
        concat.getInputs().front() != past || concat.getInputs().size() < 2)
      return emitError(returned.getLoc())
             << "output '" << cache.result
             << "' is not a concatenation of input '" << cache.argument
             << "' and new rows along dimension " << cache.axis
             << ", as required for a KV cache that is updated in place";
    if (!past.hasOneUse())
      return emitError(returned.getLoc())
             << "input '" << cache.argument
             << "' has other uses than its concatenation with new rows, output "
                "'"
             << cache.result << "', so the KV cache cannot be updated in place";
    Type own = getElementTypeOrSelf(past);
    if (!isa<FloatType>(own))
      return emitError(returned.getLoc())
             << "cache '" << cache.argument << "' of " << own
             << " cannot be stored between runs; its elements must be floats";
    ElementType element = cache.element.value_or(*runtimeElement(own));
    if ((!isFloat(element) && element != ElementType::I8) ||
        element == ElementType::F8E5M2)
      return emitError(returned.getLoc())
             << "cache '" << cache.argument << "' of " << own
             << " cannot be stored as " << elementTypeName(element)
             << "; use i8 or a float type other than f8E5M2";
    if (!cache.element && narrow &&
        elementBytes(*narrow) < elementBytes(element))
      element = *narrow;
    if (auto type = cast<RankedTensorType>(past.getType());
        elementBytes(element) == 1 && type.getRank() < 3)
      return emitError(returned.getLoc())
             << "cache '" << cache.argument << "' of " << type
             << " cannot be stored as " << elementTypeName(element)
             << ", which needs at least three dimensions, with a scale per row "
                "of the last";
    if (cache.apart && cache.axis == 0)
      return emitError(returned.getLoc())
             << "cache '" << cache.argument
             << "' grows along the batch dimension, but each batch entry needs "
                "its own buffer";
    placeRows(function, cache, {*argument, *result}, concat, element);
  }
  function.setType(FunctionType::get(function.getContext(),
                                     function.getBody().getArgumentTypes(),
                                     terminator->getOperandTypes()));
  return success();
}
