//===- Worker.cpp - Running cases in child processes ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The child writes the name of each step, then its findings, to a file; after a
// crash, the last entry is the step that crashed.
//
//===----------------------------------------------------------------------===//

#include "Worker.h"

#include "mpc/Support/EscapedText.h"

#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace mpc;
using namespace mpc::smith;
namespace fs = std::filesystem;

#ifndef __has_feature
#define __has_feature(x) 0
#endif

#if __has_feature(address_sanitizer)
extern "C" int __lsan_do_recoverable_leak_check();
#endif

double smith::now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

//===----------------------------------------------------------------------===//
// Child
//===----------------------------------------------------------------------===//

static void setLimits(const Limits &limits) {
  rlimit cpu = {rlim_t(limits.cpuSeconds), rlim_t(limits.cpuSeconds + 5)};
  setrlimit(RLIMIT_CPU, &cpu);
#if !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer)
  if (limits.memory > 0) {
    rlimit space = {rlim_t(limits.memory), rlim_t(limits.memory)};
    setrlimit(RLIMIT_AS, &space);
  }
#endif
  rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
}

[[noreturn]] static void runChild(const Case &drawn, const std::string &folder,
                                  const Limits &limits) {
  // A separate process group, so that compilers it starts are killed with it.
  setpgid(0, 0);
  setLimits(limits);
  std::ofstream report(folder + "/report.txt", std::ios::binary);
  CheckContext context;
  context.folder = folder;
  context.onStep = [&](const std::string &step) {
    report << "step " << step << std::endl;
  };
  bool failed = false;
  for (const Finding &finding : judge(drawn, context)) {
    report << "finding " << jsonText(Json{finding.step, finding.text})
           << std::endl;
    failed = true;
  }
#if __has_feature(address_sanitizer)
  if (__lsan_do_recoverable_leak_check()) {
    report << "finding " << jsonText(Json{"end", "leaks memory"}) << std::endl;
    failed = true;
  }
#endif
  report.flush();
  _exit(failed ? 1 : 0);
}

//===----------------------------------------------------------------------===//
// Parent
//===----------------------------------------------------------------------===//

Worker &Worker::operator=(Worker &&other) noexcept {
  std::swap(drawn, other.drawn);
  std::swap(limits, other.limits);
  std::swap(folder, other.folder);
  std::swap(process, other.process);
  std::swap(killed, other.killed);
  std::swap(began, other.began);
  return *this;
}

Worker::~Worker() {
  if (busy()) {
    kill(-process, SIGKILL);
    waitpid(process, nullptr, 0);
    removeFiles();
  }
}

void Worker::start(Case next, const std::string &scratch, const Limits &given) {
  drawn = std::move(next);
  limits = given;
  killed = false;
  std::string pattern = scratch + "/case-XXXXXX";
  folder = mkdtemp(pattern.data()) ? pattern : scratch;
  began = now();
  std::fflush(nullptr);
  process = fork();
  if (process == 0)
    runChild(drawn, folder, limits);
}

void Worker::removeFiles() {
  std::error_code ignored;
  if (!folder.empty())
    fs::remove_all(folder, ignored);
}

Outcome Worker::collect(int status) {
  Outcome outcome;
  outcome.seconds = now() - began;
  std::string step = "start", line;
  std::ifstream report(folder + "/report.txt", std::ios::binary);
  while (std::getline(report, line)) {
    if (line.rfind("step ", 0) == 0)
      step = line.substr(5);
    if (line.rfind("finding ", 0) == 0) {
      Json pair = Json::parse(line.substr(8), nullptr, false);
      if (pair.is_array() && pair.size() == 2)
        outcome.findings.push_back({pair[0], pair[1]});
    }
  }
  if (killed)
    outcome.findings.push_back(
        {step,
         "does not end within " + std::to_string(limits.wallSeconds) + " s"});
  else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)
    outcome.findings.push_back({step, "does not end within " +
                                          std::to_string(limits.cpuSeconds) +
                                          " s of computing"});
  else if (WIFSIGNALED(status))
    outcome.findings.push_back(
        {step, std::string("stops by signal: ") + strsignal(WTERMSIG(status))});
  else if (WEXITSTATUS(status) != 0 && outcome.findings.empty()) {
    std::ifstream errors(folder + "/errors.txt");
    std::string text;
    std::getline(errors, text);
    outcome.findings.push_back({step, "ends with " +
                                          std::to_string(WEXITSTATUS(status)) +
                                          (text.empty() ? "" : ": " + text)});
  }
  removeFiles();
  process = 0;
  return outcome;
}

bool Worker::finished(bool wait, Outcome &outcome) {
  while (busy()) {
    int status = 0;
    if (waitpid(process, &status, WNOHANG) == process) {
      // Processes that the child started and left running.
      kill(-process, SIGKILL);
      outcome = collect(status);
      return true;
    }
    if (now() - began > limits.wallSeconds && !killed) {
      killed = true;
      kill(-process, SIGKILL);
    }
    if (!wait)
      return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

Outcome smith::checkInChildProcess(const Case &drawn,
                                   const std::string &scratch,
                                   const Limits &limits) {
  Worker worker;
  Outcome outcome;
  worker.start(drawn, scratch, limits);
  worker.finished(/*wait=*/true, outcome);
  return outcome;
}
