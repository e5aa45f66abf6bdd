//===- GgufWeights.h - weights of a GGUF file -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_CHECKPOINT_GGUFWEIGHTS_H
#define MPC_LIB_IMPORT_CHECKPOINT_GGUFWEIGHTS_H

#include "Gguf.h"
#include "WeightStore.h"

namespace mpc::checkpoint {

/// The tensors of a GGUF file, which stays mapped. f32, f16 and bf16 are read
/// as stored; quantized blocks are dequantized to f32 by every read, exactly
/// (GgufBlocks.h).
class GgufWeights final : public WeightStore {
public:
  /// Maps and verifies the file at `path`.
  static Result<std::shared_ptr<const GgufWeights>>
  open(const std::string &path);

  const GgufFile &getFile() const { return file; }

  const StoredTensor *find(llvm::StringRef name) const override;
  std::vector<std::string> names() const override;
  Result<std::shared_ptr<const std::byte>>
  read(llvm::StringRef name) const override;

private:
  GgufWeights(std::shared_ptr<const std::byte> bytes, GgufFile file,
              const std::string &identity);

  std::shared_ptr<const std::byte> bytes;
  GgufFile file;
  std::map<std::string, StoredTensor, std::less<>> tensors;
};

} // namespace mpc::checkpoint

#endif // MPC_LIB_IMPORT_CHECKPOINT_GGUFWEIGHTS_H
