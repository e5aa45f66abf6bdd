//===- Generate.h - mpc generate --------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_GENERATE_H
#define MPC_TOOLS_MPC_GENERATE_H

#include "Options.h"

#include "mpc/JIT/Sampler.h"

#include <optional>
#include <string>
#include <vector>

namespace mpc::tool {

struct GenerateArguments {
  CommonOptions common;
  /// Of each sequence numbers between commas, or a file of them.
  std::vector<std::string> prompts;
  int64_t tokens = 64;
  SamplingOptions sampling;
  /// Rows of the cache; 0 for as many as this run needs.
  int64_t cache = 0;
  /// 0: 64, or as many as the cache has rows.
  int64_t chunk = 0;
  /// Sequences that are stepped together.
  int64_t slots = 1;
  std::optional<int64_t> end;
};

/// Adds the flags of `mpc generate`.
void addGenerateFlags(CLI::App &command, GenerateArguments &arguments);

int generateCommand(const GenerateArguments &arguments);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_GENERATE_H
