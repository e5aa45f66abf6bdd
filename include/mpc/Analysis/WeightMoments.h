//===- WeightMoments.h - what weights are multiplied with -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Mean squares, by channel, of what products and convolutions multiply their
// weights with: the weight that an error of each has in the result.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_WEIGHTMOMENTS_H
#define MPC_ANALYSIS_WEIGHTMOMENTS_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/MapVector.h"

#include <map>
#include <string>
#include <vector>

namespace mpc {

/// Channels of what `op`, a matmul or a conv, multiplies its weights with: the
/// positions of a product's contracted extent, a convolution's input channels.
int64_t contractedChannels(mlir::Operation *op);

/// Squares over samples, by the name of the op that multiplies.
class MomentRecorder {
public:
  /// Notes the elements of `value`, row-major, for each op that multiplies a
  /// constant with it. Ops without a name are left out.
  void add(mlir::Value value, llvm::ArrayRef<double> elements);

  /// Mean squares by name, in the order in which names appeared.
  std::vector<std::pair<std::string, std::vector<double>>> means() const;

private:
  struct Sums {
    std::vector<double> squares;
    int64_t rows = 0;
  };
  llvm::MapVector<std::string, Sums, std::map<std::string, unsigned>> sums;
};

} // namespace mpc

#endif // MPC_ANALYSIS_WEIGHTMOMENTS_H
