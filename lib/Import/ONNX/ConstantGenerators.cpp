//===- ConstantGenerators.cpp - constants, ranges and windows -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NodeImport.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

/// Returns the value of a Constant node; null after an error.
static Value constantOf(NodeImport &n) {
  if (n.node.attributes.size() != 1) {
    n.error() << "it has " << n.node.attributes.size() << " values, expected 1";
    return nullptr;
  }
  if (n.hasAttr("value")) {
    std::shared_ptr<TensorData> data = n.tensorAttr("value");
    if (!data)
      return nullptr;
    if (data->name.empty() && !n.node.outputs.empty())
      data->name = n.node.outputs.front();
    return n.constant(*data);
  }
  if (n.hasAttr("value_int"))
    return n.ints({n.intAttr("value_int", 0)}, {});
  if (n.hasAttr("value_ints"))
    return n.ints(n.intsAttr("value_ints"));
  if (n.hasAttr("value_float"))
    return n.scalar(n.floatAttr("value_float", 0), n.builder.getF32Type());
  if (n.hasAttr("value_floats")) {
    SmallVector<double> values = n.floatsAttr("value_floats");
    return n.dense({int64_t(values.size())}, values, n.builder.getF32Type());
  }
  n.error() << "attribute '" << n.node.attributes.front().name
            << "' is not supported";
  return nullptr;
}

/// Names a constant after its node's output, which is unique, and records its
/// origin.
static void mark(NodeImport &n, Value constant, ConstantOrigin::Kind kind) {
  Location place = n.node.location;
  if (auto name = dyn_cast<NameLoc>(place))
    place = name.getChildLoc();
  if (constant && n.wants(0))
    constant.setLoc(NameLoc::get(
        n.builder.getStringAttr(n.node.outputs.front()),
        ConstantOrigin{kind, {}, n.recordsParameters()}.mark(place)));
}

static LogicalResult convertConstant(NodeImport &n) {
  Value value = constantOf(n);
  if (n.failed())
    return failure();
  mark(n, value, ConstantOrigin::Kind::Node);
  return n.result(value);
}

/// Returns true if `value` is a float initializer with equal elements.
static bool isUniformInitializer(Value value) {
  auto constant =
      value ? value.getDefiningOp<mpc::ConstantOp>() : mpc::ConstantOp();
  std::optional<ConstantOrigin> origin =
      constant ? ConstantOrigin::get(constant) : std::nullopt;
  auto type = constant ? cast<RankedTensorType>(constant.getType())
                       : RankedTensorType();
  return origin && origin->kind == ConstantOrigin::Kind::Initializer &&
         type.getRank() > 0 && isa<FloatType>(type.getElementType()) &&
         splatValue(constant.getValue());
}

/// An exporter stores initializers with equal values once, with an Identity for
/// each further name. If all elements are equal (scales of ones, biases of
/// zeros), the tensors are merely untrained and become separate constants;
/// others are tied weights.
static LogicalResult convertIdentity(NodeImport &n) {
  Binding binding = n.binding(0);
  if (binding.list) {
    n.setList(0, *binding.list);
  } else if (isUniformInitializer(binding.value)) {
    Value copy =
        n.constant(binding.value.getDefiningOp<mpc::ConstantOp>().getValue());
    mark(n, copy, ConstantOrigin::Kind::Initializer);
    n.set(0, copy);
  } else {
    n.set(0, binding.value);
  }
  return n.status();
}

static LogicalResult convertConstantOfShape(NodeImport &n) {
  SmallVector<int64_t> shape = n.constantIntValues(0, "shape");
  std::shared_ptr<TensorData> data = n.tensorAttr("value");
  if (n.failed())
    return failure();
  if (!data)
    return n.result(n.splat(shape, 0, n.builder.getF32Type()));
  Value value = n.constant(*data);
  if (n.failed())
    return failure();
  if (elementCount(value) != 1)
    return n.error() << "attribute 'value' is " << value.getType()
                     << ", expected one element";
  RankedTensorType type = n.tensorType(shape, n.element(value));
  if (!type)
    return failure();
  std::shared_ptr<const reference::Tensor> known = n.known(value);
  if (!known)
    return n.error() << "attribute 'value' cannot be read";
  mlir::Attribute element;
  if (known->isFloat())
    element = n.builder.getFloatAttr(known->getElementType(),
                                     known->floats().front());
  else
    element = n.builder.getIntegerAttr(known->getElementType(),
                                       known->ints().front());
  return n.result(n.constant(DenseElementsAttr::get(type, element)));
}

static LogicalResult convertRange(NodeImport &n) {
  Value first = n.in(0);
  SmallVector<double> start = n.constantFloatValues(0, "start"),
                      limit = n.constantFloatValues(1, "limit"),
                      delta = n.constantFloatValues(2, "delta");
  if (n.failed())
    return failure();
  if (start.size() != 1 || limit.size() != 1 || delta.size() != 1)
    return n.error() << "start, limit and delta must be scalars";
  if (delta.front() == 0)
    return n.error() << "delta is 0";
  double steps = std::ceil((limit.front() - start.front()) / delta.front());
  if (!(steps < double(int64_t(1) << 48)))
    return n.error() << "it has more elements than can be counted";
  int64_t count = std::max<int64_t>(0, int64_t(steps));
  RankedTensorType type = n.tensorType(count, n.element(first));
  if (!type)
    return failure();
  if (count * 8 > (int64_t(1) << 26)) {
    // Long ranges are computed at run time.
    Value position = n.iota(count, 0, 1, n.element(first));
    Value scaled =
        n.op<MulOp>({position, n.scalar(delta.front(), n.element(first))});
    return n.result(
        n.op<AddOp>({scaled, n.scalar(start.front(), n.element(first))}));
  }
  SmallVector<double> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(start.front() + double(i) * delta.front());
  return n.result(n.dense(count, values, n.element(first)));
}

/// Returns the column index minus the row index, as [rows, columns].
static Value diagonalNumber(NodeImport &n, int64_t rows, int64_t columns) {
  Type i64 = n.builder.getI64Type();
  return n.op<SubOp>({n.iota(columns, 1, 2, i64), n.iota(rows, 0, 2, i64)});
}

static LogicalResult convertEyeLike(NodeImport &n) {
  Value x = n.in(0);
  if (n.failed())
    return failure();
  if (n.rank(x) != 2)
    return n.error() << "input " << x.getType() << " is no matrix";
  Type type = n.element(x);
  if (int32_t small = n.hasAttr("dtype") ? 0 : n.narrowStorageType(x))
    return n.error() << "a matrix of " << dataTypeName(small)
                     << " is not supported";
  if (n.hasAttr("dtype")) {
    int64_t dtype = n.intAttr("dtype", kFloat);
    type = elementTypeOf(int32_t(dtype), n.builder.getContext());
    if (!type)
      return n.error() << "attribute 'dtype' is "
                       << dataTypeName(int32_t(dtype))
                       << ", which mpc does not support";
  }
  Value diagonal = n.compare(ComparePredicate::eq,
                             diagonalNumber(n, n.dim(x, 0), n.dim(x, 1)),
                             n.ints({n.intAttr("k", 0)}, {}));
  return n.result(n.cast(diagonal, type));
}

static LogicalResult convertTrilu(NodeImport &n) {
  Value x = n.in(0);
  int64_t k = n.knownInt(1, "k");
  bool upper = n.flag("upper", true);
  if (n.failed())
    return failure();
  if (n.rank(x) < 2)
    return n.error() << "input " << x.getType()
                     << " has fewer than 2 dimensions";
  Value number =
      diagonalNumber(n, n.dim(x, n.rank(x) - 2), n.dim(x, n.rank(x) - 1));
  Value keep = n.compare(upper ? ComparePredicate::ge : ComparePredicate::le,
                         number, n.ints({k}, {}));
  return n.result(n.select(keep, x, n.scalar(0, n.element(x))));
}

/// Window functions of signal processing: a0 - a1 cos(2 pi i / m) + a2 cos(4 pi
/// i / m).
template <int kind> static LogicalResult convertWindow(NodeImport &n) {
  static constexpr double kPi = 3.14159265358979323846;
  static constexpr double kTerms[3][3] = {
      {0.5, 0.5, 0}, {25.0 / 46.0, 21.0 / 46.0, 0}, {0.42, 0.5, 0.08}};
  int64_t size = n.knownInt(0, "size");
  bool periodic = n.flag("periodic", true);
  int64_t dataType = n.intAttr("output_datatype", kFloat);
  if (n.failed())
    return failure();
  Type type = elementTypeOf(int32_t(dataType), n.builder.getContext());
  if (!isa_and_nonnull<FloatType>(type))
    return n.error() << "attribute 'output_datatype' is "
                     << dataTypeName(int32_t(dataType))
                     << ", expected a float type";
  if (size < 0 || size > (int64_t(1) << 24))
    return n.error() << "size is " << size << ", expected 0 to 16777216";
  double length = double(periodic ? size : size - 1);
  SmallVector<double> values;
  for (int64_t i = 0; i < size; ++i) {
    double turn = length > 0 ? 2 * kPi * double(i) / length : 0;
    values.push_back(kTerms[kind][0] - kTerms[kind][1] * std::cos(turn) +
                     kTerms[kind][2] * std::cos(2 * turn));
  }
  return n.result(n.dense(size, values, type));
}

OpFamily mpc::onnx::generatorOps() {
  static const OpEntry entries[] = {
      {"BlackmanWindow 17 1 output_datatype periodic", convertWindow<2>},
      {"Constant 1,9,11,12,13,19,21,23,24,25 0 value value_float value_floats "
       "value_int value_ints",
       convertConstant},
      {"ConstantOfShape 9,20,21,23,24,25 1 value", convertConstantOfShape},
      {"EyeLike 9,22 1 dtype k", convertEyeLike},
      {"HammingWindow 17 1 output_datatype periodic", convertWindow<1>},
      {"HannWindow 17 1 output_datatype periodic", convertWindow<0>},
      {"Identity 1,13,14,16,19,21,23,24,25 1", convertIdentity},
      {"Range 11,27 3", convertRange},
      {"Trilu 14 1-2 upper", convertTrilu},
  };
  return entries;
}
