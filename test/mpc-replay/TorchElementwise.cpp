//===- TorchElementwise.cpp - elementwise functions of torch --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"

#include "TorchOps.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using namespace mpc::replay;

namespace {

using G = TorchGraph;
using UnaryBody = std::function<Value(G &, Value)>;
using BinaryBody = std::function<Value(G &, Value, Value)>;

template <typename OpTy> Value unary(G &g, Value x) { return g.op<OpTy>({x}); }
template <typename OpTy> Value binary(G &g, Value x, Value y) {
  return g.op<OpTy>({x, y});
}
template <typename OpTy> Value same(G &g, Value x) { return g.same<OpTy>({x}); }

Value scaled(G &g, Value x, double factor) {
  return g.op<MulOp>({x, g.number(factor, x)});
}
Value shifted(G &g, Value x, double offset) {
  return g.op<AddOp>({x, g.number(offset, x)});
}
Value clamped(G &g, Value x, double low, double high) {
  return g.op<ClampOp>({x, g.number(low, x), g.number(high, x)});
}
Value select(G &g, Value condition, Value yes, Value no) {
  return g.op<SelectOp>({condition, yes, no});
}
Value positiveWhere(G &g, Value x, Value yes, Value no) {
  return select(g, g.compare(ComparePredicate::gt, x, g.number(0, x)), yes, no);
}
Value truncated(G &g, Value x) {
  return g.op<MulOp>(
      {g.same<SignOp>({x}), g.same<FloorOp>({g.same<AbsOp>({x})})});
}
Value elu(G &g, Value x, double alpha) {
  return g.same<EluOp>(
      {x}, {g.attribute("alpha", g.builder.getF64FloatAttr(alpha))});
}
Value softplus(G &g, Value x) { return g.same<SoftplusOp>({x}); }

/// exp(log(base) x)
Value power(G &g, double base, Value x) {
  return g.same<ExpOp>({scaled(g, x, std::log(base))});
}

void addUnary(TorchFunctions &functions, const std::string &name,
              UnaryBody body) {
  functions[name] = [name, body](G &g, const Arguments &a) -> Object {
    std::string op = name.substr(name.rfind('.') + 1);
    return g.call(op, {a.tensor(0, "input")},
                  [&](ArrayRef<Value> in) { return body(g, in[0]); });
  };
}

/// A function of two arguments, either of which may be a number.
void addBinary(TorchFunctions &functions, const std::string &name,
               BinaryBody body) {
  functions[name] = [name, body](G &g, const Arguments &a) -> Object {
    const Object *lhs = a.find(0, "input"), *rhs = a.find(1, "other");
    if (!lhs || !rhs)
      throw NotCovered("'" + name + "' wants two arguments");
    std::string op = name.substr(name.rfind('.') + 1);
    if (rhs->kind == Object::Kind::Number)
      return g.call(op, {a.tensor(0)}, [&](ArrayRef<Value> in) {
        return body(g, in[0], g.number(rhs->number, in[0]));
      });
    if (lhs->kind == Object::Kind::Number)
      return g.call(op, {a.tensor(1)}, [&](ArrayRef<Value> in) {
        return body(g, g.number(lhs->number, in[0]), in[0]);
      });
    return g.call(op, {a.tensor(0), a.tensor(1)},
                  [&](ArrayRef<Value> in) { return body(g, in[0], in[1]); });
  };
}

/// An op as torch runs it inside another function.
Value step(G &g, const std::string &name, Value x, UnaryBody body) {
  return g.call(name, {x}, [&](ArrayRef<Value> in) { return body(g, in[0]); });
}
Value step(G &g, const std::string &name, Value x, Value y, BinaryBody body) {
  return g.call(name, {x, y},
                [&](ArrayRef<Value> in) { return body(g, in[0], in[1]); });
}

} // namespace

static void addMath(TorchFunctions &f) {
  const std::pair<const char *, UnaryBody> kSingle[] = {
      {"abs", same<AbsOp>},
      {"acos", unary<AcosOp>},
      {"acosh", unary<AcoshOp>},
      {"asin", unary<AsinOp>},
      {"asinh", unary<AsinhOp>},
      {"atan", unary<AtanOp>},
      {"atanh", unary<AtanhOp>},
      {"ceil", unary<CeilOp>},
      {"cos", unary<CosOp>},
      {"cosh", unary<CoshOp>},
      {"erf", unary<ErfOp>},
      {"exp", unary<ExpOp>},
      {"exp_", unary<ExpOp>},
      {"expm1", unary<Expm1Op>},
      {"floor", unary<FloorOp>},
      {"log", unary<LogOp>},
      {"log1p", unary<Log1pOp>},
      {"neg", same<NegOp>},
      {"reciprocal", unary<ReciprocalOp>},
      {"relu", same<ReluOp>},
      {"relu_", same<ReluOp>},
      {"round", unary<RoundOp>},
      {"rsqrt", unary<RsqrtOp>},
      {"sgn", same<SignOp>},
      {"sigmoid", unary<SigmoidOp>},
      {"special.expit", unary<SigmoidOp>},
      {"sign", same<SignOp>},
      {"sin", unary<SinOp>},
      {"sinh", unary<SinhOp>},
      {"sqrt", unary<SqrtOp>},
      {"tan", unary<TanOp>},
      {"tanh", unary<TanhOp>},
      {"silu", unary<SiluOp>},
      {"softplus", softplus},
      {"trunc", truncated}};
  for (const auto &[name, body] : kSingle)
    addUnary(f, name, body);

  addUnary(f, "angle", [](G &g, Value x) {
    return positiveWhere(g, x, g.number(0, x), g.number(M_PI, x));
  });
  addUnary(f, "deg2rad",
           [](G &g, Value x) { return scaled(g, x, M_PI / 180); });
  addUnary(f, "rad2deg",
           [](G &g, Value x) { return scaled(g, x, 180 / M_PI); });
  addUnary(f, "erfc", [](G &g, Value x) {
    return g.op<SubOp>({g.number(1, x), g.op<ErfOp>({x})});
  });
  addUnary(f, "exp2", [](G &g, Value x) { return power(g, 2, x); });
  addUnary(f, "frac",
           [](G &g, Value x) { return g.op<SubOp>({x, truncated(g, x)}); });
  addUnary(f, "log2", [](G &g, Value x) {
    return scaled(g, g.op<LogOp>({x}), 1 / std::log(2.0));
  });
  addUnary(f, "log10", [](G &g, Value x) {
    return scaled(g, g.op<LogOp>({x}), 1 / std::log(10.0));
  });
  addUnary(f, "logit", [](G &g, Value x) {
    return g.op<LogOp>({g.op<DivOp>({x, g.op<SubOp>({g.number(1, x), x})})});
  });
  addUnary(f, "sinc", [](G &g, Value x) {
    Value angle = scaled(g, x, M_PI);
    Value zero = g.compare(ComparePredicate::eq, x, g.number(0, x));
    return select(g, zero, g.number(1, x),
                  g.op<DivOp>({g.op<SinOp>({angle}), angle}));
  });
  addUnary(f, "nan_to_num", [](G &g, Value x) {
    return clamped(g, select(g, g.op<IsNanOp>({x}), g.number(0, x), x), -65504,
                   65504);
  });
  f["positive"] = [](G &g, const Arguments &a) { return a.tensor(0); };
  // Squares are powers in torch.
  f["square"] = [](G &g, const Arguments &a) -> Object {
    return step(g, "pow", a.tensor(0),
                [](G &g, Value x) { return g.op<MulOp>({x, x}); });
  };
}

static void addActivations(TorchFunctions &f) {
  addUnary(f, "celu", [](G &g, Value x) { return elu(g, x, 1); });
  addUnary(f, "elu", [](G &g, Value x) { return elu(g, x, 1); });
  addUnary(f, "selu", [](G &g, Value x) {
    return scaled(g, elu(g, x, 1.6732632423543772), 1.0507009873554805);
  });
  addUnary(f, "leaky_relu", [](G &g, Value x) {
    return g.same<LeakyReluOp>(
        {x}, {g.attribute("alpha", g.builder.getF64FloatAttr(0.01))});
  });
  addUnary(f, "hardsigmoid", [](G &g, Value x) {
    return scaled(g, clamped(g, shifted(g, x, 3), 0, 6), 1.0 / 6);
  });
  addUnary(f, "hardswish", [](G &g, Value x) {
    return g.op<MulOp>(
        {x, scaled(g, clamped(g, shifted(g, x, 3), 0, 6), 1.0 / 6)});
  });
  addUnary(f, "hardtanh", [](G &g, Value x) { return clamped(g, x, -1, 1); });
  addUnary(f, "relu6", [](G &g, Value x) { return clamped(g, x, 0, 6); });
  addUnary(f, "logsigmoid", [](G &g, Value x) {
    return g.same<NegOp>({softplus(g, g.same<NegOp>({x}))});
  });
  addUnary(f, "mish", [](G &g, Value x) {
    return g.op<MulOp>({x, g.op<TanhOp>({softplus(g, x)})});
  });
  addUnary(f, "hardshrink", [](G &g, Value x) {
    Value large =
        g.compare(ComparePredicate::gt, g.same<AbsOp>({x}), g.number(0.5, x));
    return select(g, large, x, g.number(0, x));
  });
  addUnary(f, "softshrink", [](G &g, Value x) {
    return g.op<SubOp>({x, clamped(g, x, -0.5, 0.5)});
  });
  f["gelu"] = [](G &g, const Arguments &a) -> Object {
    GeluForm form = a.text("approximate", "none") == "tanh" ? GeluForm::tanh
                                                            : GeluForm::erf;
    return step(g, "gelu", a.tensor(0), [&](G &g, Value x) {
      return g.same<GeluOp>(
          {x}, {g.attribute("form",
                            GeluFormAttr::get(g.builder.getContext(), form))});
    });
  };
  f["glu"] = [](G &g, const Arguments &a) -> Object {
    return step(g, "glu", a.tensor(0), [](G &g, Value x) {
      int64_t axis = TorchGraph::shapeOf(x).size() - 1;
      int64_t half = TorchGraph::shapeOf(x)[axis] / 2;
      Value gate = g.op<SigmoidOp>({g.slice(x, axis, half, half)});
      return g.op<MulOp>({g.slice(x, axis, 0, half), gate});
    });
  };
  f["threshold"] = [](G &g, const Arguments &a) -> Object {
    double limit = a.number(1, "threshold", 0), low = a.number(2, "value", 0);
    return step(g, "threshold", a.tensor(0), [&](G &g, Value x) {
      Value above = g.compare(ComparePredicate::gt, x, g.number(limit, x));
      return select(g, above, x, g.number(low, x));
    });
  };
  f["softsign"] = [](G &g, const Arguments &a) -> Object {
    Value x = a.tensor(0);
    Value size = step(g, "abs", x, same<AbsOp>);
    Value sum =
        step(g, "add", size, [](G &g, Value v) { return shifted(g, v, 1); });
    return step(g, "div", x, sum, binary<DivOp>);
  };
  f["tanhshrink"] = [](G &g, const Arguments &a) -> Object {
    Value x = a.tensor(0);
    return step(g, "sub", x, step(g, "tanh", x, unary<TanhOp>), binary<SubOp>);
  };
  f["clamp"] = [](G &g, const Arguments &a) -> Object {
    double low = a.number(1, "min", -INFINITY),
           high = a.number(2, "max", INFINITY);
    return step(g, "clamp", a.tensor(0),
                [&](G &g, Value x) { return clamped(g, x, low, high); });
  };
  f["prelu"] = [](G &g, const Arguments &a) -> Object {
    return step(g, "prelu", a.tensor(0), a.tensor(1),
                [](G &g, Value x, Value slope) {
                  return positiveWhere(g, x, x, g.op<MulOp>({x, slope}));
                });
  };
  // Dropout with probability 0 is no op; any other samples random numbers.
  f["dropout"] = [](G &g, const Arguments &a) -> Object {
    if (a.number(1, "p", 0.5) != 0)
      throw NotCovered("dropout draws random numbers");
    return a.tensor(0);
  };
}

/// The result where `x` is 0 or NaN as torch's xlogy family has it.
static Value timesLog(G &g, Value x, Value log) {
  Value zero = g.compare(ComparePredicate::eq, x, g.number(0, x));
  return select(g, zero, g.number(0, x), g.op<MulOp>({x, log}));
}

static void addArithmetic(TorchFunctions &f) {
  const std::pair<const char *, BinaryBody> kSingle[] = {
      {"add", binary<AddOp>},         {"sub", binary<SubOp>},
      {"mul", binary<MulOp>},         {"div", binary<DivOp>},
      {"true_divide", binary<DivOp>}, {"maximum", binary<MaxOp>},
      {"minimum", binary<MinOp>},     {"fmod", binary<RemOp>},
      {"atan2", binary<Atan2Op>}};
  for (const auto &[name, body] : kSingle)
    addBinary(f, name, body);
  for (auto [name, predicate] : {std::pair("gt", ComparePredicate::gt),
                                 {"lt", ComparePredicate::lt},
                                 {"eq", ComparePredicate::eq}})
    addBinary(f, name, [predicate = predicate](G &g, Value x, Value y) {
      return g.compare(predicate, x, y);
    });
  addBinary(f, "floor_divide", [](G &g, Value x, Value y) {
    return g.op<FloorOp>({g.op<DivOp>({x, y})});
  });
  addBinary(f, "remainder", [](G &g, Value x, Value y) {
    Value quotient = g.op<FloorOp>({g.op<DivOp>({x, y})});
    return g.op<SubOp>({x, g.op<MulOp>({quotient, y})});
  });
  addBinary(f, "fmax", [](G &g, Value x, Value y) {
    return select(g, g.op<IsNanOp>({x}), y,
                  select(g, g.op<IsNanOp>({y}), x, g.op<MaxOp>({x, y})));
  });
  addBinary(f, "fmin", [](G &g, Value x, Value y) {
    return select(g, g.op<IsNanOp>({x}), y,
                  select(g, g.op<IsNanOp>({y}), x, g.op<MinOp>({x, y})));
  });
  addBinary(f, "hypot", [](G &g, Value x, Value y) {
    return g.op<SqrtOp>(
        {g.op<AddOp>({g.op<MulOp>({x, x}), g.op<MulOp>({y, y})})});
  });
  addBinary(f, "logaddexp", [](G &g, Value x, Value y) {
    Value gap = g.same<NegOp>({g.same<AbsOp>({g.op<SubOp>({x, y})})});
    return g.op<AddOp>(
        {g.op<MaxOp>({x, y}), g.op<Log1pOp>({g.op<ExpOp>({gap})})});
  });
  addBinary(f, "logaddexp2", [](G &g, Value x, Value y) {
    Value gap = g.same<NegOp>({g.same<AbsOp>({g.op<SubOp>({x, y})})});
    Value rest = g.op<Log1pOp>({power(g, 2, gap)});
    return g.op<AddOp>(
        {g.op<MaxOp>({x, y}), scaled(g, rest, 1 / std::log(2.0))});
  });
  addBinary(f, "xlogy", [](G &g, Value x, Value y) {
    return timesLog(g, x, g.op<LogOp>({y}));
  });
  addBinary(f, "special.xlog1py", [](G &g, Value x, Value y) {
    return timesLog(g, x, g.op<Log1pOp>({y}));
  });
  addBinary(f, "copysign", [](G &g, Value x, Value y) {
    return g.op<MulOp>({g.same<AbsOp>({x}), g.same<SignOp>({y})});
  });
  addBinary(f, "heaviside", [](G &g, Value x, Value y) {
    Value zero = g.compare(ComparePredicate::eq, x, g.number(0, x));
    return select(g, zero, y,
                  positiveWhere(g, x, g.number(1, x), g.number(0, x)));
  });
  addBinary(f, "pow",
            [](G &g, Value x, Value y) { return g.op<PowOp>({x, y}); });
  f["float_power"] = [](G &g, const Arguments &a) -> Object {
    Type f64 = g.builder.getF64Type();
    return step(g, "pow", g.convert(a.tensor(0), f64),
                g.convert(a.tensor(1), f64), binary<PowOp>);
  };
}

static void addTernary(TorchFunctions &f) {
  f["addcmul"] = [](G &g, const Arguments &a) -> Object {
    return g.call("addcmul", {a.tensor(0), a.tensor(1), a.tensor(2)},
                  [&](ArrayRef<Value> in) {
                    return g.op<AddOp>({in[0], g.op<MulOp>({in[1], in[2]})});
                  });
  };
  f["addcdiv"] = [](G &g, const Arguments &a) -> Object {
    return g.call("addcdiv", {a.tensor(0), a.tensor(1), a.tensor(2)},
                  [&](ArrayRef<Value> in) {
                    return g.op<AddOp>({in[0], g.op<DivOp>({in[1], in[2]})});
                  });
  };
  f["lerp"] = [](G &g, const Arguments &a) -> Object {
    SmallVector<Value> tensors = {a.tensor(0), a.tensor(1)};
    bool byTensor = a.find(2, "weight")->kind == Object::Kind::Tensor;
    if (byTensor)
      tensors.push_back(a.tensor(2));
    return g.call("lerp", tensors, [&](ArrayRef<Value> in) {
      Value weight =
          byTensor ? in[2] : g.number(a.number(2, "weight", 0), in[0]);
      Value way = g.op<SubOp>({in[1], in[0]});
      return g.op<AddOp>({in[0], g.op<MulOp>({weight, way})});
    });
  };
  f["where"] = [](G &g, const Arguments &a) -> Object {
    Value condition = a.tensor(0), yes = a.tensor(1);
    if (a.find(2, "other")->kind == Object::Kind::Number)
      return g.call("where", {condition, yes}, [&](ArrayRef<Value> in) {
        return select(g, in[0], in[1],
                      g.number(a.number(2, "other", 0), in[1]));
      });
    return g.call(
        "where", {condition, yes, a.tensor(2)},
        [&](ArrayRef<Value> in) { return select(g, in[0], in[1], in[2]); });
  };
  f["masked_fill"] = [](G &g, const Arguments &a) -> Object {
    return g.call(
        "masked_fill", {a.tensor(1), a.tensor(0)}, [&](ArrayRef<Value> in) {
          return select(g, in[0], g.number(a.number(2, "value", 0), in[1]),
                        in[1]);
        });
  };
}

static void addConversions(TorchFunctions &f) {
  f["float"] = [](G &g, const Arguments &a) -> Object {
    return g.convert(a.tensor(0), g.builder.getF32Type());
  };
  f["half"] = [](G &g, const Arguments &a) -> Object {
    return g.convert(a.tensor(0), g.builder.getF16Type());
  };
  f["bfloat16"] = [](G &g, const Arguments &a) -> Object {
    return g.convert(a.tensor(0), g.builder.getBF16Type());
  };
  f["double"] = [](G &g, const Arguments &a) -> Object {
    return g.convert(a.tensor(0), g.builder.getF64Type());
  };
  f["to"] = [](G &g, const Arguments &a) -> Object {
    const Object *type = a.find(1, "dtype");
    if (!type || type->kind != Object::Kind::Type)
      throw NotCovered("'to' without a type");
    return g.convert(a.tensor(0),
                     parseShortName(type->text, g.builder.getContext()));
  };
}

void mpc::replay::addElementwise(TorchFunctions &functions) {
  addMath(functions);
  addActivations(functions);
  addArithmetic(functions);
  addTernary(functions);
  addConversions(functions);
}
