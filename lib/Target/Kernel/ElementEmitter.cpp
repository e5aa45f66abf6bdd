//===- ElementEmitter.cpp - code for elements of tensors ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ElementEmitter.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"

using namespace mlir;
using namespace mpc;

/// Maximum cached values per tensor; older ones are recomputed.
static constexpr size_t kCachedValues = 64;

Type mpc::carriedType(Type elementType) {
  if (elementType.isF16() || elementType.isBF16())
    return Float32Type::get(elementType.getContext());
  if (auto integer = dyn_cast<IntegerType>(elementType))
    return IntegerType::get(elementType.getContext(), integer.getWidth());
  return elementType;
}

Type mpc::lanesOf(Type scalar, int64_t lanes) {
  return lanes == 1 ? scalar : Type(VectorType::get({lanes}, scalar));
}

ElementEmitter::ElementEmitter(OpBuilder &builder, Location loc,
                               const ElementTarget &target)
    : builder(builder), loc(loc), target(target) {}

//===----------------------------------------------------------------------===//
// Bindings
//===----------------------------------------------------------------------===//

void ElementEmitter::bindMemory(Value tensor, Value memref) {
  unbind(tensor);
  memory[tensor] = memref;
}

void ElementEmitter::bindValue(Value tensor, Value ssa) {
  unbind(tensor);
  values[tensor] = ssa;
}

void ElementEmitter::bindSource(Value tensor, Source source) {
  unbind(tensor);
  sources[tensor] = std::move(source);
}

void ElementEmitter::unbind(Value tensor) {
  memory.erase(tensor);
  values.erase(tensor);
  sources.erase(tensor);
  // Any cached value may depend on the binding.
  cache.clear();
}

bool ElementEmitter::isBound(Value tensor) const {
  return memory.contains(tensor) || values.contains(tensor) ||
         sources.contains(tensor);
}

Value ElementEmitter::index(int64_t value) {
  Block *block = builder.getInsertionBlock();
  while (Operation *parent = block->getParentOp()) {
    if (isa<FunctionOpInterface>(parent) || !parent->getBlock())
      break;
    block = parent->getBlock();
  }
  if (block != constantBlock) {
    indexConstants.clear();
    constantBlock = block;
  }
  Value &constant = indexConstants[value];
  if (!constant) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(block);
    constant = arith::ConstantIndexOp::create(builder, loc, value);
  }
  return constant;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Value ElementEmitter::splat(Value value, int64_t lanes) {
  if (lanes == 1 || isa<VectorType>(value.getType()))
    return value;
  Value vector = math().splat(value, lanes);
  keepRounding(vector, value);
  return vector;
}

Value ElementEmitter::asPatterns(Value memref) {
  auto type = cast<MemRefType>(memref.getType());
  if (!type.getElementType().isBF16() || target.has16BitTypes)
    return memref;
  Value &view = patterns[memref];
  if (!view) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointAfterValue(memref);
    // Both types lower to the same pointer, and the cast to nothing.
    auto integers = MemRefType::get(type.getShape(), builder.getI16Type());
    view = UnrealizedConversionCastOp::create(builder, loc, integers, memref)
               .getResult(0);
  }
  return view;
}

bool ElementEmitter::isMovedAtOnce(Value memref, ValueRange indices,
                                   int64_t lanes) const {
  if (!target.alignedVectors)
    return true;
  int64_t offset = 0;
  SmallVector<int64_t> strides;
  if (failed(cast<MemRefType>(memref.getType())
                 .getStridesAndOffset(strides, offset)) ||
      ShapedType::isDynamic(offset) || offset % lanes != 0)
    return false;
  return llvm::all_of(llvm::zip(indices, strides), [&](auto at) {
    auto [index, stride] = at;
    return !ShapedType::isDynamic(stride) &&
           knownDivisor(index) % lanes * (stride % lanes) % lanes == 0;
  });
}

Value ElementEmitter::load(Value memref, Type elementType, ValueRange indices,
                           int64_t lanes, Value mask) {
  memref = asPatterns(memref);
  Type stored = cast<MemRefType>(memref.getType()).getElementType();
  IndexMath index = indexMath();
  Value raw;
  if (lanes > 1 && !isMovedAtOnce(memref, indices, lanes)) {
    SmallVector<Value> elements, at(indices);
    for (int64_t lane = 0; lane < lanes; ++lane) {
      at.back() = index.add(indices.back(), lane);
      elements.push_back(index.load(memref, at));
    }
    raw = vector::FromElementsOp::create(
        builder, loc, VectorType::get({lanes}, stored), elements);
  } else if (lanes > 1 && mask) {
    auto type = VectorType::get({lanes}, stored);
    Value zero =
        arith::ConstantOp::create(builder, loc, builder.getZeroAttr(type));
    raw = vector::MaskedLoadOp::create(builder, loc, type, memref, indices,
                                       mask, zero);
  } else {
    raw = index.load(memref, indices, lanes);
  }
  if (elementType.isF16() || elementType.isBF16())
    return widen(raw, elementType);
  if (elementType.isInteger(1) && !stored.isInteger(1))
    return math().compare(arith::CmpIPredicate::ne, raw, 0);
  return raw;
}

Value ElementEmitter::widen(Value raw, Type elementType) {
  ValueMath math(builder, loc);
  Type f32 = builder.getF32Type();
  Value wide = elementType.isBF16() && !target.has16BitTypes
                   ? math.widenBf16(raw, target.permutesWords)
                   : math.extendFloat(raw, f32);
  rounded[wide] = elementType;
  narrow[wide] = raw;
  return wide;
}

Value ElementEmitter::round(Value value, Type elementType) {
  if (!elementType.isBF16() && !elementType.isF16())
    return value;
  if (rounded.lookup(value) == elementType)
    return value;
  ValueMath math(builder, loc);
  Value result;
  if (target.has16BitTypes) {
    result = math.extendFloat(math.truncateFloat(value, elementType),
                              builder.getF32Type());
  } else if (elementType.isF16()) {
    result = math.roundToF16(value);
  } else if (target.roundsToBf16) {
    auto [wide, pattern] = math.roundToBf16ByUnit(value, target.permutesWords);
    result = wide;
    narrow[result] = pattern;
  } else {
    result = math.roundToBf16(value);
  }
  rounded[result] = elementType;
  return result;
}

/// Returns the upper 16 bits of each word, for vectors of `lanes` lanes.
static Value upperHalves(ValueMath &math, Value words, int64_t lanes) {
  Type half = math.getBuilder().getI16Type();
  auto type = dyn_cast<VectorType>(words.getType());
  // One permutation selects them from two vectors of 512 bits.
  constexpr int64_t kWide = 16;
  if (!type || lanes < kWide || type.getNumElements() % (2 * kWide))
    return math.truncateInt(math.shiftRight(words, 16), half);
  Value halves = math.reinterpret(words, half);
  SmallVector<int64_t> odd;
  for (int64_t lane = 0; lane < type.getNumElements(); ++lane)
    odd.push_back(2 * lane + 1);
  return math.shuffle(halves, halves, odd);
}

void ElementEmitter::store(Value value, Value memref, ValueRange indices,
                           int64_t lanes, Value mask) {
  Type stored = cast<MemRefType>(memref.getType()).getElementType();
  ValueMath math(builder, loc);
  value = splat(value, lanes);
  if (stored.isBF16() && !target.has16BitTypes) {
    memref = asPatterns(memref);
    value = round(value, stored);
    Value raw = storedBits(value);
    value = raw ? raw : upperHalves(math, math.bits(value), target.lanes);
  } else if (stored.isF16() || stored.isBF16()) {
    // A value that was already rounded to the type is stored directly.
    auto wide = value.getDefiningOp<arith::ExtFOp>();
    bool isExact = wide && getElementTypeOrSelf(wide.getIn()) == stored;
    value = isExact ? wide.getIn() : math.truncateFloat(value, stored);
  } else if (getElementTypeOrSelf(value.getType()).isInteger(1) &&
             !stored.isInteger(1)) {
    value = math.extendUnsigned(value, stored);
  }
  IndexMath index = indexMath();
  if (lanes > 1 && !isMovedAtOnce(memref, indices, lanes)) {
    SmallVector<Value> at(indices);
    for (int64_t lane = 0; lane < lanes; ++lane) {
      at.back() = index.add(indices.back(), lane);
      index.store(vector::ExtractOp::create(builder, loc, value, lane), memref,
                  at);
    }
  } else if (lanes > 1 && mask)
    vector::MaskedStoreOp::create(builder, loc, memref, indices, mask, value);
  else
    index.store(value, memref, indices);
}

Value ElementEmitter::viewAs(Value memref, ArrayRef<int64_t> shape) {
  auto type = cast<MemRefType>(memref.getType());
  // Memory of an empty tensor has extents of at least 1.
  SmallVector<int64_t> extents;
  for (int64_t extent : shape)
    extents.push_back(std::max<int64_t>(extent, 1));
  shape = extents;
  if (type.getShape() == shape)
    return memref;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointAfterValue(memref);
  return memref::ReinterpretCastOp::create(
      builder, loc, MemRefType::get(shape, type.getElementType()), memref,
      /*offset=*/0, shape, computeStrides(shape));
}

//===----------------------------------------------------------------------===//
// Requests
//===----------------------------------------------------------------------===//

Value ElementEmitter::lookUp(Value tensor, const Request &at) const {
  auto found = cache.find(tensor);
  if (found == cache.end())
    return {};
  for (const CacheEntry &entry : llvm::reverse(found->second)) {
    if (entry.lanes != at.lanes || entry.mask != at.mask ||
        !llvm::equal(entry.indices, at.indices))
      continue;
    // The value must dominate: computed in this region or an enclosing one.
    if (Value(entry.value)
            .getParentRegion()
            ->isAncestor(builder.getInsertionBlock()->getParent()))
      return entry.value;
  }
  return {};
}

static LaneRange fullRange(Value tensor) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(tensor.getType()).getShape();
  return {0, shape.empty() ? 1 : shape.back()};
}

Value ElementEmitter::value(Value tensor, ValueRange indices, int64_t lanes,
                            Value mask) {
  return valueIn(tensor, indices, lanes, fullRange(tensor), mask);
}

Value ElementEmitter::value(Value tensor, const Request &at) {
  if (Value bound = values.lookup(tensor))
    return splat(bound, at.lanes);
  if (Value known = lookUp(tensor, at))
    return known;
  Type elementType = getElementTypeOrSelf(tensor.getType());
  Value result;
  if (Value memref = memory.lookup(tensor)) {
    result = load(memref, elementType, at.indices, at.lanes, at.mask);
  } else if (auto source = sources.find(tensor); source != sources.end()) {
    Source call = source->second;
    result = splat(call(at.indices, at.lanes, at.mask), at.lanes);
  } else {
    result = definition(tensor, at);
    name(result, tensor.getDefiningOp());
  }
  SmallVector<CacheEntry, 2> &entries = cache[tensor];
  if (entries.size() >= kCachedValues)
    entries.erase(entries.begin());
  entries.push_back(
      {SmallVector<Value, 4>(at.indices), at.lanes, at.mask, result});
  return result;
}

void ElementEmitter::name(Value value, Operation *op) {
  // Only ops created for this op: others have their names already.
  Operation *made = value.getDefiningOp();
  if (op && made && made->getLoc() == loc &&
      !made->hasTrait<OpTrait::ConstantLike>())
    made->setLoc(op->getLoc());
}

Value ElementEmitter::fail(Value tensor, const Twine &message, int64_t lanes) {
  Operation *op = tensor.getDefiningOp();
  if (succeeded(outcome))
    op ? op->emitOpError(message) : emitError(loc, message);
  outcome = failure();
  Type type = carriedType(getElementTypeOrSelf(tensor.getType()));
  return math().constant(lanesOf(type, lanes), 0);
}

Value ElementEmitter::definition(Value tensor, const Request &at) {
  Operation *op = tensor.getDefiningOp();
  if (!op)
    return fail(tensor, "kernel argument has no memory", at.lanes);
  if (isa<ConstantOp>(op))
    return constantValue(op, at);
  if (isa<ElementwiseOpInterface>(op))
    return emitElementwise(*this, op, at);
  return emitIndexing(*this, op, at);
}

Value ElementEmitter::scalarValue(Value tensor, ValueRange indices,
                                  int64_t lanes) {
  // Scalars may also be tensors with extents 1.
  SmallVector<Value> zeros;
  if (indices.empty())
    zeros.assign(cast<RankedTensorType>(tensor.getType()).getRank(), index(0));
  return splat(value(tensor, indices.empty() ? ValueRange(zeros) : indices, 1),
               lanes);
}

Value ElementEmitter::valuePerLane(Value tensor, const Request &at) {
  if (at.lanes == 1)
    return definition(tensor, at);
  Type elementType = getElementTypeOrSelf(tensor.getType());
  SmallVector<Value> lanes;
  SmallVector<Value> indices(at.indices);
  for (int64_t lane = 0; lane < at.lanes; ++lane) {
    indices.back() = indexMath().add(at.indices.back(), lane);
    // A masked lane may be out of bounds; it reads the first lane's element
    // instead.
    if (at.mask && lane > 0) {
      Value keep = vector::ExtractOp::create(builder, loc, at.mask, lane);
      indices.back() = math().select(keep, indices.back(), at.indices.back());
    }
    lanes.push_back(value(tensor, indices, 1));
  }
  auto join = [&](ArrayRef<Value> elements) -> Value {
    auto type = VectorType::get({at.lanes}, elements.front().getType());
    return vector::FromElementsOp::create(builder, loc, type, elements);
  };
  // Lanes that were upconverted one by one are upconverted at once.
  SmallVector<Value> narrow;
  for (Value lane : lanes)
    if (auto wide = lane.getDefiningOp<arith::ExtFOp>())
      narrow.push_back(wide.getIn());
  Value joined;
  if (static_cast<int64_t>(narrow.size()) == at.lanes &&
      llvm::all_equal(
          llvm::map_range(narrow, [](Value v) { return v.getType(); })))
    joined = math().extendFloat(join(narrow), lanes.front().getType());
  else
    joined = join(lanes);
  if (elementType.isBF16() || elementType.isF16())
    rounded[joined] = elementType;
  return joined;
}

Value ElementEmitter::operandValue(Value operand, const Request &at) {
  ArrayRef<int64_t> shape =
      cast<RankedTensorType>(operand.getType()).getShape();
  SmallVector<Value, 6> indices(at.indices.take_back(shape.size()));
  for (auto [extent, index] : llvm::zip(shape, indices))
    if (extent == 1)
      index = this->index(0);
  // The result may have extent 1 there as well; then `lanes` is 1 anyway.
  if (shape.empty() || shape.back() == 1)
    return scalarValue(operand, indices, at.lanes);
  return value(operand, Request{indices, at.lanes, at.mask, at.range});
}

bool ElementEmitter::startsAtMultiple(const Request &at) const {
  return target.alignedVectors && !at.indices.empty() &&
         knownDivisor(at.indices.back()) % at.lanes == 0;
}

Value ElementEmitter::normalizeIndex(Value raw, int64_t extent, bool clamp) {
  MathExpansion math = this->math();
  Value position = math.castIndex(raw, builder.getIndexType());
  Value negative = math.compare(arith::CmpIPredicate::slt, position, index(0));
  Value fromEnd = math.add(position, index(extent));
  position = math.select(negative, fromEnd, position);
  if (!clamp)
    return position;
  return math.minimum(math.maximum(position, index(0)), index(extent - 1));
}

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

Value ElementEmitter::constantValue(Operation *op, const Request &at) {
  auto constant = cast<ConstantOp>(op);
  auto tensorType = cast<RankedTensorType>(constant.getResult().getType());
  Type elementType = tensorType.getElementType();
  Type type = carriedType(elementType);
  FailureOr<ConstantBytes> bytes = ConstantBytes::get(constant.getValue());
  if (failed(bytes))
    return fail(constant, "has data that is missing or of the wrong size",
                at.lanes);

  auto element = [&](int64_t position) -> Attribute {
    if (isa<FloatType>(elementType)) {
      unsigned width = elementType.getIntOrFloatBitWidth();
      const char *data = bytes->bytes().data() + position * (width / 8);
      APInt bits(width, 0);
      std::memcpy(const_cast<uint64_t *>(bits.getRawData()), data, width / 8);
      APFloat value(cast<FloatType>(elementType).getFloatSemantics(), bits);
      bool lost = false;
      value.convert(cast<FloatType>(type).getFloatSemantics(),
                    APFloat::rmNearestTiesToEven, &lost);
      return builder.getFloatAttr(type, value);
    }
    unsigned width = type.getIntOrFloatBitWidth(),
             size = std::max(1u, width / 8);
    uint64_t value = 0;
    std::memcpy(&value, bytes->bytes().data() + position * size, size);
    return builder.getIntegerAttr(
        type, APInt(width, value, false, /*implicitTrunc=*/true));
  };

  int64_t count = tensorType.getNumElements();
  // Loops over no elements are emitted with a body; there is no element to
  // read.
  if (count <= 1 || splatValue(constant.getValue())) {
    Attribute number = count == 0 ? builder.getZeroAttr(type) : element(0);
    Value value = splat(
        arith::ConstantOp::create(builder, loc, type, cast<TypedAttr>(number)),
        at.lanes);
    if (elementType.isBF16() || elementType.isF16())
      rounded[value] = elementType;
    return value;
  }

  // Other constants become a global table, in carried form.
  Value &table = globals[op];
  if (!table || table.getParentRegion()->getParentOfType<ModuleOp>() == nullptr)
    table = {};
  if (!table) {
    SmallVector<Attribute> elements;
    bool boolean = elementType.isInteger(1);
    for (int64_t i = 0; i < count; ++i) {
      Attribute value = element(i);
      if (boolean)
        value = builder.getI8IntegerAttr(
            cast<IntegerAttr>(value).getValue().getZExtValue());
      elements.push_back(value);
    }
    Type stored = boolean ? Type(builder.getI8Type()) : type;
    auto memref = MemRefType::get(tensorType.getShape(), stored);
    auto data = DenseElementsAttr::get(
        RankedTensorType::get(tensorType.getShape(), stored), elements);
    Operation *function = builder.getInsertionBlock()->getParentOp();
    while (!isa<FunctionOpInterface>(function))
      function = function->getParentOp();
    Operation *module = function->getParentOp();
    std::string name;
    unsigned counter = 0;
    do {
      name = (SymbolTable::getSymbolName(function).getValue() + "_table" +
              Twine(counter++))
                 .str();
    } while (SymbolTable::lookupSymbolIn(module, name));
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(function);
    memref::GlobalOp::create(
        builder, loc, name, builder.getStringAttr("private"), memref, data,
        /*constant=*/true, /*alignment=*/builder.getI64IntegerAttr(64));
    builder.setInsertionPointToStart(&function->getRegion(0).front());
    table = memref::GetGlobalOp::create(builder, loc, memref, name);
  }
  Type loadType = isa<FloatType>(elementType) ? type : elementType;
  Value value = load(table, loadType, at.indices, at.lanes, at.mask);
  if (elementType.isBF16() || elementType.isF16())
    rounded[value] = elementType;
  return value;
}
