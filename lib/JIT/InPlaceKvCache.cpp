//===- InPlaceKvCache.cpp - in-place KV caches ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// CompileOptions::caches: a KV cache that a model takes and returns with rows
// appended becomes one buffer, and the program writes only its last rows.
//
//===----------------------------------------------------------------------===//

#include "Compiler.h"

#include "mpc/Analysis/Float32Subgraphs.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"
#include "mpc/Support/NarrowFloat.h"

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

/// Transposes `value`: dimension `i` of the result is `order[i]`.
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

/// KV-cache rows in the buffer's layout: the row dimension first.
struct Rows {
  Value numbers;
  /// Scales [rows, ..., 1]; null if the elements are not quantized.
  Value scales;
};

/// Storage format of a KV cache's elements: a float type or quantized.
class CacheFormat {
public:
  CacheFormat(OpBuilder &builder, Location loc, ElementType element)
      : builder(builder), loc(loc), element(element) {}

  bool isScaled() const { return elementBytes(element) == 1; }
  Type numberType() const;
  /// Converts or quantizes `rows` to the storage format, and dequantizes to
  /// type `to`.
  Rows keep(Value rows) const;
  Value widen(const Rows &rows, Type to) const;

private:
  Value constant(double value) const {
    auto type = RankedTensorType::get({}, builder.getF32Type());
    return mpc::ConstantOp::create(
        builder, loc,
        DenseElementsAttr::get(type, builder.getF32FloatAttr(float(value))));
  }
  bool isFloat8() const { return element == ElementType::F8E4M3FN; }
  Type float8() const { return Float8E4M3FNType::get(builder.getContext()); }

  OpBuilder &builder;
  Location loc;
  ElementType element;
};

} // namespace

Type CacheFormat::numberType() const {
  if (isFloat8())
    return builder.getIntegerType(8, /*isSigned=*/false);
  return compilerType({element, {}}, *builder.getContext()).getElementType();
}

Rows CacheFormat::keep(Value rows) const {
  if (!isScaled())
    return {converted(builder, loc, rows, numberType()), {}};
  constexpr double kLargestInteger = 127;
  // Minimum scale, to avoid a division by zero for rows of zeros.
  constexpr double kLeastScale = 0x1p-126;
  rows = converted(builder, loc, rows, builder.getF32Type());
  auto type = cast<RankedTensorType>(rows.getType());
  SmallVector<int64_t> shape(type.getShape());
  int64_t last = type.getRank() - 1;
  shape.back() = 1;
  auto inFloat32 = [&](auto op) {
    op->setDiscardableAttr(kScaleAttr, builder.getUnitAttr());
    return op;
  };
  auto magnitudes = inFloat32(AbsOp::create(builder, loc, rows));
  auto largest = inFloat32(ReduceMaxOp::create(
      builder, loc, type.clone(shape), magnitudes,
      builder.getDenseI64ArrayAttr({last}), builder.getUnitAttr(), TypeAttr()));
  auto quotient = inFloat32(DivOp::create(
      builder, loc, largest,
      constant(isFloat8() ? kFloat8E4M3FN.largest() : kLargestInteger)));
  auto scale =
      inFloat32(MaxOp::create(builder, loc, quotient, constant(kLeastScale)));
  auto steps = inFloat32(DivOp::create(builder, loc, rows, scale));
  if (isFloat8())
    return {inFloat32(EncodeFloatOp::create(builder, loc, steps, float8(),
                                            /*saturate=*/true)),
            scale};
  auto rounded = inFloat32(RoundOp::create(builder, loc, steps));
  return {CastOp::create(builder, loc, type.clone(numberType()), rounded),
          scale};
}

Value CacheFormat::widen(const Rows &rows, Type to) const {
  if (!isScaled())
    return converted(builder, loc, rows.numbers, to);
  auto type = cast<RankedTensorType>(rows.numbers.getType());
  Type f32 = builder.getF32Type();
  Value numbers;
  if (isFloat8())
    numbers = DecodeFloatOp::create(builder, loc, rows.numbers, float8(), f32);
  else
    numbers = CastOp::create(builder, loc, type.clone(f32), rows.numbers);
  return converted(builder, loc,
                   MulOp::create(builder, loc, numbers, rows.scales), to);
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
  int64_t axis = concat.getAxis(), entries = 1, rank = type.getRank();
  SmallVector<int64_t> order = {axis}, inverse(rank), kept;
  for (int64_t i = 0; i < rank; ++i)
    if (i != axis)
      order.push_back(i);
  for (auto [to, from] : llvm::enumerate(order)) {
    inverse[from] = to;
    kept.push_back(cache.apart && from == 0 ? 1 : type.getDimSize(from));
  }
  if (cache.apart)
    entries = type.getDimSize(0);
  OpBuilder builder(concat);
  Location loc = concat.getLoc();
  CacheFormat format(builder, loc, element);
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
      Rows rows = format.keep(reordered(builder, loc, part, order));
      numbers.push_back(rows.numbers);
      scales.push_back(rows.scales);
    }
    Rows all;
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
    grown.push_back(reordered(
        builder, loc, format.widen(all, type.getElementType()), inverse));
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
