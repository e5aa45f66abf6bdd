//===- Resample.h - how far rounding may lead -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The oracle's second mode predicts an error by making it. Where an output has
// many elements their mean square is a good estimate of its size; of a few
// elements, by chance, all may have been rounded the lucky way. Inputs next
// to them are rounded in other ways.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_RESAMPLE_H
#define MPC_TOOLS_MPC_RESAMPLE_H

#include "mpc/Reference/Tensor.h"
#include "mpc/Runtime/Status.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <cstdint>
#include <vector>

namespace mpc::tool {

/// Outputs of more elements than these are an estimate by themselves.
inline constexpr int64_t kFewElements = 64;

/// Runs both modes of the oracle on what `inputs` hold now.
using RunBothModes =
    llvm::function_ref<Status(std::vector<reference::Tensor> &float64,
                              std::vector<reference::Tensor> &declared)>;

/// Of each output the standard deviation of the second mode's error relative to
/// float64, as the median over draws of inputs next to these gives it, which
/// `seed` draws. `inputs` are as they were afterwards, also after an error.
Result<std::vector<double>> sampleErrors(std::vector<reference::Tensor> &inputs,
                                         uint64_t seed,
                                         RunBothModes runBothModes);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_RESAMPLE_H
