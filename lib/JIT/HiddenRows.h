//===- HiddenRows.h - how far back a decoder sees ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_JIT_HIDDENROWS_H
#define MPC_LIB_JIT_HIDDENROWS_H

#include "mpc/JIT/ModelSource.h"
#include "mpc/JIT/Options.h"

namespace mpc {

/// Fails, at an attention, where `model` under `options` sees one of the first
/// `hidden` rows of their caches while its input `mask` hides none, or where
/// that cannot be told. Imports the model.
Status checkHiddenRows(const ModelSource &model, CompileOptions options,
                       const std::string &mask, int64_t hidden);

} // namespace mpc

#endif // MPC_LIB_JIT_HIDDENROWS_H
