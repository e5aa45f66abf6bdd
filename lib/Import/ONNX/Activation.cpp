//===- Activation.cpp - activation operators ------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operators without an mpc op are decomposed as ONNX defines them.
//
//===----------------------------------------------------------------------===//

#include "Activation.h"

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

template <typename OpTy> static LogicalResult unary(NodeImport &n) {
  return n.result(n.op<OpTy>(n.in(0)));
}

/// Returns a constant of the first input's element type.
static Value like(NodeImport &n, double value) {
  return n.scalar(value, n.element(n.in(0)));
}

static LogicalResult convertElu(NodeImport &n) {
  return n.result(
      n.op<EluOp>(n.in(0), n.attrF("alpha", n.floatAttr("alpha", 1.0))));
}

static LogicalResult convertLeakyRelu(NodeImport &n) {
  double alpha = n.floatAttr("alpha", double(0.01f));
  return n.result(n.op<LeakyReluOp>(n.in(0), n.attrF("alpha", alpha)));
}

static LogicalResult convertSelu(NodeImport &n) {
  double alpha = n.floatAttr("alpha", 1.67326319217681884765625);
  double gamma = n.floatAttr("gamma", 1.05070102214813232421875);
  Value elu = n.op<EluOp>(n.in(0), n.attrF("alpha", alpha));
  return n.result(n.op<MulOp>({elu, like(n, gamma)}));
}

static LogicalResult convertCelu(NodeImport &n) {
  Value x = n.in(0), alpha = like(n, n.floatAttr("alpha", 1.0));
  Value below = n.op<MulOp>({alpha, n.op<Expm1Op>(n.op<DivOp>({x, alpha}))});
  return n.result(
      n.select(n.compare(ComparePredicate::ge, x, like(n, 0)), x, below));
}

static Value hardSigmoid(NodeImport &n, Value x, double alpha, double beta) {
  Type type = n.element(x);
  Value line = n.op<AddOp>(
      {n.op<MulOp>({x, n.scalar(alpha, type)}), n.scalar(beta, type)});
  return n.op<ClampOp>({line, n.scalar(0, type), n.scalar(1, type)});
}

static LogicalResult convertHardSigmoid(NodeImport &n) {
  double alpha = n.floatAttr("alpha", double(0.2f)),
         beta = n.floatAttr("beta", 0.5);
  return n.result(hardSigmoid(n, n.in(0), alpha, beta));
}

static LogicalResult convertHardSwish(NodeImport &n) {
  return n.result(
      n.op<MulOp>({n.in(0), hardSigmoid(n, n.in(0), 1.0 / 6.0, 0.5)}));
}

static LogicalResult convertMish(NodeImport &n) {
  return n.result(
      n.op<MulOp>({n.in(0), n.op<TanhOp>(n.op<SoftplusOp>(n.in(0)))}));
}

static Value softsign(NodeImport &n, Value x) {
  Value below = n.op<AddOp>({n.op<AbsOp>(x), n.scalar(1, n.element(x))});
  return n.op<DivOp>({x, below});
}

static LogicalResult convertSoftsign(NodeImport &n) {
  return n.result(softsign(n, n.in(0)));
}

static Value thresholdedRelu(NodeImport &n, Value x, double alpha) {
  Type type = n.element(x);
  Value above = n.compare(ComparePredicate::gt, x, n.scalar(alpha, type));
  return n.select(above, x, n.scalar(0, type));
}

static LogicalResult convertThresholdedRelu(NodeImport &n) {
  return n.result(thresholdedRelu(n, n.in(0), n.floatAttr("alpha", 1.0)));
}

static LogicalResult convertShrink(NodeImport &n) {
  Value x = n.in(0);
  double lambd = n.floatAttr("lambd", 0.5);
  Value bias = like(n, n.floatAttr("bias", 0.0));
  Value below = n.compare(ComparePredicate::lt, x, like(n, -lambd));
  Value above = n.compare(ComparePredicate::gt, x, like(n, lambd));
  Value middle = n.select(above, n.op<SubOp>({x, bias}), like(n, 0));
  return n.result(n.select(below, n.op<AddOp>({x, bias}), middle));
}

static LogicalResult convertPrelu(NodeImport &n) {
  Value x = n.in(0);
  Value positive = n.compare(ComparePredicate::ge, x, like(n, 0));
  Value result = n.select(positive, x, n.op<MulOp>({x, n.in(1)}));
  if (!n.failed() && n.shape(result) != n.shape(x))
    return n.error() << "the slope does not broadcast to " << x.getType();
  return n.result(result);
}

static LogicalResult convertGelu(NodeImport &n) {
  std::string approximate = n.stringAttr("approximate", "none");
  if (approximate != "none" && approximate != "tanh")
    return n.error() << "attribute 'approximate' is '" << approximate
                     << "', expected none or tanh";
  GeluForm form = approximate == "tanh" ? GeluForm::tanh : GeluForm::erf;
  return n.result(n.op<GeluOp>(
      n.in(0),
      n.attr("form", GeluFormAttr::get(n.builder.getContext(), form))));
}

static LogicalResult convertSwish(NodeImport &n) {
  double alpha = n.floatAttr("alpha", 1.0);
  if (alpha == 1.0)
    return unary<SiluOp>(n);
  Value gate = n.op<SigmoidOp>(n.op<MulOp>({n.in(0), like(n, alpha)}));
  return n.result(n.op<MulOp>({n.in(0), gate}));
}

Activation mpc::onnx::activationOf(StringRef name) {
  Activation function;
  function.name = name.str();
  if (name == "elu" || name == "thresholdedrelu") {
    function.takesAlpha = true;
    function.alpha = 1;
  } else if (name == "leakyrelu") {
    function.takesAlpha = true;
    function.alpha = double(0.01f);
  } else if (name == "hardsigmoid" || name == "affine" ||
             name == "scaledtanh") {
    bool isHard = name == "hardsigmoid";
    function.takesAlpha = function.takesBeta = true;
    function.alpha = isHard ? double(0.2f) : 1;
    function.beta = isHard ? 0.5 : name == "affine" ? 0 : 1;
  } else if (!llvm::is_contained(
                 {"relu", "sigmoid", "softplus", "softsign", "tanh"}, name)) {
    function.name.clear();
  }
  return function;
}

Value mpc::onnx::activate(NodeImport &n, const Activation &function, Value x) {
  if (n.failed())
    return nullptr;
  Type type = n.element(x);
  Value alpha = n.scalar(function.alpha, type),
        beta = n.scalar(function.beta, type);
  StringRef name = function.name;
  if (name == "sigmoid")
    return n.op<SigmoidOp>(x);
  if (name == "tanh")
    return n.op<TanhOp>(x);
  if (name == "relu")
    return n.op<ReluOp>(x);
  if (name == "softplus")
    return n.op<SoftplusOp>(x);
  if (name == "softsign")
    return softsign(n, x);
  if (name == "elu")
    return n.op<EluOp>(x, n.attrF("alpha", function.alpha));
  if (name == "leakyrelu")
    return n.op<LeakyReluOp>(x, n.attrF("alpha", function.alpha));
  if (name == "thresholdedrelu")
    return thresholdedRelu(n, x, function.alpha);
  if (name == "hardsigmoid")
    return hardSigmoid(n, x, function.alpha, function.beta);
  if (name == "affine")
    return n.op<AddOp>({n.op<MulOp>({alpha, x}), beta});
  assert(name == "scaledtanh" && "activationOf knows no other function");
  return n.op<MulOp>({alpha, n.op<TanhOp>(n.op<MulOp>({beta, x}))});
}

OpFamily mpc::onnx::activationOps() {
  static const OpEntry entries[] = {
      {"Celu 12 1 alpha", convertCelu},
      {"Elu 6,22 1 alpha", convertElu},
      {"Gelu 20 1 approximate", convertGelu},
      {"HardSigmoid 6,22 1 alpha beta", convertHardSigmoid},
      {"HardSwish 14,22 1", convertHardSwish},
      {"LeakyRelu 6,16 1 alpha", convertLeakyRelu},
      {"Mish 18,22 1", convertMish},
      {"PRelu 7,9,16 2", convertPrelu},
      {"Relu 6,13,14 1", unary<ReluOp>},
      {"Selu 6,22 1 alpha gamma", convertSelu},
      {"Shrink 9 1 bias lambd", convertShrink},
      {"Sigmoid 6,13 1", unary<SigmoidOp>},
      {"Softplus 1,22 1", unary<SoftplusOp>},
      {"Softsign 1,22 1", convertSoftsign},
      {"Swish 24 1 alpha", convertSwish},
      {"Tanh 6,13 1", unary<TanhOp>},
      {"ThresholdedRelu 10,22 1 alpha", convertThresholdedRelu},
  };
  return entries;
}
