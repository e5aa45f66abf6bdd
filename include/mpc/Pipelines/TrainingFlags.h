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

/// Reads a part and the flags of `mpc-pipeline-<stage>` that concern training:
/// "step optimizer=sgd learning-rate=0.1". Fails on an unknown part or flag;
/// what the flags say is checked by the passes.
llvm::Expected<TrainingOptions> parseTraining(llvm::StringRef text);

} // namespace mpc

#endif // MPC_PIPELINES_TRAININGFLAGS_H
