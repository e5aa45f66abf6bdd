//===- VjpCases.h - random ops to differentiate -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_UNIT_DIALECT_MPC_VJP_VJPCASES_H
#define MPC_TEST_UNIT_DIALECT_MPC_VJP_VJPCASES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace mpc::vjptest {

using Shape = llvm::SmallVector<int64_t>;
using Generator = std::mt19937;

// Sampling domains of operands: away from kinks and poles.
using Domain = double (*)(Generator &);
double normal(Generator &generator);
double awayFromZero(Generator &generator);    ///< 0.2 <= |x|
double positive(Generator &generator);        ///< [0.3, 2.3]
double insideUnit(Generator &generator);      ///< [-0.9, 0.9]
double aboveOne(Generator &generator);        ///< [1.2, 3.2]
double nearOne(Generator &generator);         ///< [0.7, 1.3]
double betweenIntegers(Generator &generator); ///< [1.2, 1.8]

/// How an op prints its types.
enum class Types {
  Functional, ///< (operands) -> results
  Result,     ///< result
  To,         ///< operand to result
  Arrow       ///< operand -> results
};

/// One op with its arguments, as text.
class Draw {
public:
  Draw(unsigned seed, std::string element)
      : generator(seed), element(std::move(element)) {}

  struct Argument {
    std::string type;
    bool isParameter;
    Domain domain;     ///< of floats
    int64_t low, high; ///< of integers
  };

  int64_t extent(int64_t low = 1, int64_t high = 4) {
    return std::uniform_int_distribution<int64_t>(low, high)(generator);
  }
  Shape shape(int64_t rank, int64_t low = 1) {
    Shape drawn;
    for (int64_t i = 0; i < rank; ++i)
      drawn.push_back(extent(low));
    return drawn;
  }
  bool coin() { return extent(0, 1) == 1; }

  std::string type(llvm::ArrayRef<int64_t> shape, std::string element = "") {
    std::string text = "tensor<";
    for (int64_t size : shape)
      text += std::to_string(size) + "x";
    return text + (element.empty() ? this->element : element) + ">";
  }

  /// Arguments %0, %1, ... in order.
  void parameter(llvm::ArrayRef<int64_t> shape, Domain domain = normal) {
    arguments.push_back({type(shape), true, domain, 0, 0});
  }
  void integers(llvm::ArrayRef<int64_t> shape, int64_t low, int64_t high,
                std::string element = "i64") {
    arguments.push_back({type(shape, element), false, nullptr, low, high});
  }

  /// The op under test, without its types.
  void op(std::string text, std::vector<Shape> resultShapes,
          Types types = Types::Functional);
  /// A result that is no float.
  void alsoGives(std::string type) { resultTypes.push_back(type); }

  Generator generator;
  std::string element;
  std::vector<Argument> arguments;
  std::string text;
  /// Float results first.
  std::vector<Shape> results;
  std::vector<std::string> resultTypes;
  Types types = Types::Functional;
};

struct OpCase {
  const char *name; ///< op name, optionally with a space and a suffix
  void (*draw)(Draw &d);
};

std::vector<OpCase> elementwiseCases();
std::vector<OpCase> structuredCases();
std::vector<OpCase> movementCases();
std::vector<OpCase> trainingCases();

/// As attributes print: `[1, 2]`.
std::string list(llvm::ArrayRef<int64_t> values);

} // namespace mpc::vjptest

#endif // MPC_TEST_UNIT_DIALECT_MPC_VJP_VJPCASES_H
