//===- Flags.h - training options as text -----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_PIPELINES_FLAGS_H
#define MPC_LIB_PIPELINES_FLAGS_H

#include "mpc/Training/Options.h"

#include "llvm/ADT/StringRef.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mpc {

/// "step", "forward-backward", "apply" or "evaluate".
llvm::StringRef shardFileName(TrainingPart part);
std::optional<TrainingPart> parsePart(llvm::StringRef name);

/// Formats "NAME=VALUE" pairs; values as the shortest text that parses back.
std::vector<std::string>
pairTexts(const std::map<std::string, double> &numbers);

} // namespace mpc

#endif // MPC_LIB_PIPELINES_FLAGS_H
