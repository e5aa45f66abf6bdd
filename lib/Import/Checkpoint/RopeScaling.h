//===- RopeScaling.h - frequencies of rotary embeddings ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_CHECKPOINT_ROPESCALING_H
#define MPC_LIB_IMPORT_CHECKPOINT_ROPESCALING_H

#include "ModelConfig.h"

namespace mpc::checkpoint {

/// Methods that extend a rotary embedding to longer texts than the model was
/// trained on.
enum class RopeScaling {
  None,
  /// All frequencies divided by `factor` (Chen et al., arXiv 2306.15595).
  Linear,
  /// Another base beyond `positions` tokens; none up to there.
  Dynamic,
  /// Low frequencies divided by `factor`, high ones kept, with a ramp in
  /// between (Peng et al., arXiv 2309.00071).
  Yarn,
  /// The same by wavelength, as in Llama 3.1.
  Llama3,
  /// Divisors for each pair (Ding et al., arXiv 2402.13753).
  LongRope,
};

struct RopeOptions {
  RopeScaling scaling = RopeScaling::None;
  double theta = 10000;
  /// Rotated elements of each head; even.
  int64_t rotary = 0;
  /// Trained length in tokens, of the model and before its extension.
  int64_t positions = 0, original = 0;
  double factor = 1;
  /// Llama3: factors of the original length that bound the ramp.
  double low = 1, high = 4;
  /// Yarn: rotations over the original length that bound the ramp.
  double fast = 32, slow = 1;
  bool truncates = true;
  std::optional<double> attentionFactor, scale, scaleAllDim;
  /// LongRope: divisors up to the original length, one for each pair.
  std::vector<double> divisors;
};

/// Returns the frequencies, computed in f32 as PyTorch does. Options must be
/// finite and positive.
Rope makeRope(const RopeOptions &options);

/// Returns true if all numbers of `rope` are finite in f32.
bool isFinite(const Rope &rope);

/// Returns the maximum length in tokens for which makeRope() is right, or 0 if
/// there is none.
int64_t mostTokensOf(const RopeOptions &options);

} // namespace mpc::checkpoint

#endif // MPC_LIB_IMPORT_CHECKPOINT_ROPESCALING_H
