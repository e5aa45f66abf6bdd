//===- Npy.h - NumPy array files --------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads and writes .npy and .npz. Files are untrusted: sizes are checked
// against the file before allocation.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_SUPPORT_NPY_H
#define MPC_SUPPORT_NPY_H

#include "mpc/Runtime/Buffer.h"

#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace mpc {

/// Contents of a .npy header.
struct NpyHeader {
  TensorType type;
  /// True if elements are in column-major order.
  bool fortranOrder = false;
  /// Offset of the elements, in bytes.
  size_t dataOffset = 0;
};

/// Maximum size of a header, in bytes.
inline constexpr size_t kMostNpyHeader = 65536;

/// Parses a header from the first bytes of a file (up to kMostNpyHeader, or all
/// of it). `<V2` is bf16. `where` names the file in errors.
Result<NpyHeader> parseNpyHeader(std::string_view prefix,
                                 const std::string &where);

/// Returns the header that NumPy would write for `type`.
std::string makeNpyHeader(const TensorType &type);

/// No size limit.
inline constexpr uint64_t kAnyBytes = std::numeric_limits<uint64_t>::max();

/// A named array.
struct NamedArray {
  std::string name;
  Buffer data;
  /// File (and entry) of origin, for errors.
  std::string where;
};

/// Reads `path` as .npy. Returns ResourceExhausted, before allocation, if its
/// elements have more than `mostBytes`.
Result<Buffer> readNpy(const std::string &path, uint64_t mostBytes = kAnyBytes);
/// Reads all arrays of `path`, a zip file of .npy entries. `mostBytes` limits
/// their total size.
Result<std::vector<NamedArray>> readNpz(const std::string &path,
                                        uint64_t mostBytes = kAnyBytes);

/// Writes one array atomically.
Status writeNpy(const std::string &path, const Buffer &data);
/// Writes arrays atomically as an uncompressed .npz, like numpy.savez.
Status writeNpz(const std::string &path, const std::vector<NamedArray> &arrays);

/// A byte source: fills `out` completely, or fails.
using ByteSource = std::function<Status(void *out, size_t bytes)>;

/// Reads an array of `totalBytes`, including the header, from `source`. Exposed
/// for .npz entries and tests.
Result<Buffer> readNpyFrom(const ByteSource &source, uint64_t totalBytes,
                           const std::string &where,
                           uint64_t mostBytes = kAnyBytes);

} // namespace mpc

#endif // MPC_SUPPORT_NPY_H
