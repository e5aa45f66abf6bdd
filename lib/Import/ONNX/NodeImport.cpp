//===- NodeImport.cpp - operands, attributes and known values -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NodeImport.h"
#include "Importer.h"
#include "TensorReader.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/CreateChecked.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/bit.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

NodeImport::NodeImport(Importer &importer, const Node &node, int64_t version)
    : version(version), node(node), builder(importer.builder),
      importer(importer) {}

InFlightDiagnostic NodeImport::error() {
  hasFailed = true;
  return emitError(node.location) << node.op << ": ";
}

//===----------------------------------------------------------------------===//
// Operands and results
//===----------------------------------------------------------------------===//

bool NodeImport::has(size_t i) const {
  return i < node.inputs.size() && !node.inputs[i].empty();
}

bool NodeImport::wants(size_t i) const {
  return i < node.outputs.size() && !node.outputs[i].empty();
}

bool NodeImport::recordsParameters() const {
  return importer.model.graph.recordsParameters;
}

Binding NodeImport::binding(size_t i) {
  if (hasFailed || !has(i))
    return {};
  FailureOr<Binding> found = importer.lookup(node.inputs[i], node.location);
  if (mlir::failed(found)) {
    hasFailed = true;
    return {};
  }
  return *found;
}

Value NodeImport::in(size_t i) {
  if (hasFailed)
    return nullptr;
  if (!has(i)) {
    error() << "input " << i << " is absent";
    return nullptr;
  }
  Binding found = binding(i);
  if (!hasFailed && !found.value)
    error() << "input " << i << " ('" << node.inputs[i] << "') is "
            << (found.list ? "a sequence" : "an empty optional")
            << ", expected a tensor";
  return found.value;
}

SmallVector<Value> NodeImport::ins() {
  SmallVector<Value> values;
  for (size_t i = 0, e = inputCount(); i < e && !hasFailed; ++i)
    values.push_back(in(i));
  return values;
}

void NodeImport::set(size_t i, Value value) {
  if (hasFailed || !wants(i))
    return;
  importer.define(node.outputs[i], {value, nullptr});
}

void NodeImport::setList(size_t i, std::vector<Value> list) {
  if (hasFailed || !wants(i))
    return;
  importer.define(
      node.outputs[i],
      {nullptr, std::make_shared<const std::vector<Value>>(std::move(list))});
}

LogicalResult NodeImport::result(Value value) {
  set(0, value);
  return status();
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

const NodeAttribute *NodeImport::attribute(StringRef name,
                                           NodeAttribute::Kind kind,
                                           StringRef kindName) {
  const NodeAttribute *found = node.find(name);
  if (!found || found->kind == kind)
    return found;
  error() << "attribute '" << name << "' has the wrong type, expected "
          << kindName;
  return nullptr;
}

int64_t NodeImport::intAttr(StringRef name, int64_t fallback) {
  const NodeAttribute *found =
      attribute(name, NodeAttribute::Kind::Int, "an integer");
  return found ? found->i : fallback;
}

bool NodeImport::flag(StringRef name, bool fallback) {
  int64_t value = intAttr(name, fallback);
  if (value != 0 && value != 1 && !hasFailed)
    error() << "attribute '" << name << "' is " << value << ", expected 0 or 1";
  return value != 0;
}

double NodeImport::floatAttr(StringRef name, double fallback) {
  const NodeAttribute *found =
      attribute(name, NodeAttribute::Kind::Float, "a float");
  return found ? found->f : fallback;
}

std::string NodeImport::stringAttr(StringRef name, StringRef fallback) {
  const NodeAttribute *found =
      attribute(name, NodeAttribute::Kind::String, "a string");
  return found ? found->s : fallback.str();
}

SmallVector<int64_t> NodeImport::intsAttr(StringRef name, Ints fallback) {
  if (const NodeAttribute *found =
          attribute(name, NodeAttribute::Kind::Ints, "integers"))
    return SmallVector<int64_t>(found->ints.begin(), found->ints.end());
  return SmallVector<int64_t>(fallback);
}

SmallVector<double> NodeImport::floatsAttr(StringRef name) {
  if (const NodeAttribute *found =
          attribute(name, NodeAttribute::Kind::Floats, "floats"))
    return SmallVector<double>(found->floats.begin(), found->floats.end());
  return {};
}

std::vector<std::string> NodeImport::stringsAttr(StringRef name) {
  if (const NodeAttribute *found =
          attribute(name, NodeAttribute::Kind::Strings, "strings"))
    return found->strings;
  return {};
}

std::shared_ptr<TensorData> NodeImport::tensorAttr(StringRef name) {
  const NodeAttribute *found =
      attribute(name, NodeAttribute::Kind::Tensor, "a tensor");
  return found ? found->tensor : nullptr;
}

std::shared_ptr<Graph> NodeImport::graphAttr(StringRef name) {
  const NodeAttribute *found =
      attribute(name, NodeAttribute::Kind::Graph, "a graph");
  if (!found && !hasFailed)
    error() << "attribute '" << name << "' is missing";
  return found ? found->graph : nullptr;
}

int64_t NodeImport::axis(int64_t axis, int64_t rank) {
  if (axis >= -rank && axis < rank)
    return axis < 0 ? axis + rank : axis;
  if (!hasFailed)
    error() << "axis " << axis << " is outside a tensor of " << rank
            << " dimensions";
  return 0;
}

int64_t NodeImport::axisAttr(StringRef name, int64_t fallback, int64_t rank) {
  return axis(intAttr(name, fallback), rank);
}

SmallVector<int64_t> NodeImport::axes(Ints given, int64_t rank) {
  SmallVector<int64_t> sorted;
  for (int64_t value : given)
    sorted.push_back(axis(value, rank));
  llvm::sort(sorted);
  for (size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i] == sorted[i - 1] && !hasFailed)
      error() << "axis " << sorted[i] << " is given twice";
  return sorted;
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

ArrayRef<int64_t> NodeImport::shape(Value value) {
  return value ? cast<RankedTensorType>(value.getType()).getShape()
               : ArrayRef<int64_t>();
}

Type NodeImport::element(Value value) {
  return value ? cast<RankedTensorType>(value.getType()).getElementType()
               : Type();
}

bool NodeImport::isFloat(Value value) {
  return isa_and_nonnull<FloatType>(element(value));
}

bool NodeImport::isUnsigned(Value value) {
  auto type = dyn_cast_if_present<IntegerType>(element(value));
  return type && (type.isUnsigned() || type.getWidth() == 1);
}

bool NodeImport::isNarrow(Type type) {
  return type && (type.isF16() || type.isBF16());
}

int64_t NodeImport::dim(Value value, int64_t i) {
  Ints extents = shape(value);
  return i >= 0 && i < int64_t(extents.size()) ? extents[i] : 0;
}

RankedTensorType NodeImport::tensorType(Ints shape, Type element) {
  if (hasFailed || !element)
    return nullptr;
  std::optional<int64_t> count = checkedCount(shape);
  int64_t bytes = 0;
  if (!count ||
      __builtin_mul_overflow(*count, bytesPerElement(element), &bytes) ||
      bytes > importer.options.maxTensorBytes) {
    InFlightDiagnostic diagnostic = error() << "a tensor of shape [";
    llvm::interleaveComma(shape, diagnostic);
    if (llvm::any_of(shape, [](int64_t extent) { return extent < 0; }))
      diagnostic << "] has a negative extent";
    else
      diagnostic << "] is too large: at most "
                 << importer.options.maxTensorBytes << " bytes are allowed";
    return nullptr;
  }
  return RankedTensorType::get(shape, element);
}

SmallVector<int64_t>
NodeImport::broadcastShape(ArrayRef<ArrayRef<int64_t>> shapes) {
  size_t rank = 0;
  for (Ints shape : shapes)
    rank = std::max(rank, shape.size());
  SmallVector<int64_t> result(rank, 1);
  for (Ints shape : shapes) {
    size_t shift = rank - shape.size();
    for (auto [i, extent] : llvm::enumerate(shape)) {
      int64_t &slot = result[shift + i];
      if (slot == 1)
        slot = extent;
      else if (extent != 1 && extent != slot && !hasFailed)
        error() << "shapes do not broadcast: extents " << slot << " and "
                << extent << " of dimension "
                << int64_t(i) - int64_t(shape.size()) << " differ";
    }
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Values known while importing
//===----------------------------------------------------------------------===//

std::shared_ptr<const reference::Tensor> NodeImport::known(Value value) {
  if (!value || hasFailed)
    return nullptr;
  return importer.known(value);
}

std::shared_ptr<const reference::Tensor> NodeImport::need(size_t i,
                                                          StringRef what) {
  Value value = in(i);
  std::shared_ptr<const reference::Tensor> tensor = known(value);
  if (tensor || hasFailed)
    return tensor;
  SmallVector<std::string> sources = importer.inputsOf(value);
  if (importer.options.neededInputs)
    for (const std::string &source : sources)
      if (!llvm::is_contained(*importer.options.neededInputs, source))
        importer.options.neededInputs->push_back(source);
  if (sources.empty())
    error() << what << " ('" << node.inputs[i] << "') takes more than "
            << importer.options.maxFoldBytes
            << " bytes to compute while importing";
  else
    error() << what << " ('" << node.inputs[i]
            << "') must be known while importing, but depends on graph input '"
            << sources.front()
            << "'; give its value, or make it an initializer";
  return nullptr;
}

SmallVector<int64_t> NodeImport::constantIntValues(size_t i, StringRef what) {
  std::shared_ptr<const reference::Tensor> tensor = need(i, what);
  if (!tensor)
    return {};
  if (tensor->isFloat()) {
    error() << what << " ('" << node.inputs[i]
            << "') has float elements, expected integers";
    return {};
  }
  return SmallVector<int64_t>(tensor->ints());
}

SmallVector<double> NodeImport::constantFloatValues(size_t i, StringRef what) {
  std::shared_ptr<const reference::Tensor> tensor = need(i, what);
  if (!tensor)
    return {};
  if (tensor->isFloat())
    return SmallVector<double>(tensor->floats());
  return SmallVector<double>(tensor->ints().begin(), tensor->ints().end());
}

int64_t NodeImport::knownInt(size_t i, StringRef what, int64_t fallback) {
  if (!has(i))
    return fallback;
  SmallVector<int64_t> values = constantIntValues(i, what);
  if (hasFailed)
    return fallback;
  if (values.size() != 1) {
    error() << what << " has " << values.size() << " elements, expected 1";
    return fallback;
  }
  return values.front();
}

std::optional<SmallVector<int64_t>> NodeImport::attrOrInput(StringRef name,
                                                            size_t i) {
  if (hasAttr(name))
    return intsAttr(name);
  if (!has(i))
    return std::nullopt;
  return constantIntValues(i, name);
}

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
    if (type == 0 || isa<DecodeFloatOp>(op))
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
