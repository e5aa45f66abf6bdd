//===- CrashHandler.h - crash handler with reproducer -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_CRASHHANDLER_H
#define MPC_TOOLS_MPC_CRASHHANDLER_H

#include <string>
#include <vector>

namespace mpc::tool {

/// Makes fatal signals end the process with exit code 3 and a message that
/// names a reproducer: a script with this command line and the current stage.
void installCrashHandler(const std::vector<std::string> &commandLine);

/// Records the current stage for the reproducer.
void noteStage(const std::string &stage);

/// Writes the reproducer and returns its path. Also called by the handler.
std::string writeReproducer(const char *why);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_CRASHHANDLER_H
