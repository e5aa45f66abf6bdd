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

/// Reads `count` bytes of an open file at offset `first`. Returns the number of
/// bytes read, fewer at the end of the file, or -1 with errno.
inline int64_t readAt(int descriptor, char *out, int64_t count, int64_t first) {
  int64_t done = 0;
  while (done < count) {
    ssize_t got =
        ::pread(descriptor, out + done, size_t(count - done), first + done);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return -1;
    if (got == 0)
      break;
    done += got;
  }
  return done;
}

} // namespace mpc

#endif // MPC_SUPPORT_HOLES_H
