//===- TraceFile.h - timeline of a step -------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_TRACEFILE_H
#define MPC_TOOLS_MPC_TRACEFILE_H

#include "mpc/Runtime/Executable.h"

#include <memory>
#include <string>

namespace mpc::tool {

/// Writes the traces of all ranks' runs of `program` to one file of Chrome
/// trace events, for Perfetto: one process per rank, with rows for launches and
/// collectives. Collective; rank 0 writes.
Status writeTrace(const std::string &path, const Program &program,
                  const RunTrace &trace,
                  const std::shared_ptr<Communicator> &group);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_TRACEFILE_H
