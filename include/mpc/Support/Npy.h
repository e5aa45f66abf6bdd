//===- Npy.h - NumPy's array files ------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads and writes .npy and .npz. Files are untrusted: sizes are checked
// against the file before memory is taken.
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

/// What the header of a .npy says.
struct NpyHeader {
  TensorType type;
  /// Elements are in column-major order.
  bool fortranOrder = false;
  /// Bytes before the elements.
  size_t dataOffset = 0;
};

/// Most bytes that a header may take.
inline constexpr size_t kMostNpyHeader = 65536;

/// Reads a header from the first bytes of a file (up to kMostNpyHeader, or all
/// of it). `<V2` is bf16. `where` names the file in errors.
Result<NpyHeader> parseNpyHeader(std::string_view prefix,
                                 const std::string &where);

/// The header that NumPy would write for `type`.
std::string makeNpyHeader(const TensorType &type);

/// No limit on the bytes of arrays that are read.
inline constexpr uint64_t kAnyBytes = std::numeric_limits<uint64_t>::max();

/// An array with its name.
struct NamedArray {
  std::string name;
  Buffer data;
  /// File (and entry) that it came from, for errors.
  std::string where;
};

/// Reads `path` as .npy. ResourceExhausted, before memory is taken, where its
/// elements have more than `mostBytes`.
Result<Buffer> readNpy(const std::string &path, uint64_t mostBytes = kAnyBytes);
/// Reads all arrays of `path`, a zip file of .npy entries. `mostBytes` as
/// above, for all of them together.
Result<std::vector<NamedArray>> readNpz(const std::string &path,
                                        uint64_t mostBytes = kAnyBytes);

/// Writes one array; the file appears by a rename.
Status writeNpy(const std::string &path, const Buffer &data);
/// Writes arrays as an uncompressed .npz, as numpy.savez does; the file appears
/// by a rename, so that a failure leaves nothing, or the old file.
Status writeNpz(const std::string &path, const std::vector<NamedArray> &arrays);

/// A source of bytes: fills `out` completely, or fails.
using ByteSource = std::function<Status(void *out, size_t bytes)>;

/// Reads an array of `totalBytes`, header included, from `source`. Exposed for
/// .npz entries and tests.
Result<Buffer> readNpyFrom(const ByteSource &source, uint64_t totalBytes,
                           const std::string &where,
                           uint64_t mostBytes = kAnyBytes);

} // namespace mpc

#endif // MPC_SUPPORT_NPY_H
