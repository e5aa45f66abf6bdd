//===- Calibrate.h - ranges of values over samples --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_CALIBRATE_H
#define MPC_TOOLS_MPC_CALIBRATE_H

#include "SampleInputs.h"

#include "mpc/Analysis/ActivationMoments.h"
#include "mpc/Analysis/RangeRecorder.h"
#include "mpc/Tuning/LossScaleChoice.h"

namespace mpc::tool {

/// Selects the part of a training step that computes gradients, without a loss
/// scale; empty text selects none. Fails if `text` names another part.
Status setGradients(const std::string &text, CompileOptions &options);

/// Runs the model over its samples and records every float value, by the name
/// of its op or input; gradients separately in `gradients`, and second moments
/// of contraction operands in `moments`, if given.
Status recordRanges(const SampledModel &model, RangeRecorder &recorder,
                    RangeRecorder &gradients,
                    ActivationMoments *moments = nullptr);

/// Formats the result of chooseLossScale(), as JSON and as a sentence.
Json describe(const LossScaleChoice &choice);
std::string sentence(const LossScaleChoice &choice);

/// Records the float values of sample `number`: inputs immediately, op results
/// through the returned observer.
OpObserver observeRanges(const SampledModel &model, size_t number,
                         RangeRecorder &recorder);

/// Formats all records by name.
Json rangesToJson(const RangeRecorder &recorder,
                  const std::vector<Sample> &samples);

/// Formats the field "ranges" of a policy.
Json rangesForPolicy(const RangeRecorder &recorder,
                     const std::vector<Sample> &samples);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_CALIBRATE_H
