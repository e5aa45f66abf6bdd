//===- Optimizer.cpp - ai.onnx.preview.training operators -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One optimizer step on several tensors: inputs are the learning rate, the step
// count, then groups of tensors (parameters, gradients, states).
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"

#include "NodeImport.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

static const double kOptimizerEpsilon = double(1e-6f);

namespace {

/// Arithmetic on one element type, for readable formulas.
class Arithmetic {
public:
  Arithmetic(NodeImport &n, Type type) : n(n), type(type) {}
  Value add(Value a, Value b) { return n.op<AddOp>({a, b}); }
  Value sub(Value a, Value b) { return n.op<SubOp>({a, b}); }
  Value mul(Value a, Value b) { return n.op<MulOp>({a, b}); }
  Value div(Value a, Value b) { return n.op<DivOp>({a, b}); }
  Value sqrt(Value a) { return n.op<SqrtOp>(a); }
  Value number(double value) { return n.scalar(value, type); }
  Value scale(Value a, double factor) { return mul(a, number(factor)); }
  /// G + norm * X.
  Value regularised(Value gradient, Value x, double norm) {
    return norm == 0 ? gradient : add(scale(x, norm), gradient);
  }

private:
  NodeImport &n;
  Type type;
};

} // namespace

/// Returns the number of tensors per group, 0 after an error.
static size_t groupSize(NodeImport &n, size_t groups) {
  size_t tensors = n.inputCount() - 2;
  if (tensors == 0 || tensors % groups != 0) {
    n.error() << "it has " << tensors << " tensors, expected a multiple of "
              << groups;
    return 0;
  }
  return tensors / groups;
}

static LogicalResult convertAdagrad(NodeImport &n) {
  Value rate = n.in(0), step = n.in(1);
  double decay = n.floatAttr("decay_factor", 0),
         epsilon = n.floatAttr("epsilon", kOptimizerEpsilon);
  double norm = n.floatAttr("norm_coefficient", 0);
  size_t count = groupSize(n, 3);
  for (size_t i = 0; i < count && !n.failed(); ++i) {
    Value x = n.in(2 + i), gradient = n.in(2 + count + i),
          squares = n.in(2 + 2 * count + i);
    Type type = n.element(x);
    Arithmetic a(n, type);
    Value decayed =
        a.div(n.cast(rate, type),
              a.add(a.number(1), a.scale(n.cast(step, type), decay)));
    Value g = a.regularised(gradient, x, norm);
    Value sum = a.add(squares, a.mul(g, g));
    Value adaptive = a.add(a.sqrt(sum), a.number(epsilon));
    n.set(i, a.sub(x, a.div(a.mul(decayed, g), adaptive)));
    n.set(count + i, sum);
  }
  return n.status();
}

static LogicalResult convertAdam(NodeImport &n) {
  Value rate = n.in(0), step = n.in(1);
  double alpha = n.floatAttr("alpha", double(0.9f)),
         beta = n.floatAttr("beta", double(0.999f));
  double epsilon = n.floatAttr("epsilon", kOptimizerEpsilon),
         norm = n.floatAttr("norm_coefficient", 0);
  double post = n.floatAttr("norm_coefficient_post", 0);
  size_t count = groupSize(n, 4);
  for (size_t i = 0; i < count && !n.failed(); ++i) {
    Value x = n.in(2 + i), gradient = n.in(2 + count + i),
          mean = n.in(2 + 2 * count + i), squares = n.in(2 + 3 * count + i);
    Type type = n.element(x);
    Arithmetic a(n, type);
    Value t = n.cast(step, type), one = a.number(1), r = n.cast(rate, type);
    Value g = a.regularised(gradient, x, norm);
    Value newMean = a.add(a.scale(mean, alpha), a.scale(g, 1 - alpha));
    Value newSquares =
        a.add(a.scale(squares, beta), a.scale(a.mul(g, g), 1 - beta));
    auto correction = [&](double base) {
      return a.sub(one, n.op<PowOp>({a.number(base), t}));
    };
    Value corrected =
        a.div(a.mul(r, a.sqrt(correction(beta))), correction(alpha));
    Value started = n.compare(ComparePredicate::gt, t, a.number(0));
    Value adjusted = n.select(started, corrected, r);
    Value root = a.add(a.sqrt(newSquares), a.number(epsilon));
    Value fresh = a.sub(x, a.div(a.mul(adjusted, newMean), root));
    n.set(i, post == 0 ? fresh : a.scale(fresh, 1 - post));
    n.set(count + i, newMean);
    n.set(2 * count + i, newSquares);
  }
  return n.status();
}

static LogicalResult convertMomentum(NodeImport &n) {
  Value rate = n.in(0), step = n.in(1);
  double alpha = n.floatAttr("alpha", 0), beta = n.floatAttr("beta", 0);
  double norm = n.floatAttr("norm_coefficient", 0);
  std::string mode = n.stringAttr("mode", "standard");
  if (mode != "standard" && mode != "nesterov" && !n.failed())
    return n.error() << "attribute 'mode' is '" << mode
                     << "', expected standard or nesterov";
  size_t count = groupSize(n, 3);
  for (size_t i = 0; i < count && !n.failed(); ++i) {
    Value x = n.in(2 + i), gradient = n.in(2 + count + i),
          velocity = n.in(2 + 2 * count + i);
    Type type = n.element(x);
    Arithmetic a(n, type);
    Value t = n.cast(step, type), r = n.cast(rate, type);
    Value g = a.regularised(gradient, x, norm);
    Value started = n.compare(ComparePredicate::gt, t, a.number(0));
    Value factor = n.select(started, a.number(beta), a.number(1));
    Value fresh = a.add(a.scale(velocity, alpha), a.mul(factor, g));
    Value direction =
        mode == "nesterov" ? a.add(g, a.scale(fresh, alpha)) : fresh;
    n.set(i, a.sub(x, a.mul(r, direction)));
    n.set(count + i, fresh);
  }
  return n.status();
}

OpFamily mpc::onnx::optimizerOps() {
  static const OpEntry entries[] = {
      {"ai.onnx.preview.training:Adagrad 1 5+ decay_factor epsilon "
       "norm_coefficient",
       convertAdagrad},
      {"ai.onnx.preview.training:Adam 1 6+ alpha beta epsilon norm_coefficient "
       "norm_coefficient_post",
       convertAdam},
      {"ai.onnx.preview.training:Momentum 1 5+ alpha beta mode "
       "norm_coefficient",
       convertMomentum},
  };
  return entries;
}
