//===- TrainingFlags.h - training options from text -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_PIPELINES_TRAININGFLAGS_H
#define MPC_PIPELINES_TRAININGFLAGS_H

#include "mpc/Training/Options.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace mpc {

/// Parses a part and the training flags of `mpc-pipeline-<stage>`: "step
/// optimizer=sgd learning-rate=0.1". Fails on an unknown part or flag; passes
/// check the values.
llvm::Expected<TrainingOptions> parseTraining(llvm::StringRef text);

} // namespace mpc

#endif // MPC_PIPELINES_TRAININGFLAGS_H
