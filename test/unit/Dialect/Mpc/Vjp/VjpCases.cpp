//===- VjpCases.cpp - random ops to differentiate -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "VjpCases.h"

using namespace mpc::vjptest;

static double uniform(Generator &generator, double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(generator);
}

namespace mpc::vjptest {

double normal(Generator &generator) {
  return std::normal_distribution<double>()(generator);
}
double awayFromZero(Generator &generator) {
  double value = normal(generator);
  return value + std::copysign(0.2, value);
}
double positive(Generator &generator) { return uniform(generator, 0.3, 2.3); }
double insideUnit(Generator &generator) {
  return uniform(generator, -0.9, 0.9);
}
double aboveOne(Generator &generator) { return uniform(generator, 1.2, 3.2); }
double nearOne(Generator &generator) { return uniform(generator, 0.7, 1.3); }
double betweenIntegers(Generator &generator) {
  return uniform(generator, 1.2, 1.8);
}

void Draw::op(std::string text, std::vector<Shape> resultShapes, Types types) {
  this->text = std::move(text);
  this->types = types;
  results = std::move(resultShapes);
  for (const Shape &shape : results)
    resultTypes.push_back(type(shape));
}

std::string list(llvm::ArrayRef<int64_t> values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i)
    text += (i ? ", " : "") + std::to_string(values[i]);
  return text + "]";
}

} // namespace mpc::vjptest
