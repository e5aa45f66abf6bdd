//===- ExternalData.h - external tensor data --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_ONNX_EXTERNALDATA_H
#define MPC_LIB_IMPORT_ONNX_EXTERNALDATA_H

#include "Graph.h"

#include "mpc/Import/ONNX.h"

#include "mlir/IR/AsmState.h"

#include <map>
#include <memory>
#include <optional>
#include <string>

namespace mpc::onnx {

/// Reads tensor data from files in the model's folder only: no absolute path,
/// no `..`, no symbolic link at any level, no hard link, no device. Keeps the
/// files open until it is destroyed. Uses the caller's data instead if a
/// callback is set.
class ExternalFiles {
public:
  using Callback = decltype(OnnxImportOptions::externalData);

  /// With `trustsTimes` the metadata of large files identifies their contents.
  ExternalFiles(llvm::StringRef folder, Callback callback, bool trustsTimes)
      : folder(folder), callback(std::move(callback)),
        trustsTimes(trustsTimes) {}
  ~ExternalFiles();
  ExternalFiles(const ExternalFiles &) = delete;
  ExternalFiles &operator=(const ExternalFiles &) = delete;

  /// Reads `size` bytes of `range`: elements of `width` bytes (0: packed). If
  /// there is more than one window and all elements are equal, as in a hole,
  /// returns one element. Reports failures at `location`, naming `what`.
  mlir::FailureOr<std::string> read(const ExternalRange &range, int64_t size,
                                    int64_t width, mlir::Location location,
                                    llvm::StringRef what);

  /// The same for elements that are stored as they are in memory. Bytes in a
  /// mapped file, or of the caller, which are not copied if they are many.
  struct Data {
    /// Set if the bytes are not copied, with what identifies them; an empty key
    /// if only their digest does.
    std::optional<mlir::AsmResourceBlob> mapped;
    std::string key;
    /// What read() returns otherwise.
    std::string copied;
  };
  mlir::FailureOr<Data> map(const ExternalRange &range, int64_t size,
                            int64_t width, mlir::Location location,
                            llvm::StringRef what);

private:
  struct File {
    /// -1 if the bytes are the caller's.
    int descriptor = -1;
    llvm::ArrayRef<char> bytes;
    int64_t size = 0;
    int64_t bytesRead = 0;
    /// fileIdentity(); empty if unknown, or if the file is small.
    std::string identity;
    /// Owner of the mapping; null until map().
    std::shared_ptr<const std::byte> mapped;
  };
  /// Opens the file of `range` and checks that it has `size` bytes there.
  mlir::FailureOr<File *> openRange(const ExternalRange &range, int64_t size,
                                    mlir::Location location,
                                    llvm::StringRef what);
  /// Refers to bytes of a large file or of the caller; false if they are few,
  /// not aligned or a hole.
  static bool mapRange(File &file, int64_t offset, int64_t size, Data &data);
  mlir::FailureOr<std::string> read(const ExternalRange &range, File &file,
                                    int64_t size, int64_t width,
                                    mlir::Location location,
                                    llvm::StringRef what);
  /// Reads `out.size()` bytes at `offset`.
  mlir::LogicalResult readInto(llvm::MutableArrayRef<char> out,
                               const File &file, int64_t offset,
                               mlir::Location location, llvm::StringRef path,
                               llvm::StringRef what);
  mlir::FailureOr<File *> open(llvm::StringRef path, mlir::Location location,
                               llvm::StringRef what);

  std::string folder;
  Callback callback;
  bool trustsTimes;
  std::map<std::string, File> files;
};

} // namespace mpc::onnx

#endif // MPC_LIB_IMPORT_ONNX_EXTERNALDATA_H
