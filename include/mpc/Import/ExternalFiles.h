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
#include <utility>

namespace mpc {

/// A file that tensors of an ONNX model are stored in.
struct OnnxExternalFile {
  /// As the model names it: relative to its folder.
  std::string name;
  /// First byte and number of bytes of each range that tensors take by their
  /// shapes and types: sorted, without overlaps, whether the file has them or
  /// not. A tensor whose shape is invalid takes none: the importer refuses it.
  llvm::SmallVector<std::pair<int64_t, int64_t>> ranges;

  /// Bytes of all ranges together; INT64_MAX where no number holds them.
  int64_t bytes() const;
};

/// The files that tensors of an ONNX model are stored in, each once, sorted by
/// name. Nullopt where the bytes are seen to be no model. Reads no file and
/// copies no weights.
std::optional<llvm::SmallVector<OnnxExternalFile>>
onnxExternalFiles(llvm::ArrayRef<char> model);

} // namespace mpc

#endif // MPC_IMPORT_EXTERNALFILES_H
