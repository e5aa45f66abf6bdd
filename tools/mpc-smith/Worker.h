//===- Worker.h - Running cases in child processes --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_SMITH_WORKER_H
#define MPC_TOOLS_SMITH_WORKER_H

#include "CaseChecks.h"

#include <sys/types.h>

namespace mpc::smith {

struct Limits {
  /// Per case, in seconds: CPU time and wall-clock time, which is longer on a
  /// loaded machine.
  int cpuSeconds = 60, wallSeconds = 300;
  /// Address space in bytes; 0 for no limit (sanitizers reserve terabytes).
  int64_t memory = int64_t(8) << 30;
};

/// The outcome of a case.
struct Outcome {
  std::vector<Finding> findings;
  double seconds = 0;
  bool failed() const { return !findings.empty(); }
};

/// A case in a child process. The parent must be single-threaded.
class Worker {
public:
  Worker() = default;
  Worker(const Worker &) = delete;
  Worker(Worker &&other) noexcept { *this = std::move(other); }
  Worker &operator=(Worker &&other) noexcept;
  ~Worker();

  /// Starts checking `drawn`; uses a directory under `scratch`.
  void start(Case drawn, const std::string &scratch, const Limits &limits);
  bool busy() const { return process > 0; }
  const Case &current() const { return drawn; }
  /// Whether the case has ended, normally or by its limits. Blocks with `wait`.
  bool finished(bool wait, Outcome &outcome);

private:
  Outcome collect(int status);
  void removeFiles();

  Case drawn;
  Limits limits;
  std::string folder;
  pid_t process = 0;
  bool killed = false;
  double began = 0;
};

/// Runs one case to completion in a child process.
Outcome checkInChildProcess(const Case &drawn, const std::string &scratch,
                            const Limits &limits);

/// Seconds of a monotonic clock.
double now();

} // namespace mpc::smith

#endif // MPC_TOOLS_SMITH_WORKER_H
