//===- NodeImport.cpp - operands, attributes and known values -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NodeImport.h"

#include "Importer.h"
#include "TensorReader.h"

#include "llvm/ADT/StringExtras.h"

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
