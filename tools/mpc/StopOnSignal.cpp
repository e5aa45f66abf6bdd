//===- StopOnSignal.cpp - graceful shutdown on signals --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StopOnSignal.h"

#include <atomic>
#include <unistd.h>
#include <utility>

using namespace mpc::tool;

static volatile std::sig_atomic_t stopAsked = 0;
/// Path of the file to delete on exit.
static std::atomic<const char *> doomed = nullptr;
static_assert(std::atomic<const char *>::is_always_lock_free,
              "handlers of signals may read it");

/// Ends the process by the signal's default action.
static void end(int signal) {
  if (const char *path = doomed.exchange(nullptr))
    ::unlink(path);
  std::signal(signal, SIG_DFL);
  // Blocked until the handler returns.
  std::raise(signal);
}

static void stop(int signal) {
  if (stopAsked)
    end(signal);
  stopAsked = signal;
}

StopOnSignal::StopOnSignal() {
  stopAsked = 0;
  for (auto [signal, old] :
       {std::pair{SIGINT, &oldInterrupt}, std::pair{SIGTERM, &oldTerminate}}) {
    struct sigaction action{};
    action.sa_handler = stop;
    ::sigaction(signal, &action, old);
  }
}

StopOnSignal::~StopOnSignal() {
  ::sigaction(SIGINT, &oldInterrupt, nullptr);
  ::sigaction(SIGTERM, &oldTerminate, nullptr);
}

int StopOnSignal::received() { return stopAsked; }

TemporaryFile::TemporaryFile(std::string path) : file(std::move(path)) {
  doomed = file.c_str();
  for (auto [signal, old] :
       {std::pair{SIGINT, &oldInterrupt}, std::pair{SIGTERM, &oldTerminate}}) {
    ::sigaction(signal, nullptr, old);
    // A custom handler ends the process itself, or through end().
    if (old->sa_handler != SIG_DFL)
      continue;
    struct sigaction action{};
    action.sa_handler = end;
    ::sigaction(signal, &action, nullptr);
  }
}

TemporaryFile::~TemporaryFile() {
  doomed = nullptr;
  ::unlink(file.c_str());
  for (auto [signal, old] :
       {std::pair{SIGINT, &oldInterrupt}, std::pair{SIGTERM, &oldTerminate}})
    if (old->sa_handler == SIG_DFL)
      ::sigaction(signal, old, nullptr);
}
