//===- TensorFile.h - safetensors files with a digest -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The `sha256` in the metadata is of the file with the digest's own 64 digits
// as zeros.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TRAINING_TENSORFILE_H
#define MPC_LIB_TRAINING_TENSORFILE_H

#include "mpc/Training/Dataset.h"

#include <map>
#include <string>
#include <vector>

namespace mpc::training {

struct TensorFile {
  std::vector<NamedTensor> tensors;
  std::map<std::string, std::string> metadata;
};

/// Encodes host tensors in order, with a digest. Names must be distinct.
/// Deterministic.
Result<std::string> encodeTensorFile(const TensorFile &file);

/// Decodes untrusted bytes; `where` names them in messages. With `needsDigest`
/// a missing digest is an error; a present digest must match.
Result<TensorFile> decodeTensorFile(std::string_view bytes,
                                    const std::string &where, bool needsDigest);

} // namespace mpc::training

#endif // MPC_LIB_TRAINING_TENSORFILE_H
