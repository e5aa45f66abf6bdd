//===- GgufWeights.h - weights of a GGUF file -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_CHECKPOINT_GGUFWEIGHTS_H
#define MPC_LIB_IMPORT_CHECKPOINT_GGUFWEIGHTS_H

#include "FileContents.h"
#include "Gguf.h"

namespace mpc::checkpoint {

/// The tensors of a GGUF file. f32, f16 and bf16 are read
/// as stored; quantized blocks are dequantized to f32 by every read, exactly
/// (GgufBlocks.h).
class GgufWeights final : public WeightStore {
public:
  /// Reads or maps and verifies the file at `path`.
  static Result<std::unique_ptr<GgufWeights>> open(const std::string &path);

  const GgufFile &getFile() const { return file; }

  const StoredTensor *find(llvm::StringRef name) const override;
  std::vector<std::string> names() const override;
  Result<std::shared_ptr<const std::byte>>
  read(llvm::StringRef name) const override;
  bool isComputed(llvm::StringRef name) const override;
  void compute(llvm::StringRef name,
               llvm::MutableArrayRef<char> target) const override;

private:
  GgufWeights(FileContents contents, GgufFile file);

  FileContents contents;
  GgufFile file;
  std::map<std::string, StoredTensor, std::less<>> tensors;
};

} // namespace mpc::checkpoint

#endif // MPC_LIB_IMPORT_CHECKPOINT_GGUFWEIGHTS_H
