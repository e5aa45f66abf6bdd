//===- ActivationMoments.h - second moments of activations ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Mean squares, per input channel, of the activations that GEMMs and
// convolutions multiply with their weights: the importance of each weight's
// error for the result.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_ACTIVATIONMOMENTS_H
#define MPC_ANALYSIS_ACTIVATIONMOMENTS_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/MapVector.h"

#include <map>
#include <string>
#include <vector>

namespace mpc {

/// Number of input channels of `op`, a matmul or a conv: the contracted extent
/// of a GEMM, the input channels of a convolution.
int64_t contractedChannels(mlir::Operation *op);

/// Mean squares over samples, by the name of the GEMM or convolution.
class ActivationMoments {
public:
  /// Accumulates the elements of `value`, row-major, for each op that
  /// multiplies it with a constant. Skips ops without a name.
  void add(mlir::Value value, llvm::ArrayRef<double> elements);

  /// Returns the mean squares by name, in order of first appearance.
  std::vector<std::pair<std::string, std::vector<double>>> means() const;

private:
  struct Sums {
    std::vector<double> squares;
    int64_t rows = 0;
  };
  llvm::MapVector<std::string, Sums, std::map<std::string, unsigned>> sums;
};

} // namespace mpc

#endif // MPC_ANALYSIS_ACTIVATIONMOMENTS_H
