//===- AttentionWindowCheck.h - attention window of a decoder ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_JIT_ATTENTIONWINDOWCHECK_H
#define MPC_LIB_JIT_ATTENTIONWINDOWCHECK_H

#include "mpc/JIT/ModelSource.h"
#include "mpc/JIT/Options.h"

namespace mpc {

/// Fails, at an attention op, if `model` under `options` attends to one of the
/// first `hidden` cache rows while its input `mask` hides none, or if that
/// cannot be determined. Imports the model.
Status checkAttentionWindow(const ModelSource &model, CompileOptions options,
                            const std::string &mask, int64_t hidden);

} // namespace mpc

#endif // MPC_LIB_JIT_ATTENTIONWINDOWCHECK_H
