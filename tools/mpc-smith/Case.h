//===- Case.h - Test cases: graph and compile options -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A case is a function of its seed and the plan. Its file is the graph's text
// after comment lines, the first of which holds the rest as JSON.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_SMITH_CASE_H
#define MPC_TOOLS_SMITH_CASE_H

#include "GraphGenerator.h"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

namespace mpc::smith {

using Json = nlohmann::ordered_json;

enum class Kind {
  /// The model on every ISA level of the CPU.
  Cpu,
  /// Kernels for a GPU, run on the host.
  CudaHost,
  /// A part of a training step, on the CPU or (rarely) as GPU kernels.
  Training,
  /// Arithmetic with bit-exact results.
  Exact,
};

const char *kindName(Kind kind);

/// Percentages of the kinds of cases; the rest runs on the CPU.
struct Plan {
  int cudaHost = 15, training = 20, exact = 10;
  /// Maximum number of ops per graph.
  int ops = 60;
};

struct Setting {
  std::string policy = "float32";
  /// The text of a generated policy; `policy` is then not yet a file name.
  std::string policyText;
  std::vector<std::string> sets;
  /// Empty for the CPU, or "cuda:sm_80": its kernels, run on the host.
  std::string target;
  std::string training;
  std::string rounding = "strict";
  std::string castPlacement = "mincut";
  std::string gemm = "own";
  uint64_t inputSeed = 0;
  /// Check each op as well; compile twice and compare the bytes.
  bool perOp = false, twice = false;
};

struct Case {
  uint64_t seed = 0;
  Kind kind = Kind::Cpu;
  std::string text;
  Setting setting;
};

Case drawCase(uint64_t seed, const Plan &plan);

/// The case as a file, with further comment lines after the first.
std::string toFile(const Case &drawn, const std::vector<std::string> &comments);
/// Parses the output of toFile(), also after reduction; nullopt if the first
/// line is not a case.
std::optional<Case> fromFile(const std::string &text);

/// The command that repeats the first check of a case on the file `path`.
std::string checkCommandLine(const Case &drawn, const std::string &path,
                             const std::string &policyPath);

} // namespace mpc::smith

#endif // MPC_TOOLS_SMITH_CASE_H
