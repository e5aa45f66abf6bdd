//===- ExternalFiles.h - what a model file refers to ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_IMPORT_EXTERNALFILES_H
#define MPC_IMPORT_EXTERNALFILES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>
#include <string>

namespace mpc {

/// The files that tensors of an ONNX model lie in, as the model names them:
/// relative to its folder, each once, sorted. Nullopt where the bytes are seen
/// to be no model. Reads no file and copies no weights.
std::optional<llvm::SmallVector<std::string>>
onnxExternalFiles(llvm::ArrayRef<char> model);

} // namespace mpc

#endif // MPC_IMPORT_EXTERNALFILES_H
