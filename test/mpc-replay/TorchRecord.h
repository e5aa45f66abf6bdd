//===- TorchRecord.h - parser of torch recordings ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_REPLAY_TORCHRECORD_H
#define MPC_TOOLS_REPLAY_TORCHRECORD_H

#include "TorchGraph.h"

namespace mpc::replay {

/// One op below autocast: "mm.default (f16, f16) -> f16".
struct AtenOp {
  std::string name; ///< without overload
  std::vector<std::string> inputs, outputs;
};

/// Parses a recording's list of ops. Throws std::runtime_error for a malformed
/// line.
std::vector<AtenOp> parseAten(const Json &lines);

/// Casts and compute types of recorded ops, without views and fill ops. A
/// 16-bit operand of an op that computes in f32 counts as upcast, whether a
/// copy or the kernel upcasts it.
Trace traceOf(std::vector<AtenOp> ops);

} // namespace mpc::replay

#endif // MPC_TOOLS_REPLAY_TORCHRECORD_H
