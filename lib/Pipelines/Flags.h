//===- Flags.h - training options as text -----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_PIPELINES_FLAGS_H
#define MPC_LIB_PIPELINES_FLAGS_H

#include "mpc/Training/Options.h"

#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>
#include <vector>

namespace mpc {

/// "step", "forward-backward", "apply" or "evaluate".
llvm::StringRef partName(TrainingPart part);
std::optional<TrainingPart> parsePart(llvm::StringRef name);

/// "NAME=PROBABILITY" of each dropout.
std::vector<std::string> dropoutTexts(const TrainingOptions &training);
/// "NAME=VALUE" of each number of the optimizer.
std::vector<std::string> numberTexts(const TrainingOptions &training);

/// The shortest text that reads back as `value`.
std::string exactText(double value);

} // namespace mpc

#endif // MPC_LIB_PIPELINES_FLAGS_H
