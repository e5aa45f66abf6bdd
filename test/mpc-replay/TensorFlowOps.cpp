//===- TensorFlowOps.cpp - TensorFlow's ops in the dialect ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A table of TensorFlow's ops. Recordings have shapes but neither attributes
// nor constants' values; axes, permutations and offsets are arbitrary values
// that fit the shapes, because no rule of the rewriter depends on them.
//
//===----------------------------------------------------------------------===//

#include "TensorFlowOps.h"

#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"

#include <map>

using namespace mlir;
using namespace mpc;
using namespace mpc::replay;

using Shape = SmallVector<int64_t>;

namespace {

/// Builds one node. Each function handles some ops and returns true if it
/// built the node.
class OpEmitter {
public:
  OpEmitter(OpBuilder &builder, const TensorFlowNode &node)
      : builder(builder), node(node), f32(builder.getF32Type()) {}

  bool emit();

  /// The values of the ports; null for an absent one.
  SmallVector<Value> results;

private:
  using Emitter = bool (OpEmitter::*)();

  bool emitUnary();
  bool emitBinary();
  bool emitReduction();
  bool emitMove();
  bool emitJoin();
  bool emitMatmul();
  bool emitComposed();
  bool emitLoss();
  bool emitSelection();
  bool emitImage();

  /// One op with one result, of f32 where `type` is null.
  Value make(StringRef kind, ValueRange operands, ArrayRef<int64_t> shape,
             ArrayRef<NamedAttribute> attributes = {}, Type type = {});
  Value greater(Value lhs, Value rhs);
  NamedAttribute axis(int64_t value) {
    return builder.getNamedAttr("axis", builder.getI64IntegerAttr(value));
  }
  NamedAttribute array(StringRef name, ArrayRef<int64_t> values) {
    return builder.getNamedAttr(name, builder.getDenseI64ArrayAttr(values));
  }
  NamedAttribute real(StringRef name, double value) {
    return builder.getNamedAttr(name, builder.getF64FloatAttr(value));
  }
  NamedAttribute unit(StringRef name) {
    return builder.getNamedAttr(name, builder.getUnitAttr());
  }
  Value constant(ArrayRef<int64_t> shape, Type type, double value) {
    return makeConstant(builder, shape, type, value);
  }
  bool define(Value value) {
    results.push_back(value);
    return true;
  }
  static ArrayRef<int64_t> shapeOf(Value value) {
    return cast<RankedTensorType>(value.getType()).getShape();
  }

  OpBuilder &builder;
  const TensorFlowNode &node;
  Type f32;
};

} // namespace

//===----------------------------------------------------------------------===//
// Pieces
//===----------------------------------------------------------------------===//

Value OpEmitter::make(StringRef kind, ValueRange operands,
                      ArrayRef<int64_t> shape,
                      ArrayRef<NamedAttribute> attributes, Type type) {
  OperationState state(builder.getUnknownLoc(), ("mpc." + kind).str());
  state.addOperands(operands);
  state.addAttributes(attributes);
  state.addTypes(RankedTensorType::get(shape, type ? type : f32));
  return builder.create(state)->getResult(0);
}

Value OpEmitter::greater(Value lhs, Value rhs) {
  auto predicate =
      ComparePredicateAttr::get(builder.getContext(), ComparePredicate::gt);
  return make("compare", {lhs, rhs}, node.shapes[0],
              builder.getNamedAttr("predicate", predicate),
              builder.getI1Type());
}

/// The axes that lead from `from` to `to`, and whether they stay as extent 1.
/// Nothing where no axes do.
static std::optional<std::pair<Shape, bool>> reducedAxes(ArrayRef<int64_t> from,
                                                         ArrayRef<int64_t> to) {
  Shape axes;
  if (from.size() == to.size()) {
    for (size_t i = 0; i < from.size(); ++i) {
      if (from[i] != to[i] && to[i] != 1)
        return std::nullopt;
      if (from[i] != to[i])
        axes.push_back(i);
    }
    return {{axes, true}};
  }
  // Keep the last axes that fit.
  size_t kept = to.size();
  for (size_t i = from.size(); i-- > 0;)
    if (kept > 0 && from[i] == to[kept - 1])
      --kept;
    else
      axes.insert(axes.begin(), i);
  if (kept != 0)
    return std::nullopt;
  return {{axes, false}};
}

/// The permutation of least change that leads from `from` to `to`.
static std::optional<Shape> permutationOf(ArrayRef<int64_t> from,
                                          ArrayRef<int64_t> to) {
  Shape permutation;
  for (int64_t i = 0; i < int64_t(from.size()); ++i)
    permutation.push_back(i);
  std::optional<Shape> found;
  do {
    bool fits = true;
    for (size_t i = 0; i < from.size(); ++i)
      fits &= from[permutation[i]] == to[i];
    // Prefer a real permutation to the identity.
    if (fits && (!found || llvm::is_sorted(*found)))
      found = permutation;
  } while (std::next_permutation(permutation.begin(), permutation.end()));
  return found;
}

//===----------------------------------------------------------------------===//
// Table
//===----------------------------------------------------------------------===//

bool OpEmitter::emitUnary() {
  static const std::map<std::string, const char *> kinds = {
      {"Abs", "abs"},
      {"Ceil", "ceil"},
      {"Cos", "cos"},
      {"Elu", "elu"},
      {"Erf", "erf"},
      {"Exp", "exp"},
      {"Expm1", "expm1"},
      {"Floor", "floor"},
      {"LeakyRelu", "leaky_relu"},
      {"Log", "log"},
      {"Log1p", "log1p"},
      {"LogSoftmax", "log_softmax"},
      {"Neg", "neg"},
      {"Relu", "relu"},
      {"Reciprocal", "reciprocal"},
      {"Round", "round"},
      {"Rsqrt", "rsqrt"},
      {"Sigmoid", "sigmoid"},
      {"Sign", "sign"},
      {"Sin", "sin"},
      {"Softmax", "softmax"},
      {"Softplus", "softplus"},
      {"Sqrt", "sqrt"},
      {"Tanh", "tanh"},
      {"Cumsum", "cumsum"},
      {"Tan", "tan"},
  };
  auto it = kinds.find(node.op);
  if (it == kinds.end())
    return false;
  SmallVector<NamedAttribute> attributes;
  if (node.op == "Elu" || node.op == "LeakyRelu")
    attributes.push_back(real("alpha", node.op == "Elu" ? 1.0 : 0.2));
  if (node.op == "Softmax" || node.op == "LogSoftmax")
    attributes.push_back(axis(node.shapes[0].size() - 1));
  if (node.op == "Cumsum")
    attributes.push_back(axis(0));
  return define(make(it->second, node.inputs[0], node.shapes[0], attributes));
}

bool OpEmitter::emitBinary() {
  static const std::map<std::string, const char *> kinds = {
      {"Add", "add"},     {"AddV2", "add"},   {"BiasAdd", "add"},
      {"Maximum", "max"}, {"Minimum", "min"}, {"Mul", "mul"},
      {"Pow", "pow"},     {"RealDiv", "div"}, {"Sub", "sub"},
  };
  auto it = kinds.find(node.op);
  if (it == kinds.end() || node.inputs.size() != 2)
    return false;
  return define(make(it->second, node.inputs, node.shapes[0]));
}

bool OpEmitter::emitReduction() {
  static const std::map<std::string, const char *> kinds = {
      {"Max", "reduce_max"},   {"Mean", "reduce_mean"}, {"Min", "reduce_min"},
      {"Prod", "reduce_prod"}, {"Sum", "reduce_sum"},
  };
  auto it = kinds.find(node.op);
  if (it == kinds.end())
    return false;
  auto axes = reducedAxes(shapeOf(node.inputs[0]), node.shapes[0]);
  if (!axes)
    return false;
  SmallVector<NamedAttribute> attributes = {array("axes", axes->first)};
  if (axes->second)
    attributes.push_back(unit("keep_dims"));
  return define(make(it->second, node.inputs[0], node.shapes[0], attributes));
}

// Data movement ops. A node whose value is fetched must exist as an op:
// identities become reshapes to the same shape.
bool OpEmitter::emitMove() {
  const Shape &shape = node.shapes[0];
  if (llvm::is_contained({"Identity", "Reshape", "ExpandDims", "Squeeze"},
                         node.op))
    return define(make("reshape", node.inputs[0], shape));
  if (node.op == "Transpose") {
    auto permutation = permutationOf(shapeOf(node.inputs[0]), shape);
    return permutation && define(make("transpose", node.inputs[0], shape,
                                      array("permutation", *permutation)));
  }
  if (node.op == "Slice")
    return define(make(
        "slice", node.inputs[0], shape,
        {array("offsets", Shape(shape.size(), 0)), array("sizes", shape)}));
  if (node.op == "Fill")
    return define(make("broadcast", node.inputs[1], shape));
  if (node.op == "Tile") { // only of dimensions of extent 1
    for (auto [from, to] : llvm::zip(shapeOf(node.inputs[0]), shape))
      if (from != to && from != 1)
        return false;
    return define(make("broadcast", node.inputs[0], shape));
  }
  if (node.op == "Split") {
    ArrayRef<int64_t> whole = shapeOf(node.inputs[1]);
    Shape offsets(whole.size(), 0);
    for (const Shape &part : node.shapes) {
      define(make("slice", node.inputs[1], part,
                  {array("offsets", offsets), array("sizes", part)}));
      for (size_t i = 0; i < whole.size(); ++i)
        if (whole[i] != part[i])
          offsets[i] += part[i];
    }
    return true;
  }
  return false;
}

// Concatenation along the first axis whose extents add up.
bool OpEmitter::emitJoin() {
  bool packs = node.op == "Pack";
  if (!packs && node.op != "ConcatV2")
    return false;
  ArrayRef<int64_t> shape = node.shapes[0];
  SmallVector<Value> parts(node.inputs);
  if (!packs)
    parts.pop_back(); // the axis
  for (int64_t dim = 0; dim < int64_t(shape.size()); ++dim) {
    Shape part(shape);
    part[dim] = packs ? 1 : shapeOf(parts[0])[dim];
    int64_t sum = packs ? int64_t(parts.size()) : 0;
    for (Value value : parts)
      sum += packs ? 0 : shapeOf(value)[dim];
    if (sum != shape[dim] || (!packs && shapeOf(parts[0]) != ArrayRef(part)))
      continue;
    if (packs)
      for (Value &value : parts)
        value = make("reshape", value, part);
    return define(make("concat", parts, shape, axis(dim)));
  }
  return false;
}

// Ops of TensorFlow's that are several of ours, or one under another name.
bool OpEmitter::emitComposed() {
  const Shape &shape = node.shapes[0];
  ValueRange in = node.inputs;
  if (node.op == "Square")
    return define(make("mul", {in[0], in[0]}, shape));
  if (node.op == "SquaredDifference") {
    Value difference = make("sub", in, shape);
    return define(make("mul", {difference, difference}, shape));
  }
  if (node.op == "AddN") {
    Value sum = in[0];
    for (Value term : in.drop_front())
      sum = make("add", {sum, term}, shape);
    return define(sum);
  }
  if (node.op == "Selu") {
    Value elu = make("elu", in[0], shape, real("alpha", 1.6732632423543772));
    return define(
        make("mul", {elu, constant({}, f32, 1.0507009873554805)}, shape));
  }
  if (node.op == "L2Loss") {
    Shape axes;
    for (size_t i = 0; i < shapeOf(in[0]).size(); ++i)
      axes.push_back(i);
    Value square = make("mul", {in[0], in[0]}, shapeOf(in[0]));
    Value sum = make("reduce_sum", square, shape, array("axes", axes));
    return define(make("mul", {sum, constant({}, f32, 0.5)}, shape));
  }
  if (node.op == "Cast")
    return define(make("cast", in[0], shape, {}, node.types[0]));
  return false;
}

// Comparisons and selects.
bool OpEmitter::emitSelection() {
  const Shape &shape = node.shapes[0];
  ValueRange in = node.inputs;
  if (node.op == "Greater")
    return define(greater(in[0], in[1]));
  if (node.op == "SelectV2")
    return define(make("select", in, shape));
  Value zero;
  if (node.op == "ZerosLike" || node.op == "ReluGrad")
    zero = constant({}, f32, 0);
  if (node.op == "ZerosLike") {
    Value never = constant({}, builder.getI1Type(), 0);
    return define(make("select", {never, in[0], zero}, shape));
  }
  if (node.op == "ReluGrad") // the gradient where the activation is positive
    return define(make("select", {greater(in[1], zero), in[0], zero}, shape));
  return false;
}

// Loss per row and its gradient with respect to the logits.
bool OpEmitter::emitLoss() {
  if (node.op != "SoftmaxCrossEntropyWithLogits")
    return false;
  Value logits = node.inputs[0], labels = node.inputs[1];
  Shape rows = node.shapes[0], shape = node.shapes[1];
  Value logs = make("log_softmax", logits, shape, axis(1));
  Value sum = make("reduce_sum", make("mul", {labels, logs}, shape), rows,
                   array("axes", {1}));
  define(make("neg", sum, rows));
  Value softmax = make("softmax", logits, shape, axis(1));
  return define(make("sub", {softmax, labels}, shape));
}

bool OpEmitter::emitMatmul() {
  if (!llvm::is_contained({"MatMul", "BatchMatMul", "BatchMatMulV2"}, node.op))
    return false;
  ArrayRef<int64_t> lhs = shapeOf(node.inputs[0]),
                    rhs = shapeOf(node.inputs[1]), shape = node.shapes[0];
  int64_t m = shape[shape.size() - 2], n = shape.back();
  for (int flags = 0; flags < 4; ++flags) {
    bool left = flags & 1, right = flags & 2;
    auto row = [](ArrayRef<int64_t> of, bool transposed) {
      return of[of.size() - (transposed ? 1 : 2)];
    };
    auto column = [](ArrayRef<int64_t> of, bool transposed) {
      return of[of.size() - (transposed ? 2 : 1)];
    };
    if (row(lhs, left) != m || column(rhs, right) != n ||
        column(lhs, left) != row(rhs, right))
      continue;
    SmallVector<NamedAttribute> attributes;
    if (left)
      attributes.push_back(unit("transpose_lhs"));
    if (right)
      attributes.push_back(unit("transpose_rhs"));
    return define(make("matmul", node.inputs, shape, attributes));
  }
  return false;
}

// Images have channels last, filters are [window..., in, out].
bool OpEmitter::emitImage() {
  NamedAttribute layout = builder.getNamedAttr(
      "layout",
      ImageLayoutAttr::get(builder.getContext(), ImageLayout::channels_last));
  ArrayRef<int64_t> shape = node.shapes[0];
  if (node.op == "Conv2D") { // SAME, stride 1
    ArrayRef<int64_t> filter = shapeOf(node.inputs[1]);
    if (shapeOf(node.inputs[0]).slice(1, 2) != shape.slice(1, 2))
      return false;
    Shape low = {(filter[0] - 1) / 2, (filter[1] - 1) / 2};
    Shape high = {filter[0] / 2, filter[1] / 2};
    Value turned = make("transpose", node.inputs[1],
                        {filter[3], filter[2], filter[0], filter[1]},
                        array("permutation", {3, 2, 0, 1}));
    return define(
        make("conv", {node.inputs[0], turned}, shape,
             {array("strides", {1, 1}), array("pad_low", low),
              array("pad_high", high), array("dilations", {1, 1}), layout}));
  }
  if (node.op == "MaxPool") { // VALID, windows side by side
    ArrayRef<int64_t> in = shapeOf(node.inputs[0]);
    Shape window = {in[1] / shape[1], in[2] / shape[2]};
    return define(make("max_pool", node.inputs[0], shape,
                       {array("window", window), array("strides", window),
                        array("pad_low", {0, 0}), array("pad_high", {0, 0}),
                        array("dilations", {1, 1}), layout}));
  }
  // Inference: as many statistics as channels come in.
  if (node.op == "FusedBatchNormV3" && shapeOf(node.inputs[3])[0] != 0) {
    Shape turned = {shape[0], shape[3], shape[1], shape[2]};
    SmallVector<Value> operands(node.inputs);
    operands[0] = make("transpose", node.inputs[0], turned,
                       array("permutation", {0, 3, 1, 2}));
    Value normed = make("batch_norm", operands, turned, real("epsilon", 1e-3));
    return define(
        make("transpose", normed, shape, array("permutation", {0, 2, 3, 1})));
  }
  return false;
}

bool OpEmitter::emit() {
  for (Emitter emitter :
       {&OpEmitter::emitUnary, &OpEmitter::emitBinary,
        &OpEmitter::emitReduction, &OpEmitter::emitMove, &OpEmitter::emitJoin,
        &OpEmitter::emitMatmul, &OpEmitter::emitComposed, &OpEmitter::emitLoss,
        &OpEmitter::emitSelection, &OpEmitter::emitImage})
    if ((this->*emitter)())
      return true;
  return false;
}

Value mpc::replay::makeConstant(OpBuilder &builder, ArrayRef<int64_t> shape,
                                Type type, double value) {
  Attribute element;
  if (isa<FloatType>(type))
    element = builder.getFloatAttr(type, value);
  else
    element = builder.getIntegerAttr(type, int64_t(value));
  auto splat =
      DenseElementsAttr::get(RankedTensorType::get(shape, type), element);
  return ConstantOp::create(builder, builder.getUnknownLoc(),
                            cast<ElementsAttr>(splat))
      .getResult();
}

SmallVector<Value> mpc::replay::buildTensorFlowOp(OpBuilder &builder,
                                                  const TensorFlowNode &node) {
  OpEmitter emitter(builder, node);
  if (!emitter.emit())
    return {};
  return emitter.results;
}
