//===- Worker.h - cases in processes of their own ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_SMITH_WORKER_H
#define MPC_TOOLS_SMITH_WORKER_H

#include "Judge.h"

#include <sys/types.h>

namespace mpc::smith {

struct Limits {
  /// Of one case, in seconds: what it computes, and what passes on the clock,
  /// which the machine's other work makes long.
  int cpuSeconds = 60, wallSeconds = 300;
  /// Of address space, in bytes; 0 for none (sanitizers reserve terabytes).
  int64_t memory = int64_t(8) << 30;
};

/// How a case ended.
struct Outcome {
  std::vector<Finding> findings;
  double seconds = 0;
  bool failed() const { return !findings.empty(); }
};

/// One case in a child process. The parent must have no threads.
class Worker {
public:
  Worker() = default;
  Worker(const Worker &) = delete;
  Worker(Worker &&other) noexcept { *this = std::move(other); }
  Worker &operator=(Worker &&other) noexcept;
  ~Worker();

  /// Starts judging `drawn`; files go to a folder under `scratch`.
  void start(Case drawn, const std::string &scratch, const Limits &limits);
  bool busy() const { return process > 0; }
  const Case &current() const { return drawn; }
  /// Whether the case has ended, by itself or by its limits. With `wait` it
  /// has.
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

/// Runs one case to its end in a child process.
Outcome judgeApart(const Case &drawn, const std::string &scratch,
                   const Limits &limits);

/// Seconds on a clock that only goes on.
double now();

} // namespace mpc::smith

#endif // MPC_TOOLS_SMITH_WORKER_H
