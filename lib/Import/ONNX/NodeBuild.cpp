//===- NodeBuild.cpp - op builders for converters -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Creates all ops of an imported model: at the node's location, verified, with
// its layer, and constant-folded if it computes a shape.
//
//===----------------------------------------------------------------------===//

#include "Importer.h"
#include "NodeImport.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"

#include "llvm/ADT/bit.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

Operation *NodeImport::finish(FailureOr<Operation *> created) {
  if (mlir::failed(created)) {
    hasFailed = true;
    return nullptr;
  }
  Operation *op = *created;
  for (Type type : op->getResultTypes()) {
    if (byteCount(type) > importer.options.maxTensorBytes) {
      error() << "its result " << type << " is too large: at most "
              << importer.options.maxTensorBytes << " bytes are allowed";
      op->erase();
      return nullptr;
    }
  }
  if (!node.layer.empty())
    op->setAttr(MpcDialect::kLayerAttr, builder.getStringAttr(node.layer));
  if (!node.source.empty() && isa<PrecisionOpInterface>(op))
    op->setAttr(MpcDialect::kSourceAttr,
                SourceAttr::get(op->getContext(),
                                builder.getStringAttr(node.source),
                                node.sourceId));
  FailureOr<int32_t> small = forwardNarrowType(op);
  if (mlir::failed(small)) {
    op->erase();
    return nullptr;
  }
  op = importer.adopt(op);
  for (Value result : op->getResults())
    importer.recordNarrowType(result, *small);
  return op;
}

FailureOr<int32_t> NodeImport::forwardNarrowType(Operation *op) {
  int32_t moved = 0;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    int32_t type = narrowStorageType(operand);
    if (type == 0)
      continue;
    auto movement = dyn_cast<MovementOpInterface>(op);
    bool moves = movement ? movement.givesElements(unsigned(i))
                          : isa<SelectOp>(op) && i > 0;
    if (!moves || (moved != 0 && moved != type))
      return error() << "mpc does not compute in " << dataTypeName(type)
                     << "; insert a Cast or DequantizeLinear before the op";
    moved = type;
  }
  return moved;
}

int32_t NodeImport::narrowStorageType(Value value) const {
  return importer.smallTypes.lookup(value);
}

Value NodeImport::carried(Value value) {
  if (!value || hasFailed)
    return nullptr;
  FailureOr<Operation *> op = createChecked(
      builder, node.location, CastOp::getOperationName(),
      RankedTensorType::get(shape(value), builder.getI32Type()), value, {});
  if (mlir::failed(op)) {
    hasFailed = true;
    return nullptr;
  }
  return importer.adopt(*op)->getResult(0);
}

Value NodeImport::withNarrowType(Value bytes, int32_t dataType) {
  importer.recordNarrowType(bytes, dataType);
  return bytes;
}

Operation *NodeImport::typed(StringRef name, TypeRange types,
                             ValueRange operands, Attributes attributes) {
  if (hasFailed || llvm::is_contained(operands, Value()))
    return nullptr;
  return finish(
      createChecked(builder, node.location, name, types, operands, attributes));
}

Operation *NodeImport::inferred(StringRef name, ValueRange operands,
                                Attributes attributes) {
  if (hasFailed || llvm::is_contained(operands, Value()))
    return nullptr;
  SmallVector<Type> types;
  if (mlir::failed(
          inferResultTypes(node.location, name, operands, attributes, types))) {
    hasFailed = true;
    return nullptr;
  }
  return typed(name, types, operands, attributes);
}

Type NodeImport::wideType(Type element) {
  return isNarrow(element) ? Type(builder.getF32Type()) : element;
}

Value NodeImport::widened(StringRef name, ValueRange operands,
                          Attributes attributes) {
  if (hasFailed || llvm::is_contained(operands, Value()))
    return nullptr;
  SmallVector<Type> types;
  if (mlir::failed(
          inferResultTypes(node.location, name, operands, attributes, types))) {
    hasFailed = true;
    return nullptr;
  }
  auto type = cast<RankedTensorType>(types.front());
  Operation *op = typed(
      name,
      RankedTensorType::get(type.getShape(), wideType(type.getElementType())),
      operands, attributes);
  return op ? op->getResult(0) : Value();
}

NamedAttribute NodeImport::attr(StringRef name, mlir::Attribute value) {
  return builder.getNamedAttr(name, value);
}
NamedAttribute NodeImport::attr(StringRef name, int64_t value) {
  return builder.getNamedAttr(name, builder.getI64IntegerAttr(value));
}
NamedAttribute NodeImport::attr(StringRef name, Ints value) {
  return builder.getNamedAttr(name, builder.getDenseI64ArrayAttr(value));
}
NamedAttribute NodeImport::attrF(StringRef name, double value) {
  return builder.getNamedAttr(name, builder.getF64FloatAttr(value));
}
NamedAttribute NodeImport::unit(StringRef name) {
  return builder.getNamedAttr(name, builder.getUnitAttr());
}

Value NodeImport::cast(Value value, Type element, bool pinned) {
  if (!value || hasFailed || NodeImport::element(value) == element)
    return value;
  SmallVector<NamedAttribute> attributes;
  if (pinned)
    attributes.push_back(unit("pinned"));
  RankedTensorType type = tensorType(shape(value), element);
  if (!type)
    return nullptr;
  Operation *op = typed(CastOp::getOperationName(), type, value, attributes);
  return op ? op->getResult(0) : Value();
}

Value NodeImport::reshape(Value value, Ints target) {
  if (!value || hasFailed || shape(value) == target)
    return value;
  RankedTensorType type = tensorType(target, element(value));
  if (!type)
    return nullptr;
  Operation *op = typed(ReshapeOp::getOperationName(), type, value);
  return op ? op->getResult(0) : Value();
}

Value NodeImport::transpose(Value value, Ints permutation) {
  bool identity = true;
  for (auto [i, from] : llvm::enumerate(permutation))
    identity &= from == int64_t(i);
  if (identity && int64_t(permutation.size()) == rank(value))
    return value;
  return op<TransposeOp>(value, attr("permutation", permutation));
}

Value NodeImport::broadcast(Value value, Ints target) {
  if (!value || hasFailed || shape(value) == target)
    return value;
  RankedTensorType type = tensorType(target, element(value));
  if (!type)
    return nullptr;
  Operation *op = typed(BroadcastOp::getOperationName(), type, value);
  return op ? op->getResult(0) : Value();
}

Value NodeImport::slice(Value value, Ints offsets, Ints sizes, Ints strides) {
  bool unitStrides =
      llvm::all_of(strides, [](int64_t stride) { return stride == 1; });
  bool whole =
      unitStrides && shape(value) == sizes &&
      llvm::all_of(offsets, [](int64_t offset) { return offset == 0; });
  if (whole)
    return value;
  SmallVector<NamedAttribute> attributes = {attr("offsets", offsets),
                                            attr("sizes", sizes)};
  if (!unitStrides)
    attributes.push_back(attr("strides", strides));
  return op<SliceOp>(value, attributes);
}

Value NodeImport::sliceAxis(Value value, int64_t axis, int64_t offset,
                            int64_t size, int64_t stride) {
  if (!value || hasFailed)
    return nullptr;
  SmallVector<int64_t> offsets(rank(value), 0), sizes(shape(value)),
      strides(rank(value), 1);
  offsets[axis] = offset;
  sizes[axis] = size;
  strides[axis] = stride;
  return slice(value, offsets, sizes, strides);
}

Value NodeImport::concat(ValueRange values, int64_t axis) {
  if (values.size() == 1)
    return values.front();
  return op<ConcatOp>(values, attr("axis", axis));
}

Value NodeImport::pad(Value value, Ints low, Ints high, double fill) {
  if (!value || hasFailed)
    return nullptr;
  auto zero = [](int64_t amount) { return amount == 0; };
  if (llvm::all_of(low, zero) && llvm::all_of(high, zero))
    return value;
  return op<PadOp>({value, scalar(fill, element(value))},
                   {attr("low", low), attr("high", high)});
}

Value NodeImport::gather(Value value, Value indices, int64_t axis) {
  return op<GatherOp>({value, indices}, attr("axis", axis));
}

Value NodeImport::compare(ComparePredicate predicate, Value lhs, Value rhs) {
  return op<CompareOp>({lhs, rhs},
                       attr("predicate", ComparePredicateAttr::get(
                                             builder.getContext(), predicate)));
}

Value NodeImport::select(Value condition, Value onTrue, Value onFalse) {
  return op<SelectOp>({condition, onTrue, onFalse});
}

Value NodeImport::iota(int64_t extent, int64_t axis, int64_t rank,
                       Type element) {
  SmallVector<int64_t> extents(rank, 1);
  extents[axis] = extent;
  RankedTensorType type = tensorType(extents, element);
  if (!type)
    return nullptr;
  Operation *op =
      typed(IotaOp::getOperationName(), type, {}, attr("axis", axis));
  return op ? op->getResult(0) : Value();
}

Value NodeImport::reduceNamed(StringRef name, Value value, Ints axes,
                              bool keepDims) {
  SmallVector<NamedAttribute> attributes = {attr("axes", axes)};
  if (keepDims)
    attributes.push_back(unit("keep_dims"));
  Type original = element(value);
  // Min and max need no wide accumulator.
  if (name == ReduceMaxOp::getOperationName() ||
      name == ReduceMinOp::getOperationName()) {
    Operation *op = inferred(name, value, attributes);
    return op ? op->getResult(0) : Value();
  }
  return narrow(widened(name, value, attributes), original);
}

/// Integer matmul, which has no GEMM kernel, as sums of elementwise products
/// modulo 2^width, as in ONNX Runtime.
static Value integerProduct(NodeImport &n, Value lhs, Value rhs) {
  SmallVector<int64_t> lhsShape(n.shape(lhs)), rhsShape(n.shape(rhs));
  if (lhsShape.size() < 2 || rhsShape.size() < 2 ||
      lhsShape.back() != *(rhsShape.end() - 2)) {
    n.error() << "operands " << lhs.getType() << " and " << rhs.getType()
              << " are no factors of a matrix product";
    return nullptr;
  }
  lhsShape.push_back(1);
  rhsShape.insert(rhsShape.end() - 2, 1);
  Value products =
      n.op<MulOp>({n.reshape(lhs, lhsShape), n.reshape(rhs, rhsShape)});
  return n.reduce<ReduceSumOp>(products, n.rank(products) - 2,
                               /*keepDims=*/false);
}

static Value transposeMatrices(NodeImport &n, Value value) {
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq(n.rank(value)));
  if (order.size() >= 2)
    std::swap(order.back(), *(order.end() - 2));
  return n.transpose(value, order);
}

Value NodeImport::matmulWide(Value lhs, Value rhs, bool transposeLhs,
                             bool transposeRhs) {
  if (hasFailed)
    return nullptr;
  if (!isFloat(lhs) && !isFloat(rhs))
    return integerProduct(*this,
                          transposeLhs ? transposeMatrices(*this, lhs) : lhs,
                          transposeRhs ? transposeMatrices(*this, rhs) : rhs);
  SmallVector<NamedAttribute> attributes;
  if (transposeLhs)
    attributes.push_back(unit("transpose_lhs"));
  if (transposeRhs)
    attributes.push_back(unit("transpose_rhs"));
  return widened(MatmulOp::getOperationName(), {lhs, rhs}, attributes);
}

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

Value NodeImport::constant(ElementsAttr value) {
  if (hasFailed || !value)
    return nullptr;
  Operation *op = typed(ConstantOp::getOperationName(), value.getShapedType(),
                        {}, attr("value", mlir::Attribute(value)));
  return op ? op->getResult(0) : Value();
}

Value NodeImport::constant(TensorData &data) {
  if (hasFailed)
    return nullptr;
  Value value = importer.makeConstantOp(data, node.location);
  hasFailed |= !value;
  return value;
}

Value NodeImport::randomBits(Ints shape) {
  auto seed = float(floatAttr("seed", 0));
  Value state = ints({int64_t(llvm::bit_cast<uint32_t>(seed)), 0});
  RankedTensorType type = tensorType(shape, builder.getI32Type());
  if (!type || !state)
    return nullptr;
  if (importer.randomStreams == 0)
    emitWarning(node.location)
        << node.op << ": random numbers are the same at every call";
  // Not a known value, so that nothing is folded because of it.
  FailureOr<Operation *> bits =
      createChecked(builder, node.location, RandomBitsOp::getOperationName(),
                    type, state, attr("stream", importer.randomStreams++));
  if (mlir::failed(bits)) {
    hasFailed = true;
    return nullptr;
  }
  Type i64 = builder.getI64Type();
  return op<AndOp>(
      {cast((*bits)->getResult(0), i64), scalar(double(0xffffffffu), i64)});
}

Value NodeImport::splat(Ints shape, double value, Type element) {
  RankedTensorType type = tensorType(shape, element);
  return type ? constant(makeSplat(type, value)) : Value();
}

Value NodeImport::ints(Ints values, Ints shape) {
  RankedTensorType type = tensorType(shape, builder.getI64Type());
  if (!type)
    return nullptr;
  ArrayRef<char> bytes(reinterpret_cast<const char *>(values.data()),
                       values.size() * sizeof(int64_t));
  return constant(makeConstant(type, bytes));
}

Value NodeImport::dense(Ints shape, ArrayRef<double> values, Type element) {
  RankedTensorType type = tensorType(shape, element);
  if (!type)
    return nullptr;
  reference::Tensor tensor(type);
  if (tensor.isFloat()) {
    llvm::copy(values, tensor.floats().begin());
    tensor.roundToType();
  } else {
    for (auto [slot, value] : llvm::zip_equal(tensor.ints(), values))
      slot = int64_t(value);
  }
  return constant(tensor.toAttr());
}

Value NodeImport::booleans(Ints shape, ArrayRef<int64_t> values) {
  RankedTensorType type = tensorType(shape, builder.getI1Type());
  if (!type)
    return nullptr;
  reference::Tensor tensor(type);
  llvm::copy(values, tensor.ints().begin());
  return constant(tensor.toAttr());
}
