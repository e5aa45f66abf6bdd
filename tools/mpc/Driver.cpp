//===- Driver.cpp - commands of every build -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HelpFormatter.h"
#include "RunCommands.h"

using namespace mpc;
using namespace mpc::tool;

CLI::App &Driver::addCommand(CLI::App &app, const char *group, const char *name,
                             const char *summary, CommonOptions &common,
                             std::function<int()> run, const char *examples) {
  CLI::App *command = app.add_subcommand(name, summary)->group(group);
  command->footer(examples);
  addOutputOptions(*command, common);
  command->callback([this, run] { chosen = run; });
  return *command;
}

void Driver::declareRun(CLI::App &app) {
  CLI::App &command = addCommand(
      app, kModelCommands, "run", "run a model once on given data", run.common,
      [this] { return runCommand(run); },
      "mpc run model.onnx --input x.npz --output y.npz\n"
      "mpc run model.mpcx --input x=x.npy --device cuda");
  addInputOption(command, run.common,
                 "input arrays, FILE.npz or NAME=FILE.npy. Repeatable");
  addModelOptions(command, run.common);
  command.get_option("MODEL")->description(kAnyModel);
  command
      .add_option("--output", run.output,
                  "file to write: FILE.npz, or .npy for one output")
      ->check(notEmpty())
      ->option_text("FILE")
      ->group(kOutputGroup);
  command
      .add_flag("--digest", run.digest,
                "print the SHA-256 of each output and the bit class. Inputs "
                "are random unless given, see --seed")
      ->group(kOutputGroup);
}

void Driver::declareBench(CLI::App &app) {
  CLI::App &command = addCommand(
      app, kModelCommands, "bench", "time a model, in total and per kernel",
      bench.common, [this] { return benchCommand(bench); },
      "mpc bench model.onnx --policy mixed_bfloat16 --threads 8\n"
      "mpc bench model.mpcx --device cuda --html bench.html");
  addInputOption(command, bench.common);
  addModelOptions(command, bench.common);
  command.get_option("MODEL")->description(kAnyModel);
  command
      .add_option("--runs", bench.runs,
                  "runs to time (default: for one second)")
      ->check(CLI::Range(1, 1000000));
  command
      .add_option("--html", bench.html,
                  "report to write, as an HTML page. The graph, drawn by "
                  "Graphviz, with the time of each kernel")
      ->option_text("FILE")
      ->group(kOutputGroup);
}

int Driver::printText(const std::string &key, const std::string &text) const {
  Reporter reporter(own.json, own.quiet);
  reporter.lines(text);
  reporter.document({{key, text}});
  return reporter.finish(kDone);
}

void Driver::declareOwn(CLI::App &app) {
  CLI::App *command = &addCommand(
      app, kProgramCommands, "cache",
      "show where compiled programs are cached, and how much", cache.common,
      [this] { return cacheCommand(cache); }, "mpc cache\nmpc cache --clear");
  command->add_flag("--clear", cache.clears, "delete the cached programs");
  command = &addCommand(
      app, kProgramCommands, "completion", "print a shell's completion script",
      own,
      [this, &app] {
        std::string text = completionScript(app, shell, policies());
        return printText("script", text.substr(0, text.size() - 1));
      },
      "source <(mpc completion bash)\n"
      "mpc completion fish > ~/.config/fish/completions/mpc.fish");
  command->add_option("SHELL", shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command = &addCommand(
      app, kProgramCommands, "man", "print a man page", own,
      [this, &app] {
        const CLI::App *about = page.empty() ? &app : nullptr;
        for (const CLI::App *known : app.get_subcommands(nullptr))
          if (known->get_name() == page)
            about = known;
        if (!about)
          return Reporter(own.json, own.quiet)
              .fail(Status(StatusCode::InvalidArgument, "mpc man " + page,
                           "is not a command; mpc --help lists them"));
        std::string text = manPage(*about, version());
        return printText("page", text.substr(0, text.size() - 1));
      },
      "mpc man check | man -l -\nmpc man > mpc.1");
  command->add_option("COMMAND", page, "command; none: mpc itself");
}
