//===- ParameterInitialization.h - random initial values --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRAINING_PARAMETERINITIALIZATION_H
#define MPC_LIB_DIALECT_MPC_TRAINING_PARAMETERINITIALIZATION_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Value.h"

#include <cstdint>

namespace mpc {

/// Distribution of a parameter's initial value.
struct InitialDistribution {
  /// `Kept`: the model's own value.
  enum class Kind { Constant, Uniform, Normal, Kept };
  Kind kind = Kind::Constant;
  /// The constant, the maximum magnitude, or the standard deviation.
  double size = 0;
};

/// Returns the producer of `value` before movement and casts; may be null.
mlir::Operation *producerOf(mlir::Value value);

/// Returns PyTorch's default initialization for a weight, by the ops that read
/// it. Weights of contractions and their biases are uniform in +-1 /
/// sqrt(fan-in) (He et al., arXiv 1502.01852, with a = sqrt 5), embedding
/// tables standard normal, scales of norms 1. Scalars are kept, as PyTorch
/// initializes them (slopes, logit scales) with special values. Others are 0.
InitialDistribution initialDistribution(mlir::Value weight);

/// Samples a value of `type` (f32 or f64). Depends only on seed, name and type.
mlir::ElementsAttr drawInitial(mlir::RankedTensorType type,
                               InitialDistribution distribution, uint64_t seed,
                               llvm::StringRef name);

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRAINING_PARAMETERINITIALIZATION_H
