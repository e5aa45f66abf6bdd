//===- StopOnSignal.h - interrupts that end long work well ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_STOPONSIGNAL_H
#define MPC_TOOLS_MPC_STOPONSIGNAL_H

#include <csignal>

namespace mpc::tool {

/// While it lives, an interrupt or a termination asks the work to end with what
/// it has; a second one ends the process at once. One at a time.
class StopOnSignal {
public:
  StopOnSignal();
  ~StopOnSignal();
  StopOnSignal(const StopOnSignal &) = delete;
  StopOnSignal &operator=(const StopOnSignal &) = delete;

  /// Whether a signal came.
  static bool isAsked();

private:
  struct sigaction oldInterrupt{}, oldTerminate{};
};

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_STOPONSIGNAL_H
