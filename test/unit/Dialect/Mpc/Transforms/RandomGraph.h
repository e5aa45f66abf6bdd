//===- RandomGraph.h - graphs of mpc ops by seed ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_UNIT_DIALECT_MPC_TRANSFORMS_RANDOMGRAPH_H
#define MPC_TEST_UNIT_DIALECT_MPC_TRANSFORMS_RANDOMGRAPH_H

#include <random>
#include <string>
#include <vector>

namespace mpc::test {

/// Generates a function of f32 ops as text. Every op has a name: op0, op1, ...
/// Values are squares (NxN), their flat forms (N*N) and columns (Nx1).
class RandomGraph {
public:
  RandomGraph(unsigned seed, int size, int ops) : random(seed), size(size) {
    for (int i = draw(2); i >= 0; --i)
      add(Square, "%x" + std::to_string(i));
    arguments = values.size();
    for (int i = 0; i < ops; ++i)
      addOp();
  }

  /// The function @main, which returns the last value and up to two others.
  std::string text() {
    std::string inputs, results, types;
    for (int i = 0; i < arguments; ++i)
      inputs += (i ? ", " : "") + values[i].name + ": " + type(Square);
    std::vector<Value> returned = {values.back()};
    for (int i = draw(2); i > 0; --i)
      returned.push_back(values[draw(values.size() - 1)]);
    for (const Value &value : returned) {
      results += (results.empty() ? "" : ", ") + value.name;
      types += (types.empty() ? "" : ", ") + type(value.shape);
    }
    return "func.func @main(" + inputs + ") -> (" + types + ") {\n" +
           "  %w = mpc.constant dense<0.0625> : " + type(Square) + "\n" +
           "  %g = mpc.constant dense<1.5> : tensor<" + std::to_string(size) +
           "xf32>\n" + body + "  return " + results + " : " + types + "\n}\n";
  }

private:
  enum Shape { Square, Flat, Column };
  struct Value {
    Shape shape;
    std::string name;
  };

  int draw(int most) {
    return std::uniform_int_distribution<int>(0, most)(random);
  }
  void add(Shape shape, std::string name) {
    values.push_back({shape, std::move(name)});
  }
  std::string type(Shape shape) const {
    std::string n = std::to_string(size);
    std::string extents = shape == Square ? n + "x" + n
                          : shape == Flat ? std::to_string(size * size)
                                          : n + "x1";
    return "tensor<" + extents + "xf32>";
  }
  /// A value of `shape`; late ones more often, so that graphs are deep.
  const Value &pick(Shape shape) {
    std::vector<size_t> fitting;
    for (size_t i = 0; i < values.size(); ++i)
      if (values[i].shape == shape)
        fitting.push_back(i);
    int last = fitting.size() - 1;
    return values[fitting[std::max(draw(last), draw(last))]];
  }
  void emit(Shape shape, const std::string &op) {
    std::string index = std::to_string(count++);
    body += "  %" + index + " = mpc." + op + " loc(\"op" + index + "\")\n";
    add(shape, "%" + index);
  }
  void addOp() {
    static const char *const unary[] = {"relu", "abs",     "exp",
                                        "tanh", "sigmoid", "gelu"};
    static const char *const binary[] = {"add", "sub", "mul", "max"};
    std::string square = type(Square);
    switch (draw(11)) {
    case 0:
    case 1: {
      const Value value =
          values[std::max(draw(values.size() - 1), draw(values.size() - 1))];
      return emit(value.shape, std::string(unary[draw(5)]) + " " + value.name +
                                   " : " + type(value.shape));
    }
    case 2:
    case 3: {
      const Value lhs = values[draw(values.size() - 1)];
      const Value rhs = pick(lhs.shape);
      return emit(lhs.shape, std::string(binary[draw(3)]) + " " + lhs.name +
                                 ", " + rhs.name + " : (" + type(lhs.shape) +
                                 ", " + type(rhs.shape) + ") -> " +
                                 type(lhs.shape));
    }
    case 4:
    case 5:
    case 6: {
      std::string rhs = draw(1) ? "%w" : pick(Square).name;
      return emit(Square, "matmul " + pick(Square).name + ", " + rhs + " : (" +
                              square + ", " + square + ") -> " + square);
    }
    case 7:
      return emit(Square,
                  "softmax " + pick(Square).name + " axis(1) : " + square);
    case 8:
      return emit(Square, "layer_norm " + pick(Square).name +
                              ", %g, %g axis(1) epsilon(1.0e-5) : (" + square +
                              ", tensor<" + std::to_string(size) +
                              "xf32>, tensor<" + std::to_string(size) +
                              "xf32>) -> " + square);
    case 9:
      return emit(Square, "transpose " + pick(Square).name +
                              " [1, 0] : " + square + " to " + square);
    case 10:
      if (draw(1))
        return emit(Flat, "reshape " + pick(Square).name + " : " + square +
                              " to " + type(Flat));
      for (const Value &value : values)
        if (value.shape == Flat)
          return emit(Square, "reshape " + pick(Flat).name + " : " +
                                  type(Flat) + " to " + square);
      return;
    default:
      if (draw(1))
        return emit(Column, "reduce_mean " + pick(Square).name +
                                " axes([1]) keep_dims : " + square + " -> " +
                                type(Column));
      for (const Value &value : values)
        if (value.shape == Column)
          return emit(Square, "sub " + pick(Square).name + ", " +
                                  pick(Column).name + " : (" + square + ", " +
                                  type(Column) + ") -> " + square);
    }
  }

  std::mt19937 random;
  int size, count = 0, arguments = 0;
  std::vector<Value> values;
  std::string body;
};

} // namespace mpc::test

#endif // MPC_TEST_UNIT_DIALECT_MPC_TRANSFORMS_RANDOMGRAPH_H
