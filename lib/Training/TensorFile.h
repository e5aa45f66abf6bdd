//===- TensorFile.h - safetensors files with a digest -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The format of Hugging Face's safetensors: eight bytes of the header's length,
// a JSON header (name, dtype, shape, offsets; strings under __metadata__), then
// the tensors' bytes. The metadata's `sha256` is over the file with its own 64
// digits as zeros.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TRAINING_TENSORFILE_H
#define MPC_LIB_TRAINING_TENSORFILE_H

#include "mpc/Training/Dataset.h"

#include <map>
#include <string>
#include <vector>

namespace mpc::training {

/// Most bytes of a header. The format's own library reads six times as many;
/// their JSON would take gigabytes.
inline constexpr uint64_t kMostHeader = uint64_t(16) << 20;

struct TensorFile {
  std::vector<NamedTensor> tensors;
  std::map<std::string, std::string> metadata;
};

/// The bytes of a file with these tensors, which lie in host memory, in order
/// and with a digest. Names must differ. Equal contents give equal bytes.
Result<std::string> encodeTensorFile(const TensorFile &file);

/// Reads such bytes from anywhere; `where` names them in messages. With
/// `needsDigest` bytes without a digest are refused; a digest that is there
/// must hold.
Result<TensorFile> decodeTensorFile(std::string_view bytes,
                                    const std::string &where, bool needsDigest);

} // namespace mpc::training

#endif // MPC_LIB_TRAINING_TENSORFILE_H
