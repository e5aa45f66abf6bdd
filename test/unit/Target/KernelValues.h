//===- KernelValues.h - inputs and checks of kernel tests -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_UNIT_TARGET_KERNELVALUES_H
#define MPC_TEST_UNIT_TARGET_KERNELVALUES_H

#include "mpc/Reference/Compare.h"
#include "mpc/Reference/Tensor.h"

#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>

namespace mpc {

/// Standard normal numbers times `scale`, rounded to the type; small integers.
inline reference::Tensor drawTensor(mlir::RankedTensorType type,
                                    std::mt19937_64 &engine, double scale) {
  reference::Tensor tensor(type);
  std::normal_distribution<double> normal(0.0, scale);
  for (double &value : tensor.floats())
    value = reference::roundTo(normal(engine), type.getElementType());
  bool isBool = type.getElementType().isInteger(1);
  std::uniform_int_distribution<int64_t> integers(isBool ? 0 : -9,
                                                  isBool ? 1 : 9);
  for (int64_t &value : tensor.ints())
    value = reference::wrapTo(integers(engine), type.getElementType());
  return tensor;
}

/// A function that masks out the first `rows` rows of operand `operand`, an
/// attention's mask; `number` is what a mask of floats gets there.
inline std::function<void(unsigned, reference::Tensor &)>
maskingRows(unsigned operand, int64_t rows,
            double number = -std::numeric_limits<double>::infinity()) {
  return [=](unsigned index, reference::Tensor &tensor) {
    if (index != operand)
      return;
    for (int64_t i = 0; i < rows * tensor.getShape().back(); ++i)
      if (tensor.isFloat())
        tensor.floats()[i] = number;
      else
        tensor.ints()[i] = 0;
  };
}

/// Description of an incorrect result: its error, and the first differences.
inline std::string describeError(unsigned index,
                                 const reference::Tensor &actual,
                                 const reference::Tensor &expected,
                                 const reference::OutputError &error) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << "result " << index << ": rms error " << error.rmsRelativeError
         << ", tolerance " << error.tolerance << ", mismatches "
         << error.mismatches;
  int64_t shown = 0;
  for (int64_t i = 0; i < actual.size() && shown < 4; ++i) {
    double a = actual.isFloat() ? actual.floats()[i] : actual.ints()[i];
    double e = expected.isFloat() ? expected.floats()[i] : expected.ints()[i];
    if (std::abs(a - e) <= 1e-3 * std::abs(e) + 1e-6)
      continue;
    stream << "; [" << i << "] is " << a << " instead of " << e;
    ++shown;
  }
  return text;
}

} // namespace mpc

#endif // MPC_TEST_UNIT_TARGET_KERNELVALUES_H
