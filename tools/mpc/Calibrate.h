//===- Calibrate.h - ranges of values over samples --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_CALIBRATE_H
#define MPC_TOOLS_MPC_CALIBRATE_H

#include "Samples.h"

#include "mpc/Analysis/RangeRecorder.h"
#include "mpc/Analysis/WeightMoments.h"
#include "mpc/Tuning/LossScaleChoice.h"

namespace mpc::tool {

/// Sets the part of a training step that gives gradients, without a loss scale;
/// empty text sets none. Fails where `text` asks for another part.
Status setGradients(const std::string &text, CompileOptions &options);

/// Runs the model over its samples and notes every float value, by the name of
/// the op that makes it or of the input; what flows back from a loss among
/// `gradients`, and in `moments`, where given, what weights are multiplied
/// with.
Status recordRanges(const SampledModel &model, RangeRecorder &recorder,
                    RangeRecorder &gradients,
                    MomentRecorder *moments = nullptr);

/// What chooseLossScale() found, and in a sentence.
Json describe(const LossScaleChoice &choice);
std::string sentence(const LossScaleChoice &choice);

/// Notes the float values of one sample, number `number`: its inputs at once,
/// what ops make of them as the observer that is returned sees it.
OpObserver observeRanges(const SampledModel &model, size_t number,
                         RangeRecorder &recorder);

/// Everything that was recorded, by name.
Json rangesToJson(const RangeRecorder &recorder,
                  const std::vector<Sample> &samples);

/// The field "ranges" of a policy.
Json rangesForPolicy(const RangeRecorder &recorder,
                     const std::vector<Sample> &samples);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_CALIBRATE_H
