//===- CrashHandler.cpp - crash handler with reproducer -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Async-signal-safe: in a crashed process it only writes prepared text, on an
// alternate stack.
//
//===----------------------------------------------------------------------===//

#include "CrashHandler.h"

#include "mpc/Support/EscapedText.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

using namespace mpc;

#ifndef __has_feature
#define __has_feature(x) 0
#endif

namespace {

/// Preallocated state of the handler.
struct CrashState {
  char commandLine[16384] = "";
  char stage[64] = "start";
  char path[64] = "";
};
CrashState state;

void put(int file, const char *text) {
  size_t left = std::strlen(text);
  while (left > 0) {
    ssize_t written = ::write(file, text, left);
    if (written <= 0)
      return;
    text += written;
    left -= size_t(written);
  }
}

bool writeScript(const char *why) {
  // O_EXCL: the temporary folder is shared, and another user's file must not be
  // executed as a reproducer.
  int file = ::open(state.path,
                    O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  for (char digit = '1'; file < 0 && errno == EEXIST && digit <= '9'; ++digit) {
    state.path[std::strlen(state.path) - std::strlen("0.sh")] = digit;
    file = ::open(state.path,
                  O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  }
  if (file < 0)
    return false;
  // bash, not sh: dash does not support $'...' quoting.
  put(file, "#!/usr/bin/env bash\n# mpc stopped by ");
  put(file, why);
  put(file, " in stage '");
  put(file, state.stage);
  put(file, "'. The command that did it:\n");
  put(file, state.commandLine);
  put(file,
      "\n# The IR before that stage: the same with `mpc dump MODEL ... --after "
      "STAGE` for the stage before it (`mpc passes` lists them).\n");
  ::close(file);
  return true;
}

const char *nameOf(int number) {
  switch (number) {
  case SIGSEGV:
    return "a bad memory access";
  case SIGABRT:
    return "an abort";
  case SIGBUS:
    return "a bus error";
  case SIGFPE:
    return "an arithmetic error";
  case SIGILL:
    return "an illegal instruction";
  default:
    return "a signal";
  }
}

void handle(int number) {
  bool wrote = writeScript(nameOf(number));
  put(STDERR_FILENO, "error: internal: stopped by ");
  put(STDERR_FILENO, nameOf(number));
  put(STDERR_FILENO, " in stage '");
  put(STDERR_FILENO, state.stage);
  put(STDERR_FILENO, "'\n");
  if (wrote) {
    put(STDERR_FILENO, "note: this is a bug of mpc; please report it with ");
    put(STDERR_FILENO, state.path);
    put(STDERR_FILENO, "\n");
  }
  ::_exit(3);
}

void copyText(char *to, size_t room, const std::string &text) {
  size_t size = std::min(text.size(), room - 1);
  std::memcpy(to, text.data(), size);
  to[size] = '\0';
}

} // namespace

void tool::installCrashHandler(const std::vector<std::string> &commandLine) {
  std::string line;
  for (const std::string &word : commandLine)
    line += (line.empty() ? "" : " ") + shellQuoted(word);
  copyText(state.commandLine, sizeof(state.commandLine), line);
  std::snprintf(state.path, sizeof(state.path), "%s/mpc-reproducer-%d-0.sh",
                P_tmpdir, int(::getpid()));

#if !defined(__SANITIZE_ADDRESS__) && !__has_feature(address_sanitizer)
  // A sanitizer's report is more useful than this handler's.
  static char stack[65536];
  stack_t alternative = {};
  alternative.ss_sp = stack;
  alternative.ss_size = sizeof(stack);
  ::sigaltstack(&alternative, nullptr);
  struct sigaction action = {};
  action.sa_handler = handle;
  action.sa_flags = SA_ONSTACK | int(SA_RESETHAND);
  for (int number : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL})
    ::sigaction(number, &action, nullptr);
#endif
}

void tool::noteStage(const std::string &stage) {
  copyText(state.stage, sizeof(state.stage), stage);
}

std::string tool::writeReproducer(const char *why) {
  return writeScript(why) ? state.path : "the command line";
}
