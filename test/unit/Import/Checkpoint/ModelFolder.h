//===- ModelFolder.h - folders of small models ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_UNIT_IMPORT_CHECKPOINT_MODELFOLDER_H
#define MPC_TEST_UNIT_IMPORT_CHECKPOINT_MODELFOLDER_H

#include "../../TemporaryModel.h"

#include <cstring>
#include <string>

namespace mpc {

/// Bytes of a safetensors file.
inline std::string safetensors(const std::string &header,
                               const std::string &data = "") {
  std::string bytes(8, '\0');
  uint64_t size = header.size();
  std::memcpy(bytes.data(), &size, sizeof(size));
  return bytes + header + data;
}

/// Header entry of a tensor.
inline std::string entry(const std::string &name, const std::string &dtype,
                         const std::string &shape, size_t begin, size_t end) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":[" + std::to_string(begin) + "," +
         std::to_string(end) + "]}";
}

} // namespace mpc

#endif // MPC_TEST_UNIT_IMPORT_CHECKPOINT_MODELFOLDER_H
