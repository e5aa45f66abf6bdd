//===- ExternalData.h - external tensor data --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_ONNX_EXTERNALDATA_H
#define MPC_LIB_IMPORT_ONNX_EXTERNALDATA_H

#include "Graph.h"

#include "mpc/Import/ONNX.h"

#include <map>

namespace mpc::onnx {

/// Reads tensor data from files in the model's folder only: no absolute path,
/// no `..`, no symbolic link at any level, no hard link, no device. Keeps the
/// files open until it is destroyed. Uses the caller's data instead if a
/// callback is set.
class ExternalFiles {
public:
  using Callback = decltype(OnnxImportOptions::externalData);

  ExternalFiles(llvm::StringRef folder, Callback callback)
      : folder(folder), callback(std::move(callback)) {}
  ~ExternalFiles();
  ExternalFiles(const ExternalFiles &) = delete;
  ExternalFiles &operator=(const ExternalFiles &) = delete;

  /// Reads `size` bytes of `range`: elements of `width` bytes (0: packed). If
  /// there is more than one window and all elements are equal, as in a hole,
  /// returns one element. Reports failures at `location`, naming `what`.
  mlir::FailureOr<std::string> read(const ExternalRange &range, int64_t size,
                                    int64_t width, mlir::Location location,
                                    llvm::StringRef what);

private:
  struct File {
    /// -1 if the bytes are the caller's.
    int descriptor = -1;
    llvm::ArrayRef<char> bytes;
    int64_t size = 0;
    int64_t bytesRead = 0;
  };
  /// Reads `out.size()` bytes at `offset`.
  mlir::LogicalResult readInto(llvm::MutableArrayRef<char> out,
                               const File &file, int64_t offset,
                               mlir::Location location, llvm::StringRef path,
                               llvm::StringRef what);
  mlir::FailureOr<File *> open(llvm::StringRef path, mlir::Location location,
                               llvm::StringRef what);

  std::string folder;
  Callback callback;
  std::map<std::string, File> files;
};

} // namespace mpc::onnx

#endif // MPC_LIB_IMPORT_ONNX_EXTERNALDATA_H
