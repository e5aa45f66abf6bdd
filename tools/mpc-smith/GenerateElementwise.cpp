//===- GenerateElementwise.cpp - Random elementwise arithmetic ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GraphGenerator.h"

using namespace mpc;
using namespace mpc::smith;

namespace {

/// The argument range of a function, in which its result is finite and not much
/// less accurate than the argument. Tame functions that are Steep grow
/// exponentially.
enum class Domain { Any, Tame, Steep, Positive, Inside, AboveOne };

struct Function {
  const char *name;
  Domain domain;
  /// Approximate magnitude of the result for arguments of magnitude 1.
  double scale;
  bool isMonotone;
  const char *attributes = "";
};

constexpr Function kFunctions[] = {
    {"abs", Domain::Any, 1, false},
    {"neg", Domain::Any, 1, true},
    {"exp", Domain::Steep, 3, true},
    {"expm1", Domain::Steep, 3, true},
    {"log", Domain::Positive, 1, true},
    {"log1p", Domain::Positive, 1, true},
    {"sqrt", Domain::Positive, 1, true},
    {"rsqrt", Domain::Positive, 1, true},
    {"reciprocal", Domain::Positive, 1, true},
    {"sin", Domain::Tame, 1, false},
    {"cos", Domain::Tame, 1, false},
    {"tan", Domain::Inside, 1, true},
    {"asin", Domain::Inside, 1, true},
    {"acos", Domain::Inside, 2, true},
    {"atan", Domain::Tame, 1, true},
    {"sinh", Domain::Steep, 2, true},
    {"cosh", Domain::Steep, 2, false},
    {"asinh", Domain::Tame, 1, true},
    {"acosh", Domain::AboveOne, 1, true},
    {"atanh", Domain::Inside, 1, true},
    {"tanh", Domain::Tame, 0.7, true},
    {"sigmoid", Domain::Tame, 0.6, true},
    {"erf", Domain::Tame, 0.7, true},
    {"relu", Domain::Any, 0.7, false},
    {"silu", Domain::Tame, 0.7, false},
    {"softplus", Domain::Tame, 1, true},
    {"gelu", Domain::Tame, 0.7, false},
    {"gelu", Domain::Tame, 0.7, false, "form(tanh)"},
    {"leaky_relu", Domain::Any, 0.7, true, "alpha(2.000000e-01)"},
    {"elu", Domain::Tame, 0.8, true, "alpha(1.0)"},
};

} // namespace

void GraphGenerator::unaryChain() {
  Value x = random.chance(85) ? floats(0) : partner(floats(1));
  for (int64_t length = random.range(1, 4); length > 0; --length) {
    const Function &function =
        kFunctions[random.below(int64_t(std::size(kFunctions)))];
    Value y = x;
    if (function.domain != Domain::Any)
      y = tame(y);
    if (function.domain == Domain::Steep) {
      // A value of moderate rms may still have outliers that overflow under a
      // nested exponential.
      y = graph.clamp(y, graph.splat(-4, y.element), graph.splat(4, y.element));
    } else if (function.domain == Domain::Positive) {
      y = positive(y);
    } else if (function.domain == Domain::AboveOne) {
      y = graph.binary("add", positive(y), graph.splat(1.0, y.element));
    } else if (function.domain == Domain::Inside) {
      Content content = y.content;
      y = graph.scaled(graph.unary("tanh", y), 0.875);
      y.content = content == Content::Exact ? Content::Blurred : content;
    }
    Value result = graph.unary(function.name, y, function.attributes);
    result.scale = function.scale * std::max(y.scale, 0.3);
    if (function.domain == Domain::Steep)
      result.scale = std::exp(2 * y.scale);
    if (function.isMonotone && y.content == Content::Distinct)
      result.content = Content::Distinct;
    x = result;
  }
  keep(x);
}

void GraphGenerator::arithmetic() {
  std::optional<Value> narrow = find([](const Value &value) {
    return value.isFloat() && value.element != "f32";
  });
  Value x = narrow && random.chance(25) ? tame(*narrow) : floats(0);
  for (int64_t length = random.range(1, 3); length > 0; --length) {
    Value y = partner(x);
    switch (random.below(11)) {
    case 0:
    case 1:
      x = graph.binary("add", x, y);
      break;
    case 2:
      x = graph.binary("sub", x, y);
      break;
    case 3:
    case 4:
      x = graph.binary("mul", x, y);
      break;
    case 5:
      x = graph.binary("div", x, positive(y));
      break;
    case 6:
      x = graph.binary("max", x, y);
      break;
    case 7:
      x = graph.binary("min", x, y);
      break;
    case 8:
      x = graph.binary(
          "pow", positive(x),
          graph.splat(random.pick({2.0, 0.5, 3.0, -1.0, 1.5}), x.element));
      x.scale = std::max(1.0, x.scale * x.scale * x.scale);
      break;
    case 9: {
      Value base = positive(y);
      x = graph.binary("atan2", x, base);
      x.scale = 1;
      break;
    }
    default: {
      // Low bound first; low > high is tested too.
      double low = random.real(-1.5, 0.2);
      Value bound = graph.splat(low, x.element);
      Value high =
          graph.splat(random.chance(10) ? low - 0.5 : low + 1.25, x.element);
      x = graph.clamp(x, bound, high);
      break;
    }
    }
    x = tame(x);
  }
  keep(x);
}

void GraphGenerator::choices() {
  Value x = floats(1), y = partner(x);
  Value condition = flags(x.shape);
  switch (random.below(5)) {
  case 0:
    keep(graph.select(condition, x, y));
    break;
  case 1:
    keep(graph.select(condition, x, graph.splat(0)));
    break;
  case 2: {
    // The condition as a factor, and 1 minus it.
    Value factor = graph.cast(condition, x.element);
    if (random.chance(50))
      factor = graph.binary("sub", graph.splat(1), factor);
    keep(graph.binary("mul", x, factor));
    break;
  }
  case 3: {
    if (options.differentiable) {
      keep(graph.select(condition, x, graph.binary("mul", x, x)));
      break;
    }
    Value z = ordered(1);
    Value bound = z.content == Content::Exact
                      ? graph.splat(double(random.range(0, 3)), z.element)
                      : graph.splat(random.real(-1, 1), z.element);
    Value flag = graph.compare(
        random.pick<const char *>({"eq", "ne", "lt", "le", "gt", "ge"}), z,
        bound);
    keep(flag);
    keep(graph.select(flag, z, graph.unary("neg", z)));
    break;
  }
  default: {
    Value other = flags(x.shape);
    Value both = graph.binary(random.pick<const char *>({"and", "or", "xor"}),
                              condition, other);
    both.content = Content::Exact;
    keep(both);
    keep(graph.select(both, x, y));
    break;
  }
  }
}

void GraphGenerator::conversions() {
  Value x = floats(0);
  std::string element = floatElement();
  if (element == "f32")
    element = "bf16";
  Value narrow = graph.cast(x, element, random.chance(50));
  for (int64_t i = random.below(3); i > 0; --i) {
    if (random.chance(40))
      narrow = graph.unary(random.pick<const char *>({"neg", "abs", "relu"}),
                           narrow);
    else
      narrow = tame(
          graph.binary(random.pick<const char *>({"add", "mul", "max", "sub"}),
                       narrow, partner(narrow)));
  }
  keep(narrow);
  keep(graph.cast(narrow, "f32", random.chance(30)));
}

void GraphGenerator::integerArithmetic() {
  auto isInteger = [](const Value &value) {
    return !value.isFloat() && value.element != "i1";
  };
  std::optional<Value> found = find(isInteger);
  Value x = found && random.chance(70)
                ? *found
                : graph.argument(
                      drawShape(random.range(1, 3)),
                      random.pick<const char *>({"i32", "i64", "i8", "i16"}));
  for (int64_t length = random.range(1, 3); length > 0; --length) {
    Value y = partner(x);
    std::string op = random.pick<const char *>(
        {"add", "sub", "mul", "max", "min", "and", "or", "xor", "div", "rem",
         "shift_left", "shift_right"});
    if (random.chance(15))
      x = graph.unary(random.pick<const char *>({"neg", "abs", "not", "sign"}),
                      x);
    else
      x = graph.binary(op, x, y);
    // Overflow wraps, which is defined; the values are not known here.
    x.content = Content::Blurred;
  }
  keep(x);
  if (random.chance(40))
    keep(graph.cast(x, random.pick<const char *>({"i64", "i32", "i1", "i8"})));
  if (random.chance(40))
    keep(graph.compare(random.pick<const char *>({"lt", "eq", "ge"}), x,
                       partner(x)));
}

void GraphGenerator::wholeFloats() {
  Value x;
  switch (random.below(4)) {
  case 0: {
    Shape shape = drawShape(random.range(1, 2));
    x = graph.iota(shape, random.below(int64_t(shape.size())), "f32");
    break;
  }
  case 1:
    x = graph.cast(graph.argument(drawShape(random.range(1, 3)),
                                  random.pick<const char *>({"i32", "i64"})),
                   "f32");
    break;
  case 2: {
    // Beyond the integers that bfloat16 holds exactly: a store in 16 bits
    // shows.
    Shape shape = {random.range(257, 300)};
    x = graph.iota(shape, 0, "f32");
    x.scale = double(shape[0]);
    break;
  }
  default:
    x = graph.unary(random.pick<const char *>({"floor", "ceil", "round"}),
                    graph.scaled(graph.argument(drawShape(2), "f32"), 4));
    x.content = Content::Exact;
    x.scale = 20;
    break;
  }
  keep(x);
  // Positions are compared, counted and used as indices.
  Value bound = graph.splat(double(random.range(0, 260)));
  Value flag = graph.compare(
      random.pick<const char *>({"lt", "ge", "eq", "gt"}), x, bound);
  keep(flag);
  Value count = graph.cast(flag, "f32");
  if (x.rank() > 0 && random.chance(50)) {
    Value sum = graph.reduce("reduce_sum", count, {x.rank() - 1}, true);
    sum.content = Content::Exact;
    keep(sum);
  }
  if (random.chance(50))
    keep(graph.cast(x, random.pick<const char *>({"i32", "i64"})));
}

void GraphGenerator::activationForms() {
  Value x = floats(1);
  Value half = graph.splat(0.5), one = graph.splat(1);
  switch (random.below(5)) {
  case 0: {
    Value inner = random.chance(50)
                      ? graph.binary("div", x, graph.splat(std::sqrt(2.0)))
                      : graph.scaled(x, std::sqrt(0.5));
    Value y = graph.binary("add", graph.unary("erf", inner), one);
    keep(random.chance(50)
             ? graph.binary("mul", graph.binary("mul", x, y), half)
             : graph.binary("mul", graph.binary("mul", x, half), y));
    break;
  }
  case 1: {
    Value cube = random.chance(50)
                     ? graph.binary("mul", graph.binary("mul", x, x), x)
                     : graph.binary("pow", x, graph.splat(3));
    Value inner = graph.scaled(
        graph.binary("add", x, graph.scaled(cube, 0.044715)), 0.7978845608);
    Value y = graph.binary("add", one, graph.unary("tanh", inner));
    keep(graph.binary("mul", graph.binary("mul", half, x), y));
    break;
  }
  case 2:
    keep(graph.binary("mul", x, graph.unary("sigmoid", x)));
    break;
  case 3: {
    Value low = graph.splat(0), high = graph.splat(6);
    Value y = graph.clamp(graph.binary("add", x, graph.splat(3)), low, high);
    keep(graph.scaled(graph.binary("mul", x, y), 1.0 / 6));
    break;
  }
  default: {
    Value y = graph.unary("exp", graph.unary("neg", x));
    keep(graph.binary("div", one, graph.binary("add", one, y)));
    break;
  }
  }
}
