//===- KeptState.h - what a training step begins with -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sees neither LLVM nor MLIR.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_KEPTSTATE_H
#define MPC_TOOLS_MPC_KEPTSTATE_H

#include "mpc/Runtime/Buffer.h"
#include "mpc/Runtime/Program.h"

#include <cstdint>
#include <span>
#include <vector>

namespace mpc::tool {

/// `value` as a brain float, rounded once to nearest, ties to even.
uint16_t brainFloat(double value);

/// Whether `value` is an argument that a training step keeps from step to step
/// and that has a value to begin with: one that the file holds, a 16-bit copy
/// of a parameter, or zeros. A gradient has none.
bool beginsByItself(const ProgramValue &value);

/// Gives every such argument that has no buffer in `bound` the value that a
/// training begins with. Copies are made from the parameters in `bound`.
Status beginState(std::span<const ProgramValue> values,
                  std::vector<Buffer> &bound);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_KEPTSTATE_H
