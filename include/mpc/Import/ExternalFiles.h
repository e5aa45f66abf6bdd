//===- ExternalFiles.h - external data files of a model ---------*- C++ -*-===//
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

/// A file that contains external tensor data of an ONNX model.
struct OnnxExternalFile {
  /// Name in the model, relative to the model's folder.
  std::string name;
  /// Offset and length, in bytes, of each range that tensors occupy by their
  /// shapes and types: sorted and disjoint, whether or not they are inside the
  /// file. A tensor with an invalid shape has none: the importer refuses it.
  llvm::SmallVector<std::pair<int64_t, int64_t>> ranges;

  /// Total size of all ranges, in bytes; INT64_MAX on overflow.
  int64_t bytes() const;
};

/// Returns the external data files of an ONNX model, without duplicates, sorted
/// by name; nullopt if the bytes are recognizably not a model. Reads no file
/// and copies no weights.
std::optional<llvm::SmallVector<OnnxExternalFile>>
onnxExternalFiles(llvm::ArrayRef<char> model);

} // namespace mpc

#endif // MPC_IMPORT_EXTERNALFILES_H
