//===- InitialValues.h - drawn values of parameters -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRAINING_INITIALVALUES_H
#define MPC_LIB_DIALECT_MPC_TRAINING_INITIALVALUES_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Value.h"

#include <cstdint>

namespace mpc {

/// How a parameter's first value is drawn.
struct InitialDistribution {
  /// `Kept`: not drawn, the model's own value.
  enum class Kind { Constant, Uniform, Normal, Kept };
  Kind kind = Kind::Constant;
  /// The constant, the largest magnitude, or the standard deviation.
  double size = 0;
};

/// The distribution that PyTorch's layers use for a weight that is read as
/// `weight` is: by the ops that read it. Weights of contractions and the biases
/// added to their results are uniform in +-1 / sqrt(fan-in) (He et al., arXiv
/// 1502.01852, with a = sqrt 5), tables that are gathered from standard normal,
/// scales of norms 1. A single number keeps its value: PyTorch's modules with
/// one (slopes, scales of logits) begin with a number of their own. All else
/// is 0.
InitialDistribution initialDistribution(mlir::Value weight);

/// A value of `type` (f32 or f64) drawn from `distribution`. Depends on seed,
/// name and type only.
mlir::ElementsAttr drawInitial(mlir::RankedTensorType type,
                               InitialDistribution distribution, uint64_t seed,
                               llvm::StringRef name);

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRAINING_INITIALVALUES_H
