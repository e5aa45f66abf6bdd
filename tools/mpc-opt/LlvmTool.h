//===- LlvmTool.h - start of tools with LLVM's command line -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_OPT_LLVMTOOL_H
#define MPC_TOOLS_MPC_OPT_LLVMTOOL_H

#include "llvm/Config/llvm-config.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>

namespace mpc {

/// Sets what --version prints for the tool `Name`, and turns colors off if the
/// environment has a NO_COLOR that is not empty (no-color.org).
template <const char *Name> void startLlvmTool() {
  llvm::cl::SetVersionPrinter([](llvm::raw_ostream &os) {
    os << Name << " " MPC_VERSION ", LLVM " LLVM_VERSION_STRING "\n";
  });
  if (const char *value = std::getenv("NO_COLOR"); value && *value)
    llvm::WithColor::setAutoDetectFunction(
        [](const llvm::raw_ostream &) { return false; });
}

} // namespace mpc

#endif // MPC_TOOLS_MPC_OPT_LLVMTOOL_H
