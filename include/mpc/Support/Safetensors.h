//===- Safetensors.h - headers of safetensors files -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Hugging Face's safetensors format: the header's length in eight bytes, a JSON
// header (name, dtype, shape, offsets; strings under __metadata__), then the
// tensors' bytes.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_SUPPORT_SAFETENSORS_H
#define MPC_SUPPORT_SAFETENSORS_H

#include "mpc/Runtime/Status.h"
#include "mpc/Runtime/TensorType.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace mpc {

/// Maximum header size in bytes. The format's library allows six times as much,
/// whose parsed JSON would take gigabytes.
inline constexpr uint64_t kMostSafetensorsHeader = uint64_t(16) << 20;

struct SafetensorsHeader {
  struct Tensor {
    std::string name;
    TensorType type;
    /// Offset of the first byte in the file.
    uint64_t offset = 0;
  };
  std::map<std::string, std::string> metadata;
  /// Sorted by name. Types agree with the sizes; the ranges are inside the
  /// file, do not overlap and cover all bytes after the header.
  std::vector<Tensor> tensors;
};

/// Reads the header of a file with the untrusted contents `bytes`; `where`
/// names them in messages. `checkMetadata` is called with the header's text and
/// the metadata before the tensors are read, whose errors may be consequences
/// of a damage that it detects.
Result<SafetensorsHeader> readSafetensorsHeader(
    std::string_view bytes, const std::string &where,
    const std::function<Status(std::string_view text,
                               std::map<std::string, std::string> &metadata)>
        &checkMetadata = {});

/// Returns the format's name of an element type.
std::string_view safetensorsDtype(ElementType type);

} // namespace mpc

#endif // MPC_SUPPORT_SAFETENSORS_H
