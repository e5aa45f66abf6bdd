//===- TilePermission.h - permission to use AMX tiles -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_RUNTIME_TILEPERMISSION_H
#define MPC_RUNTIME_TILEPERMISSION_H

#include <sys/syscall.h>
#include <unistd.h>

namespace mpc {

/// Requests permission to use AMX tile data from Linux, once per process; false
/// if denied. Without it the first tile instruction faults.
inline bool permitTiles() {
  // ARCH_REQ_XCOMP_PERM for the state component XTILEDATA.
  static const bool isPermitted = syscall(SYS_arch_prctl, 0x1023, 18) == 0;
  return isPermitted;
}

} // namespace mpc

#endif // MPC_RUNTIME_TILEPERMISSION_H
