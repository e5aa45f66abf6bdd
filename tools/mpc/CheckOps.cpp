//===- CheckOps.cpp - op-by-op mpc check ----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds the op with the largest error, and the first with a non-finite result:
// both modes of the oracle and an instrumented program, matched by op number.
// Each op is compared with the same op in float64, so both modes run on the
// compiled graph, which `mpc check` compares with the imported one.
//
//===----------------------------------------------------------------------===//

#include "Checker.h"
#include "ErrorVerdict.h"

#include "mpc/Reference/TermMagnitudes.h"

#include <algorithm>

using namespace mpc;
using namespace mpc::tool;
using mpc::reference::OutputError;
using mpc::reference::Tensor;

Status ModelCheck::traceOps() {
  if (trace)
    return {};
  // The precision stage rewrites in place, so ops of the graph before it are
  // found by the numbers that they carry.
  Result<Compiler::Module> imported = compiler->import(arguments.common.model);
  if (!imported.ok())
    return imported.status();
  module = std::move(*imported);
  if (Status status = compiler->runStages(*module, "import", "simplify");
      !status.ok())
    return status;
  // Ops are compared with the weights they actually use.
  if (Status status = compiler->runStages(*module, "simplify", "weights");
      !status.ok())
    return status;
  numberOps(Compiler::entry(*module));
  trace.emplace();
  std::vector<Tensor> ignored;
  OpObserver want = trace->wanted.observer();
  reference::TermMagnitudes terms(Compiler::entry(*module), inputTensors,
                                  trace->magnitudes.observer());
  if (Status status =
          oracle(*module, reference::Rounding::Float64, ignored,
                 [&](mlir::Operation *op, llvm::ArrayRef<Tensor> results) {
                   want(op, results);
                   terms.observe(op, results);
                 });
      !status.ok())
    return status;
  if (Status status = compiler->runStages(*module, "weights", "precision");
      !status.ok())
    return status;
  OverflowFinder finder(trace->wanted, inputTensors);
  OpObserver collect = trace->predicted.observer(), look = finder.observer();
  if (Status status =
          oracle(*module, reference::Rounding::Declared, ignored,
                 [&](mlir::Operation *op, llvm::ArrayRef<Tensor> results) {
                   collect(op, results);
                   look(op, results);
                 });
      !status.ok())
    return status;
  trace->overflow = finder.first();
  trace->ops = exposeOps(Compiler::entry(*module));
  return {};
}

Status ModelCheck::runInstrumented() {
  if (Status status = traceOps(); !status.ok())
    return status;
  if (trace->instrumented)
    return {};
  actual.clear();
  trace->instrumented = true;
  return compileAndRun();
}

Status ModelCheck::reportFiniteness(Json &document) {
  std::optional<Overflow> first;
  if (faults.overflowed()) {
    if (Status status = traceOps(); !status.ok())
      return status;
    first = trace->overflow;
  }
  // If the declared types do not explain the overflow, the compiled code caused
  // it.
  if (faults.overflowed() && !first) {
    if (Status status = runInstrumented(); !status.ok())
      return status;
    for (const InstrumentedOp &op : trace->ops) {
      const Tensor *wanted = trace->wanted.find(op.number);
      const Tensor &value = actual[op.output];
      if (wanted && reference::compareOutput(value, *wanted, *wanted, 1,
                                             /*fatalIntegers=*/false)
                            .overflows > 0) {
        first = Overflow{
            op.name, op.kind, op.layer,
            std::string(elementTypeName(runtimeType(value.getType()).element))};
        break;
      }
    }
  }
  faults.report(reporter, document, first);
  return {};
}

Status ModelCheck::checkOps(Json &document, bool &ok) {
  if (Status status = runInstrumented(); !status.ok())
    return status;

  struct Row {
    Json json;
    std::vector<std::string> cells;
    double excess;
    size_t order;
  };
  std::vector<Row> rows;
  for (const InstrumentedOp &op : trace->ops) {
    const Tensor *reference = trace->wanted.find(op.number),
                 *second = trace->predicted.find(op.number),
                 *magnitudes = trace->magnitudes.find(op.number);
    if (!reference || !second)
      continue;
    OutputError error =
        reference::compareOutput(actual[op.output], *reference, *second,
                                 longestReduction, exactIntegers(), magnitudes);
    ok &= error.ok;
    double magnitude = rms(*reference);
    rows.push_back(
        {{{"name", op.name},
          {"kind", op.kind},
          {"layer", op.layer},
          {"max_abs_error", jsonNumber(error.maxAbsError)},
          {"rms_relative_error", jsonNumber(error.rmsRelativeError)},
          {"magnitude", jsonNumber(magnitude)},
          {"tolerance", jsonNumber(error.tolerance)},
          {"ok", error.ok}},
         {op.name, op.kind, errorCell(error.maxAbsError, *reference),
          errorCell(error.rmsRelativeError, *reference), shortNumber(magnitude),
          verdict(error, *reference, error.ok)},
         jsonNumber(error.rmsRelativeError),
         rows.size()});
    faults.add(rows.back().json, op.name, error, reference->getShape());
    addErrorFields(rows.back().json, error, *reference);
  }
  std::sort(rows.begin(), rows.end(), [](const Row &a, const Row &b) {
    return a.excess != b.excess ? a.excess > b.excess : a.order < b.order;
  });
  Json list = Json::array();
  std::vector<std::vector<std::string>> table = {
      {"op", "kind", "max abs error", "rms rel error", "magnitude", ""}};
  for (Row &row : rows) {
    list.push_back(std::move(row.json));
    table.push_back(std::move(row.cells));
  }
  document["instrumented"] = true;
  document["ops"] = list;
  reporter.lines(formatTable(table, {false, false, true, true, true, false}));
  return {};
}
