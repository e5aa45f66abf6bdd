//===- TilePermission.h - leave to use AMX's tiles --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_RUNTIME_TILEPERMISSION_H
#define MPC_RUNTIME_TILEPERMISSION_H

#include <sys/syscall.h>
#include <unistd.h>

namespace mpc {

/// Asks Linux, once in a process, for the memory in which threads that are
/// interrupted keep AMX's tiles; false where it refuses. Without it a first
/// instruction on tiles is a fault.
inline bool permitTiles() {
  // ARCH_REQ_XCOMP_PERM for the state component XTILEDATA.
  static const bool isPermitted = syscall(SYS_arch_prctl, 0x1023, 18) == 0;
  return isPermitted;
}

} // namespace mpc

#endif // MPC_RUNTIME_TILEPERMISSION_H
