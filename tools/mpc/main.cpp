//===- main.cpp - the driver ----------------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Declares the sub-commands' flags and dispatches. Exit codes: 0 done, 1 bad
// input, 2 bad usage, 3 internal error, 4 a check did not hold.
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "CrashHandler.h"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <functional>
#include <new>

using namespace mpc::tool;

namespace {

/// All sub-commands' arguments and the one that was chosen.
struct Driver {
  CommonOptions passes;
  RunArguments run;
  CheckArguments check;
  ExplainArguments explain;
  LintArguments lint;
  BenchArguments bench;
  DevicesArguments devices;
  DumpArguments dump;
  std::function<int()> chosen;

  void declare(CLI::App &app);
};

} // namespace

void Driver::declare(CLI::App &app) {
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "print the help of every sub-command");

  CLI::App *command =
      app.add_subcommand("run", "run a model once on given data");
  addOutputOptions(*command, run.common);
  addModelOptions(*command, run.common);
  command
      ->add_option("--input,--inputs", run.inputs, "FILE.npz or NAME=FILE.npy")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  command->add_option("--output", run.output,
                      "FILE.npz (or .npy for one output) to write");
  command->callback([this] { chosen = [this] { return runCommand(run); }; });

  command = app.add_subcommand(
      "check", "compare the compiled model with the float64 oracle");
  addOutputOptions(*command, check.common);
  addModelOptions(*command, check.common);
  command
      ->add_option("--input,--inputs", check.inputs,
                   "FILE.npz or NAME=FILE.npy (default: drawn by --seed)")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  command->add_option("--expected", check.expected,
                      "FILE.npz to compare the outputs with as well");
  command->add_flag("--per-op", check.perOp,
                    "judge every op in an instrumented compile");
  command->callback(
      [this] { chosen = [this] { return checkCommand(check); }; });

  command = app.add_subcommand("explain",
                               "say in which type each op computes, and why");
  addOutputOptions(*command, explain.common);
  addModelOptions(*command, explain.common);
  command->add_option("--why", explain.why,
                      "only the op, input or output of this name: why it has "
                      "its type, and what would change it");
  command->callback(
      [this] { chosen = [this] { return explainCommand(explain); }; });

  command = app.add_subcommand(
      "lint", "find what the policy's narrow types would break");
  addOutputOptions(*command, lint.common);
  addModelOptions(*command, lint.common);
  command->callback([this] { chosen = [this] { return lintCommand(lint); }; });

  command =
      app.add_subcommand("bench", "time a model, in total and per kernel");
  addOutputOptions(*command, bench.common);
  addModelOptions(*command, bench.common);
  command
      ->add_option("--input,--inputs", bench.inputs,
                   "FILE.npz or NAME=FILE.npy (default: drawn by --seed)")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  command
      ->add_option("--runs", bench.runs,
                   "runs to time (default: for one second)")
      ->check(CLI::Range(1, 1000000));
  command->callback(
      [this] { chosen = [this] { return benchCommand(bench); }; });

  command = app.add_subcommand(
      "devices", "list the devices of this machine and what they do fast");
  addOutputOptions(*command, devices.common);
  command->add_flag("--quick", devices.withoutCeilings,
                    "leave out the ceilings that are measured");
  command->callback(
      [this] { chosen = [this] { return devicesCommand(devices); }; });

  command = app.add_subcommand("dump", "print the IR after a stage");
  command->add_flag("--quiet", dump.common.quiet, "print no warnings");
  addModelOptions(*command, dump.common);
  command
      ->add_option("--after", dump.after,
                   "stage to stop after; `mpc passes` lists them")
      ->capture_default_str();
  command->callback([this] { chosen = [this] { return dumpCommand(dump); }; });

  command = app.add_subcommand("passes", "list the stages and their passes");
  addOutputOptions(*command, passes);
  command->callback(
      [this] { chosen = [this] { return passesCommand(passes); }; });
}

/// Ends with one line about `text` and, where the command line asks for JSON,
/// the same as a document.
static int failUsage(const std::string &text, bool json) {
  std::string line = text.substr(0, text.find('\n'));
  std::fprintf(stderr, "error: usage: %s\n", line.c_str());
  if (json) {
    Json errors = Json::array(
        {{{"code", "usage"}, {"where", "command line"}, {"text", line}}});
    std::fprintf(stdout, "%s\n",
                 Json{{"errors", errors}}
                     .dump(-1, ' ', false, Json::error_handler_t::replace)
                     .c_str());
  }
  return kBadUsage;
}

int main(int argc, char **argv) {
  std::vector<std::string> words(argv, argv + argc);
  installCrashHandler(words);
  bool json = std::find(words.begin(), words.end(), "--json") != words.end();

  CLI::App app("mpc: a mixed-precision graph compiler", "mpc");
  Driver driver;
  driver.declare(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == 0)
      return app.exit(error);
    return failUsage(error.what(), json);
  }
  try {
    return driver.chosen();
  } catch (const std::bad_alloc &) {
    Reporter reporter(json, /*quiet=*/false);
    return reporter.fail(
        mpc::Status(mpc::StatusCode::ResourceExhausted, "memory",
                    "there is not enough of it for this model"));
  }
}
