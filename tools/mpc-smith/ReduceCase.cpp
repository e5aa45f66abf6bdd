//===- ReduceCase.cpp - Reducing failures ---------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Campaign.h"

#include "GraphReducer.h"

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

#include <cctype>

using namespace mpc;
using namespace mpc::smith;

/// A finding without the parts that depend on the graph: numbers, names, files.
static std::string kindOf(const Finding &finding) {
  std::string kind = finding.step + ": ";
  bool quoted = false;
  for (char c : finding.text) {
    quoted ^= c == '\'';
    if (!quoted && (std::isalpha(static_cast<unsigned char>(c)) || c == ' '))
      kind += c;
  }
  // Compiler diagnostics start with a file and a position.
  size_t error = kind.find("error ");
  return finding.text.find("error:") == std::string::npos
             ? kind
             : kind.substr(0, error == std::string::npos ? kind.size()
                                                         : error + 6);
}

Case smith::reduceCase(const Case &drawn, const Finding &finding,
                       const std::string &scratch, const Limits &limits,
                       int seconds) {
  double end = now() + seconds;
  auto goesOn = [&] { return now() < end; };
  std::string wanted = kindOf(finding);
  Case best = drawn;
  auto fails = [&](const Case &smaller) {
    if (!goesOn())
      return false;
    Outcome outcome = checkInChildProcess(smaller, scratch, limits);
    return outcome.failed() && kindOf(outcome.findings.front()) == wanted;
  };
  auto simplify = [&](auto &&change) {
    Case smaller = best;
    change(smaller.setting);
    if (fails(smaller))
      best = std::move(smaller);
  };
  simplify([](Setting &setting) {
    Setting plain;
    plain.target = setting.target;
    plain.training = setting.training;
    plain.inputSeed = setting.inputSeed;
    setting = std::move(plain);
  });
  simplify([](Setting &setting) {
    setting.rounding = "strict";
    setting.castPlacement = "mincut";
    setting.gemm = "own";
    setting.perOp = setting.twice = false;
  });
  while (!best.setting.sets.empty()) {
    size_t before = best.setting.sets.size();
    for (size_t i = before; i-- > 0;)
      simplify([&](Setting &setting) {
        setting.sets.erase(setting.sets.begin() + int64_t(i));
      });
    if (best.setting.sets.size() == before)
      break;
  }

  mlir::DialectRegistry registry;
  registry.insert<MpcDialect, mlir::func::FuncDialect>();
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::parseSourceString<mlir::ModuleOp>(best.text, &context);
  if (!module)
    return best;
  GraphReducer reducer(*module, [&](const std::string &text) {
    Case smaller = best;
    smaller.text = text;
    return fails(smaller);
  });
  std::string before = reducer.text();
  reducer.run(goesOn);
  if (reducer.text() != before)
    best.text = reducer.text();
  return best;
}
