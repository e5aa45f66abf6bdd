//===- Case.h - one graph and how it is compiled ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A case is decided by its seed and the plan alone. As a file it is the graph's
// text under comment lines, the first of which holds the rest as JSON.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_SMITH_CASE_H
#define MPC_TOOLS_SMITH_CASE_H

#include "Drawer.h"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

namespace mpc::smith {

using Json = nlohmann::ordered_json;

enum class Kind {
  /// The model on the CPU, at every level.
  Cpu,
  /// Kernels for a GPU, run on the host.
  CudaHost,
  /// A part of a training step, on the CPU or (a few) as kernels for a GPU.
  Training,
  /// Arithmetic whose bits are promised.
  Exact,
};

const char *kindName(Kind kind);

/// What share of cases is what, in percent; the rest runs on the CPU.
struct Plan {
  int cudaHost = 15, training = 20, exact = 10;
  /// Most ops of a graph.
  int ops = 60;
};

struct Setting {
  std::string policy = "float32";
  /// The text of a policy that was drawn; `policy` then names no file yet.
  std::string policyText;
  std::vector<std::string> sets;
  /// Empty: the CPU. Else "cuda:sm_80": kernels for that, on the host.
  std::string target;
  std::string training;
  std::string rounding = "strict";
  std::string castPlacement = "mincut";
  std::string gemm = "own";
  uint64_t inputSeed = 0;
  /// Judge each op as well; compile twice and compare the bytes.
  bool perOp = false, twice = false;
};

struct Case {
  uint64_t seed = 0;
  Kind kind = Kind::Cpu;
  std::string text;
  Setting setting;
};

Case drawCase(uint64_t seed, const Plan &plan);

/// The case as a file, with more comment lines behind the first.
std::string toFile(const Case &drawn, const std::vector<std::string> &comments);
/// Reads what toFile() wrote, also where the graph has been reduced; nothing
/// where the first line is no case.
std::optional<Case> fromFile(const std::string &text);

/// The command that judges the file `path` as the first step of a case does.
std::string checkCommandLine(const Case &drawn, const std::string &path,
                             const std::string &policyPath);

} // namespace mpc::smith

#endif // MPC_TOOLS_SMITH_CASE_H
