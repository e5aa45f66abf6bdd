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
  /// Comma-separated tokens of each sequence, or a file of them.
  std::vector<std::string> prompts;
  int64_t tokens = 64;
  SamplingOptions sampling;
  /// Rows of the KV cache; 0: as many as this run needs.
  int64_t cache = 0;
  /// Tokens per prefill chunk; 0: 64, or the cache's capacity.
  int64_t chunk = 0;
  /// Maximum batch of sequences per step.
  int64_t slots = 1;
  std::optional<int64_t> end;
};

/// Adds the flags of `mpc generate`.
void addGenerateFlags(CLI::App &command, GenerateArguments &arguments);

int generateCommand(const GenerateArguments &arguments);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_GENERATE_H
