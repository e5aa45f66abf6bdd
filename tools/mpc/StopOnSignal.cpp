//===- StopOnSignal.cpp - interrupts that end long work well --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StopOnSignal.h"

#include <utility>

using namespace mpc::tool;

static volatile std::sig_atomic_t stopAsked = 0;

StopOnSignal::StopOnSignal() {
  stopAsked = 0;
  for (auto [signal, old] :
       {std::pair{SIGINT, &oldInterrupt}, std::pair{SIGTERM, &oldTerminate}}) {
    struct sigaction action{};
    action.sa_handler = [](int) { stopAsked = 1; };
    action.sa_flags = SA_RESETHAND;
    ::sigaction(signal, &action, old);
  }
}

StopOnSignal::~StopOnSignal() {
  ::sigaction(SIGINT, &oldInterrupt, nullptr);
  ::sigaction(SIGTERM, &oldTerminate, nullptr);
}

bool StopOnSignal::isAsked() { return stopAsked != 0; }
