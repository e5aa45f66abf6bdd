//===- InitAllPasses.h - registers all passes -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_INITALLPASSES_H
#define MPC_INITALLPASSES_H

namespace mpc {

/// Registers every pass of mpc, the stage pipelines (mpc-pipeline-<stage>) and
/// the upstream clean-up passes. Call once per process.
void registerAllPasses();

} // namespace mpc

#endif // MPC_INITALLPASSES_H
