//===- main.cpp - command-line driver -------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parses the flags and dispatches. Exit codes: 0 done, 1 bad input, 2 bad
// usage, 3 internal error, 4 a check did not hold.
//
//===----------------------------------------------------------------------===//

#include "CrashHandler.h"
#include "HelpFormatter.h"
#include "RunCommands.h"

#include "mpc/Support/EscapedText.h"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <new>

using namespace mpc::tool;

/// Prints one line about `line` and, if the command line has --json, the same
/// as a document.
static int failUsage(const std::string &line, bool json) {
  std::fprintf(stderr, "error: usage: %s\n", mpc::printable(line).c_str());
  if (json) {
    Json errors = Json::array(
        {{{"code", "usage"}, {"where", "command line"}, {"text", line}}});
    std::fprintf(stdout, "%s\n",
                 mpc::jsonText(Json{{"errors", errors}}).c_str());
  }
  return kBadUsage;
}

/// Returns the exit code after help was printed.
static int finishOutput() {
  if (std::cout.flush())
    return kDone;
  std::fputs("error: standard output: cannot be written\n", stderr);
  return kBadInput;
}

int main(int argc, char **argv) {
  std::vector<std::string> words(argv, argv + argc);
  installCrashHandler(words);
  bool json = std::find(words.begin(), words.end(), "--json") != words.end();

  std::unique_ptr<Driver> driver = makeDriver();
  CLI::App app("a mixed-precision graph compiler", "mpc");
  app.formatter(std::make_shared<HelpFormatter>());
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "describe every flag in full");
  app.set_version_flag("-V,--version", driver->version());
  app.footer("mpc explain model.onnx --policy mixed_bfloat16\n"
             "mpc check model.onnx --policy mixed_bfloat16 --shape x=1x512");
  driver->declare(app);
  if (argc < 2) {
    std::cout << app.help();
    return finishOutput();
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == 0) {
      app.exit(error);
      return finishOutput();
    }
    std::string line = explainUsage(app, words, error);
    if (std::optional<int> code =
            driver->refuse(words, mpc::Status(mpc::StatusCode::InvalidArgument,
                                              "usage", line)))
      return *code;
    return failUsage(line, json);
  }
  try {
    return driver->chosen();
  } catch (const std::bad_alloc &) {
    Reporter reporter(json, /*quiet=*/false);
    return reporter.fail(
        mpc::Status(mpc::StatusCode::ResourceExhausted, "memory",
                    "there is not enough memory for this model"));
  }
}
