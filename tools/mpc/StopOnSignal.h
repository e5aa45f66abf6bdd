//===- StopOnSignal.h - interrupts that end long work well ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_STOPONSIGNAL_H
#define MPC_TOOLS_MPC_STOPONSIGNAL_H

#include <csignal>
#include <string>

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

/// A file that goes with this, or with the process where a signal ends it. One
/// at a time.
class TemporaryFile {
public:
  explicit TemporaryFile(std::string path);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile &) = delete;
  TemporaryFile &operator=(const TemporaryFile &) = delete;

  const std::string &path() const { return file; }

private:
  std::string file;
  struct sigaction oldInterrupt{}, oldTerminate{};
};

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_STOPONSIGNAL_H
