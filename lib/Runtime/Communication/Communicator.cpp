//===- Communicator.cpp - the ranks that train together -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Runtime/Communicator.h"

#include "Words.h"

#include <unistd.h>

#include <cstdio>

using namespace mpc;

Communicator::~Communicator() = default;

void detail::printLine(const std::string &text) {
  std::string line = text + "\n";
  // One call, so that lines of several ranks do not mix; nothing buffered,
  // since the process may be about to end.
  const char *from = line.data();
  for (size_t left = line.size(); left > 0;) {
    ssize_t written = ::write(STDERR_FILENO, from, left);
    if (written <= 0)
      return;
    from += written;
    left -= size_t(written);
  }
}

std::string detail::rankName(int rank, int size) {
  return "rank " + std::to_string(rank) + " of " + std::to_string(size);
}

std::string detail::secondsText(double seconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g s", seconds);
  return text;
}
