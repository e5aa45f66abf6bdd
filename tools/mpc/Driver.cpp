//===- Driver.cpp - flags of mpc run and mpc bench ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RunCommands.h"

#include <CLI/CLI.hpp>

using namespace mpc::tool;

void Driver::declareRun(CLI::App &app) {
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
}

void Driver::declareBench(CLI::App &app) {
  CLI::App *command =
      app.add_subcommand("bench", "time a model, in total and per kernel");
  addOutputOptions(*command, bench.common);
  addModelOptions(*command, bench.common);
  command
      ->add_option(
          "--input,--inputs", bench.inputs,
          "FILE.npz or NAME=FILE.npy (default: random values, see --seed)")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  command
      ->add_option("--runs", bench.runs,
                   "runs to time (default: for one second)")
      ->check(CLI::Range(1, 1000000));
  command->add_option("--html", bench.html,
                      "FILE that receives the report as an HTML page: the "
                      "graph, drawn by Graphviz, with the time of each kernel");
  command->callback(
      [this] { chosen = [this] { return benchCommand(bench); }; });
}
