//===- WeightStore.h - weights of a checkpoint by name ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_CHECKPOINT_WEIGHTSTORE_H
#define MPC_LIB_IMPORT_CHECKPOINT_WEIGHTSTORE_H

#include "mpc/Runtime/Status.h"
#include "mpc/Runtime/TensorType.h"

#include "llvm/ADT/StringRef.h"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace mpc::checkpoint {

/// A tensor of a checkpoint file.
struct StoredTensor {
  /// Shape in row-major order and element type, as read() returns them: for a
  /// format of quantized blocks the dequantized type.
  TensorType type;
  /// Identifies name, file and bytes, so that equal identities mean equal
  /// bytes: the tensor's name, the file's name, device, inode and times, the
  /// tensor's offset and type. Printable ASCII without '"' and '\\'.
  std::string identity;
};

/// Weights of a checkpoint by name: safetensors files, a GGUF file. Headers are
/// verified when a store is opened: types, shapes and sizes agree, and all
/// bytes are inside the files. Immutable and thread-safe.
class WeightStore {
public:
  virtual ~WeightStore() = default;

  /// Returns null if there is no tensor `name`. Owned by the store.
  virtual const StoredTensor *find(llvm::StringRef name) const = 0;
  /// All names, sorted.
  virtual std::vector<std::string> names() const = 0;
  /// Returns `type.byteCount()` bytes of the tensor `name`, which must exist:
  /// mapped from the file, or dequantized into memory. The pointer keeps the
  /// file mapped.
  virtual Result<std::shared_ptr<const std::byte>>
  read(llvm::StringRef name) const = 0;
  /// Returns true if read() computes the bytes, which compute() does in place.
  virtual bool isComputed(llvm::StringRef name) const { return false; }
  /// Writes the bytes of such a tensor into memory of its size.
  virtual void compute(llvm::StringRef name,
                       llvm::MutableArrayRef<char> target) const {}
};

} // namespace mpc::checkpoint

#endif // MPC_LIB_IMPORT_CHECKPOINT_WEIGHTSTORE_H
