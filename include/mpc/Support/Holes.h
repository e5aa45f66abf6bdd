//===- Holes.h - reading of sparse files ------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_SUPPORT_HOLES_H
#define MPC_SUPPORT_HOLES_H

#include <cerrno>
#include <cstdint>
#include <unistd.h>

namespace mpc {

/// Whether the `count` bytes from `first` on of an open file lie in a hole and
/// need not be read to be known as zeros. Moves the descriptor's position.
inline bool isHole(int descriptor, int64_t first, int64_t count) {
  off_t data = ::lseek(descriptor, first, SEEK_DATA);
  return data < 0 ? errno == ENXIO : data - first >= count;
}

} // namespace mpc

#endif // MPC_SUPPORT_HOLES_H
