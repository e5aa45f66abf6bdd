//===- InitialState.h - initial state of a training step --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Uses neither LLVM nor MLIR.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_INITIALSTATE_H
#define MPC_TOOLS_MPC_INITIALSTATE_H

#include "mpc/Runtime/Buffer.h"
#include "mpc/Runtime/Program.h"

#include <cstdint>
#include <span>
#include <vector>

namespace mpc::tool {

/// Rounds `value` to bf16, once, to nearest even.
uint16_t roundToOddBFloat16(double value);

/// Returns true for an argument that is training state with an initial value:
/// one stored in the file, a 16-bit copy of a parameter, or zeros. Gradients
/// have none.
bool isSelfInitialized(const ProgramValue &value);

/// Sets every such argument without a buffer in `bound` to its initial value.
/// Copies are computed from the parameters in `bound`.
Status makeInitialState(std::span<const ProgramValue> values,
                        std::vector<Buffer> &bound);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_INITIALSTATE_H
