//===- StopOnSignal.h - graceful shutdown on signals ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_STOPONSIGNAL_H
#define MPC_TOOLS_MPC_STOPONSIGNAL_H

#include <csignal>
#include <string>

namespace mpc::tool {

/// During its lifetime, SIGINT or SIGTERM requests that the work ends with its
/// result so far; a second one ends the process at once. One instance at a
/// time.
class StopOnSignal {
public:
  StopOnSignal();
  ~StopOnSignal();
  StopOnSignal(const StopOnSignal &) = delete;
  StopOnSignal &operator=(const StopOnSignal &) = delete;

  /// Returns the received signal; 0 if there is none.
  static int received();
  static bool isAsked() { return received() != 0; }

private:
  struct sigaction oldInterrupt{}, oldTerminate{};
};

/// RAII: a file deleted by the destructor, or when a signal ends the process.
/// One instance at a time.
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
