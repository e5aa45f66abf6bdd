//===- StageChecks.cpp - Meaning of a graph after each stage --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// In float64, casts between float types are exact, so a graph has the same
// meaning after every stage under any policy, except for weights that the
// policy rounds. A wrong rewrite could go unnoticed in the tolerance of `mpc
// check` for 16-bit types; here there is none.
//
//===----------------------------------------------------------------------===//

#include "CaseChecks.h"

#include "CompiledStage.h"

#include "mpc/Analysis/FakeQuantization.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Reference/Compare.h"
#include "mpc/Reference/Interpreter.h"
#include "mpc/Reference/TermMagnitudes.h"

#include <algorithm>
#include <cmath>
#include <optional>

using namespace mpc;
using namespace mpc::smith;
using mpc::reference::Rounding;
using mpc::reference::Tensor;

using Tensors = std::vector<Tensor>;

static bool interpret(mlir::ModuleOp module, const Tensors &inputs,
                      Rounding rounding, Tensors &results,
                      reference::TermMagnitudes *terms = nullptr) {
  reference::InterpretOptions options;
  options.rounding = rounding;
  if (terms)
    options.observer = [&](mlir::Operation *op, llvm::ArrayRef<Tensor> values) {
      terms->observe(op, values);
    };
  auto values = reference::interpret(Compiler::entry(module), inputs, options);
  if (mlir::failed(values))
    return false;
  results.assign(values->begin(), values->end());
  return true;
}

/// `actual` without the errors where `declared` overflows, which have no
/// tolerance. Overflow in a compiled graph is checked elsewhere.
static Tensor whereHeld(Tensor actual, const Tensor &reference,
                        const Tensor &declared) {
  if (actual.isFloat())
    for (size_t i = 0; i < actual.floats().size(); ++i)
      if (!std::isfinite(declared.floats()[i]))
        actual.floats()[i] = reference.floats()[i];
  return actual;
}

static bool hasNarrowWeights(mlir::ModuleOp module) {
  return module
      .walk([](ConstantOp op) {
        return op->hasAttr(kWeightsAttr) ? mlir::WalkResult::interrupt()
                                         : mlir::WalkResult::advance();
      })
      .wasInterrupted();
}

/// Per result and metric, the part of the difference from `reference` that
/// `declared` explains: relative to the result, and to the terms of each
/// element, as rms and in the worst element.
static void compare(const std::string &step, const Tensors &actual,
                    const Tensors &reference, const Tensors &declared,
                    llvm::ArrayRef<Tensor> magnitudes, int64_t longest,
                    std::vector<PooledError> &rows) {
  for (size_t i = 0; i < reference.size(); ++i) {
    reference::OutputError error = reference::compareOutput(
        whereHeld(actual[i], reference[i], declared[i]), reference[i],
        declared[i], longest, /*fatalIntegers=*/true, &magnitudes[i]);
    PooledError row = {step, "result " + std::to_string(i)};
    row.mismatches = error.mismatches;
    row.isFloat = reference[i].isFloat();
    PooledError components = row, largest = row;
    components.name += " (componentwise)";
    largest.name += " (largest)";
    if (row.isFloat) {
      row.error = std::pow(error.rmsRelativeError, 2);
      row.tolerance = std::pow(error.tolerance, 2);
      components.error = std::pow(error.componentwiseError, 2);
      components.tolerance = std::pow(error.componentwiseTolerance, 2);
      largest.error = std::pow(error.largestError, 2);
      largest.tolerance = std::pow(error.largestTolerance, 2);
    }
    llvm::append_values(rows, row, components, largest);
  }
}

namespace {

/// Interprets a model after each of its stages.
class StageInterpreter {
public:
  explicit StageInterpreter(const CompileOptions &options) : options(options) {}

  /// Errors after all stages of the model in `file` for one draw of inputs;
  /// sets `refusal` if a stage fails.
  std::vector<PooledError> measure(const std::string &file, uint64_t inputSeed);

  std::optional<Finding> refusal;

private:
  std::vector<PooledError> refuse(const std::string &step,
                                  const std::string &text) {
    refusal = Finding{step, text};
    return {};
  }

  const CompileOptions &options;
};

} // namespace

std::vector<PooledError> StageInterpreter::measure(const std::string &file,
                                                   uint64_t inputSeed) {
  Result<std::unique_ptr<Compiler>> created = Compiler::create(options);
  if (!created.ok())
    return refuse("create", created.status().toString());
  Compiler &compiler = **created;
  Result<Compiler::Module> imported = compiler.import(file);
  if (!imported.ok())
    return refuse("import", imported.status().toString());
  mlir::ModuleOp module = **imported;
  mlir::func::FuncOp entry = Compiler::entry(module);
  Result<Tensors> drawn = drawArguments(entry, inputSeed);
  if (!drawn.ok())
    return refuse("inputs", drawn.status().toString());
  Tensors inputs = std::move(*drawn), reference, declared;
  int64_t longest = reference::longestReduction(entry);
  const char *opaque = "gives what the oracle does not execute";
  reference::TermMagnitudes terms(entry, inputs);
  if (!interpret(module, inputs, Rounding::Float64, reference, &terms) ||
      !interpret(module, inputs, Rounding::Declared, declared))
    return refuse("import", opaque);
  auto magnitudes = terms.results();
  if (failed(magnitudes))
    return refuse("import", opaque);

  std::vector<PooledError> rows;
  /// Squared error bound from rounded constants, per result.
  std::vector<double> constants;
  std::string before = "import";
  for (const Stage &stage : stages()) {
    if (stage.name == "plan" || stage.training)
      continue;
    std::string step = "stage " + stage.name.str();
    if (Status status = compiler.runStages(module, before, stage.name);
        !status.ok())
      return refuse(step, "fails: " + status.toString());
    before = stage.name.str();
    Tensors now;
    if (!interpret(module, inputs, Rounding::Float64, now))
      return refuse(step, opaque);
    // Weights rounded by a policy make a different model.
    if (stage.name == "weights" && hasNarrowWeights(module)) {
      reference = std::move(now);
      continue;
    }
    // From this stage on, constants are stored in their narrow types.
    if (stage.name == "precision") {
      if (!interpret(module, inputs, Rounding::Declared, declared))
        return refuse(step, opaque);
      // Rounded constants may change an order; no later stage may.
      auto rounded = reference::resultsWithRounding(Compiler::entry(module));
      for (size_t i = 0; i < reference.size(); ++i)
        if (rounded[i] && !reference[i].isFloat())
          reference[i] = now[i];
    }
    size_t first = rows.size();
    compare(step, now, reference, declared, *magnitudes, longest, rows);
    // Rounded constants are one sample of errors; the storage-rounding mode
    // gives another, in which other roundings may cancel them.
    for (size_t i = first; i < rows.size(); ++i) {
      double &tolerance = rows[i].tolerance;
      if (stage.name == "precision") {
        tolerance *= 4;
        constants.push_back(4 * rows[i].error);
      } else if (!constants.empty()) {
        tolerance = std::max(tolerance, constants[i - first]);
      }
    }
  }
  return rows;
}

std::vector<Finding> smith::checkStageSemantics(const std::string &file,
                                                const CompileOptions &options,
                                                uint64_t inputSeed) {
  StageInterpreter walk(options);
  std::vector<Finding> findings = checkOverSeeds(inputSeed, [&](uint64_t seed) {
    // The first draw keeps the model unchanged; the inputs may not affect an
    // output.
    std::string redrawn = file + ".redrawn.mlir";
    if (seed == inputSeed || !perturbWeights(file, redrawn, seed).ok())
      return walk.measure(file, seed);
    std::vector<PooledError> rows = walk.measure(redrawn, seed);
    return hasMismatch(rows) ? walk.measure(file, seed) : rows;
  });
  if (walk.refusal)
    return {*walk.refusal};
  return findings;
}
