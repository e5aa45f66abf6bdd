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

namespace mpc::tool {

/// Runs the model over its samples and notes every float value, by the name of
/// the op that makes it or of the input; in `moments`, where given, what
/// weights are multiplied with.
Status recordRanges(const SampledModel &model, RangeRecorder &recorder,
                    MomentRecorder *moments = nullptr);

/// The field "ranges" of a policy.
Json rangesForPolicy(const RangeRecorder &recorder,
                     const std::vector<Sample> &samples);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_CALIBRATE_H
