//===- RoundingErrorSampling.h - sampled rounding errors --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The oracle's storage-rounding mode predicts an error from one run. If many
// elements have errors of similar size, their mean square is a good estimate;
// with few elements all may be rounded favorably by chance. Perturbed inputs
// are rounded differently.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_ROUNDINGERRORSAMPLING_H
#define MPC_TOOLS_MPC_ROUNDINGERRORSAMPLING_H

#include "mpc/Reference/Compare.h"
#include "mpc/Reference/Interpreter.h"
#include "mpc/Runtime/Status.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <cstdint>
#include <vector>

namespace mpc::tool {

/// Maximum effective number of elements (OutputError::effective) that needs
/// resampling.
inline constexpr double kFewElements = 64;

/// Runs a mode of the oracle on the current `inputs`.
using RunMode = llvm::function_ref<Status(reference::Rounding,
                                          std::vector<reference::Tensor> &)>;

/// Returns for each output the standard deviation of the storage-rounding
/// mode's error against float64, over kErrorSamples perturbations of the inputs
/// by `seed`, by up to 2 `roundoff`, the model's largest unit roundoff: the
/// roundings of less perturbed inputs are alike, unless these leave a
/// function's domain; and the largest error of one element in all of them, for
/// integers the largest number of elements that differ. `reference` are the
/// results of the unperturbed inputs in float64, to which errors are relative,
/// and `magnitudes` those of each output's terms. Sums are computed in both
/// orders, and the larger deviation counts: if neighbors cancel, one order may
/// be exact for all perturbed inputs. Restores `inputs`, also on failure.
Result<std::vector<reference::ErrorMeasures>>
sampleErrors(std::vector<reference::Tensor> &inputs, uint64_t seed,
             double roundoff, llvm::ArrayRef<reference::Tensor> reference,
             llvm::ArrayRef<reference::Tensor> magnitudes, RunMode runMode);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_ROUNDINGERRORSAMPLING_H
