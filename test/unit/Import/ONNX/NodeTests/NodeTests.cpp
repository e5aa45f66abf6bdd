//===- NodeTests.cpp - ONNX's node tests ----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// mpc-onnx-node-tests DATA --refused FILE [--target interpreter|cpu]
//                     [--filter TEXT] [--verbose] [--update] [--page PAGE]
//
// Runs every test folder of DATA in a process of its own, so that a crash is
// one test's outcome. FILE lists the tests that the importer refuses, a name
// and the reason per line. A refusal that is not listed or has another reason,
// a listed test that passes and anything wrong make the program fail. --update
// rewrites FILE, --page the table in a page of documentation.
//
//===----------------------------------------------------------------------===//

#include "NodeCase.h"
#include "Page.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include <sys/wait.h>
#include <unistd.h>

using namespace mpc::nodetests;

namespace {

struct Options {
  std::string data, refused, faulty, filter, page;
  bool cpu = false, verbose = false, update = false;
};

} // namespace

static std::optional<Options> parseOptions(int argc, char **argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    auto value = [&]() -> std::string { return i + 1 < argc ? argv[++i] : ""; };
    if (argument == "--refused")
      options.refused = value();
    else if (argument == "--faulty")
      options.faulty = value();
    else if (argument == "--filter")
      options.filter = value();
    else if (argument == "--page")
      options.page = value();
    else if (argument == "--target")
      options.cpu = value() == "cpu";
    else if (argument == "--verbose")
      options.verbose = true;
    else if (argument == "--update")
      options.update = true;
    else if (options.data.empty() && argument[0] != '-')
      options.data = argument;
    else
      return std::nullopt;
  }
  if (options.data.empty() || options.refused.empty())
    return std::nullopt;
  return options;
}

/// Seconds after which a test counts as hanging.
static constexpr unsigned kSecondsPerTest = 120;

/// The body of a test's process: a line of flags, then the message.
static std::string describeCase(const std::string &folder, bool cpu) {
  std::unique_ptr<Runner> runner = createInterpreterRunner();
#ifdef MPC_NODE_TESTS_CPU
  if (cpu)
    runner = createCpuRunner();
#endif
  if (!runner)
    return "w-\nthe CPU target cannot run here";
  Report report = runCase(folder, *runner);
  std::string text(1, report.outcome == Outcome::Passed    ? 'p'
                      : report.outcome == Outcome::Refused ? 'r'
                                                           : 'w');
  text += report.fixedInputs ? 'f' : '-';
  return text + "\n" + report.message;
}

/// Runs a test in a child process.
static Report runIsolated(const std::string &folder, bool cpu) {
  Report report;
  int ends[2];
  if (pipe(ends) != 0) {
    report.message = "no pipe";
    return report;
  }
  llvm::outs().flush();
  pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    alarm(kSecondsPerTest);
    std::string text = describeCase(folder, cpu);
    ssize_t written = write(ends[1], text.data(), text.size());
    _exit(written == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string text;
  char block[4096];
  while (ssize_t count = read(ends[0], block, sizeof(block))) {
    if (count < 0)
      break;
    text.append(block, count);
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) {
    report.message = std::string("crashed: ") + strsignal(WTERMSIG(status));
    return report;
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || text.size() < 3) {
    report.message = "ended without a report";
    return report;
  }
  report.outcome = text[0] == 'p'   ? Outcome::Passed
                   : text[0] == 'r' ? Outcome::Refused
                                    : Outcome::Wrong;
  report.fixedInputs = text[1] == 'f';
  report.message = text.substr(3);
  return report;
}

//===----------------------------------------------------------------------===//
// The list of refusals
//===----------------------------------------------------------------------===//

/// Map of names to reasons; lines that start with '#' are comments.
static std::map<std::string, std::string> readList(const std::string &path) {
  std::map<std::string, std::string> list;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#')
      continue;
    size_t colon = line.find(": ");
    list[line.substr(0, colon)] =
        colon == std::string::npos ? "" : line.substr(colon + 2);
  }
  return list;
}

static void writeList(const std::string &path,
                      const std::map<std::string, std::string> &list) {
  std::ofstream file(path);
  file
      << "# ONNX node tests that the importer refuses, and why. This list only "
         "shrinks:\n"
         "# mpc-onnx-node-tests fails where a listed test passes or an "
         "unlisted "
         "one does not.\n";
  for (const auto &[name, reason] : list)
    file << name << ": " << reason << "\n";
}

int main(int argc, char **argv) {
  std::optional<Options> options = parseOptions(argc, argv);
  if (!options) {
    llvm::errs()
        << "usage: mpc-onnx-node-tests DATA --refused FILE [--faulty "
           "FILE] [--target interpreter|cpu] [--filter TEXT] [--verbose] "
           "[--update] [--page PAGE]\n";
    return 2;
  }
#ifndef MPC_NODE_TESTS_CPU
  if (options->cpu) {
    llvm::errs() << "this build has no CPU target\n";
    return 2;
  }
#endif
  std::vector<std::filesystem::path> folders;
  std::error_code error;
  for (const auto &entry :
       std::filesystem::directory_iterator(options->data, error))
    if (std::filesystem::exists(entry.path() / "model.onnx") &&
        entry.path().filename().string().find(options->filter) !=
            std::string::npos)
      folders.push_back(entry.path());
  if (folders.empty()) {
    llvm::errs() << "no test below " << options->data << "\n";
    return 2;
  }
  std::sort(folders.begin(), folders.end());

  std::map<std::string, std::string> listed = readList(options->refused);
  std::map<std::string, std::string> faulty = readList(options->faulty);
  std::map<std::string, std::string> refused;
  int64_t passed = 0, fixed = 0, contradicted = 0, faults = 0;
  for (const std::filesystem::path &folder : folders) {
    std::string name = folder.filename();
    Report report = runIsolated(folder, options->cpu);
    auto fault = [&](const std::string &text) {
      ++faults;
      llvm::outs() << "FAIL " << name << ": " << text << "\n";
    };
    switch (report.outcome) {
    case Outcome::Passed:
      ++passed;
      fixed += report.fixedInputs;
      if (listed.count(name) && !options->update)
        fault("passes but is in the list of refusals; remove it there");
      else if (faulty.count(name))
        fault("passes but is in the list of faulty data; remove it there");
      else if (options->verbose)
        llvm::outs() << "pass " << name << "\n";
      break;
    case Outcome::Refused:
      refused[name] = report.message;
      if (options->update)
        break;
      if (auto line = listed.find(name); line == listed.end())
        fault("is refused: " + report.message);
      else if (line->second != report.message)
        fault("is refused for another reason than the list has: " +
              report.message);
      else if (options->verbose)
        llvm::outs() << "refused " << name << ": " << report.message << "\n";
      break;
    case Outcome::Wrong:
      if (faulty.count(name))
        ++contradicted;
      else
        fault(report.message);
      break;
    }
  }
  if (options->update)
    writeList(options->refused, refused);
  if (!options->page.empty()) {
    std::vector<PageEntry> entries;
    std::vector<std::string> paths(folders.begin(), folders.end());
    for (const auto &[name, op] : operatorsOf(paths)) {
      std::string reason = refused.count(name)  ? refused[name]
                           : faulty.count(name) ? faulty[name]
                                                : "";
      entries.push_back({name, op, reason});
    }
    if (!writePage(options->page, entries)) {
      llvm::errs() << "cannot write the table into " << options->page << "\n";
      return 2;
    }
  }
  llvm::outs() << folders.size() << " tests: " << passed << " passed (" << fixed
               << " with inputs fixed at import), " << refused.size()
               << " refused, " << contradicted << " with faulty data";
  llvm::outs() << ", " << faults << " faults\n";
  return faults == 0 ? 0 : 1;
}
