//===- ExplainErrors.cpp - error contributions from samples ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Roundings are found in the graph after stage simplify, ops of the report in
// the one after precision. Order, name and kind of ops are equal in both.
//
//===----------------------------------------------------------------------===//

#include "Calibrate.h"
#include "Explanation.h"
#include "InstrumentOps.h"

#include "mpc/Analysis/PlannedRoundings.h"
#include "mpc/Dialect/Mpc/IR/StepFunction.h"
#include "mpc/Tuning/Sensitivity.h"

#include <cmath>
#include <map>

using namespace mpc;
using namespace mpc::tool;

/// Number of backward passes over all samples.
static constexpr int kDraws = 8;

/// Returns the report's op for each op of `function`.
static llvm::DenseMap<mlir::Operation *, size_t>
findOps(mlir::func::FuncOp function, const Explanation &explanation) {
  // Indices of ops by name and kind, in order.
  std::map<std::pair<std::string, std::string>, std::vector<size_t>> known;
  for (auto [number, op] : llvm::enumerate(explanation.ops))
    known[{op.name, op.kind}].push_back(number);
  std::map<std::pair<std::string, std::string>, size_t> seen;
  llvm::DenseMap<mlir::Operation *, size_t> found;
  for (mlir::Operation &op : function.getBody().front().without_terminator()) {
    std::pair<std::string, std::string> key(opName(&op), opKind(&op));
    auto entry = known.find(key);
    if (entry == known.end())
      continue;
    size_t &next = seen[key];
    if (next < entry->second.size())
      found[&op] = entry->second[next++];
  }
  return found;
}

void tool::explainErrors(mlir::func::FuncOp function, const PrecisionPlan &plan,
                         const RoundingErrorModel &errors,
                         Budget::Measure measure, int64_t samples,
                         Explanation &explanation,
                         llvm::ArrayRef<QuantizedError> quantized) {
  llvm::DenseMap<mlir::Operation *, size_t> numbers =
      findOps(function, explanation);
  struct Parts {
    double results = 0, operands = 0;
  };
  std::vector<Parts> parts(explanation.ops.size());
  std::map<unsigned, double> inputs;
  double sum = 0;
  bool isInfinite = false;
  llvm::DenseMap<mlir::Operation *, bool> isQuantized;
  for (const QuantizedError &each : quantized)
    isQuantized[each.op] = each.both;
  // Quantized numbers are exact in the type in which they are multiplied.
  auto isExact = [&](mlir::OpOperand &use) {
    auto found = isQuantized.find(use.getOwner());
    return found != isQuantized.end() &&
           (found->second || use.getOperandNumber() == 1);
  };
  auto errorBy = [&](const PlannedRounding &rounding) {
    bool isUnread = rounding.use ? isExact(*rounding.use)
                                 : !quantized.empty() &&
                                       llvm::all_of(rounding.value.getUses(),
                                                    [&](mlir::OpOperand &use) {
                                                      return isExact(use);
                                                    });
    return isUnread ? 0 : rounding.errorBy(errors);
  };
  forEachRounding(function, plan, [&](const PlannedRounding &rounding) {
    isInfinite |= std::isinf(errorBy(rounding));
  });
  for (const QuantizedError &each : quantized)
    isInfinite |= std::isinf(each.error);
  auto shareOf = [&](double error) {
    return isInfinite ? double(std::isinf(error)) : error;
  };
  for (const QuantizedError &each : quantized) {
    sum += shareOf(each.error);
    if (auto found = numbers.find(each.op); found != numbers.end())
      parts[found->second].operands += shareOf(each.error);
  }
  // Next to an infinite contribution others are negligible.
  forEachRounding(function, plan, [&](const PlannedRounding &rounding) {
    double error = shareOf(errorBy(rounding));
    sum += error;
    mlir::Operation *op = rounding.use ? rounding.use->getOwner()
                                       : rounding.value.getDefiningOp();
    if (!op) {
      inputs[mlir::cast<mlir::BlockArgument>(rounding.value).getArgNumber()] +=
          error;
      return;
    }
    auto found = numbers.find(op);
    if (found == numbers.end())
      return;
    Parts &of = parts[found->second];
    (rounding.use ? of.operands : of.results) += error;
  });
  double scale = sum > 0 ? 1 / sum : 0;
  for (auto [op, of] : llvm::zip_equal(explanation.ops, parts)) {
    op.errorOfResults = of.results * scale;
    op.errorOfOperands = of.operands * scale;
  }
  ExplainedErrors &account = explanation.errors.emplace();
  account.measure = stringify(measure).str();
  account.predicted = errorOf(measure, isInfinite ? INFINITY : sum);
  account.samples = samples;
  StepFunction step(function);
  for (auto [number, error] : inputs)
    account.inputs.emplace_back(step.argumentName(number).str(), error * scale);
}

Json tool::rangesOf(const Policy &policy) {
  Json ranges;
  for (const auto &[name, range] : policy.getRanges()) {
    ranges[name] = {{"largest", jsonNumber(range.largest)}};
    if (!range.sample.empty())
      ranges[name]["largest_sample"] = range.sample;
  }
  return ranges;
}

Status tool::explainSamples(const SampledModel &model, const Policy &policy,
                            uint64_t seed, Explanation &explanation) {
  // A model without training has no gradients.
  RangeRecorder ranges, gradients;
  if (Status status = recordRanges(model, ranges, gradients); !status.ok())
    return status;
  explanation.ranges = rangesToJson(ranges, model.samples());

  Sensitivity sensitivity(model.entry(), Budget::Measure::Rms, seed);
  int draws = std::max<int>(1, kDraws / int(model.samples().size()));
  size_t before = model.compiler().diagnostics().size();
  const PipelineOptions &pipeline = model.compiler().pipelineOptions();
  mlir::FailureOr<OperandChanges> changes =
      OperandChanges::create(model.entry(), pipeline.policy, pipeline.sets);
  if (failed(changes))
    return model.compiler().failure(before);
  sensitivity.considerOperands(*changes);
  for (const Sample &sample : model.samples())
    if (failed(sensitivity.addSample(sample.tensors, draws)))
      return model.compiler().failure(before);
  CastFusionTarget target(model.compiler().target());
  target.hasProductLibrary = model.compiler().pipelineOptions().libraryGemms;
  mlir::FailureOr<PrecisionPlan> plan = PrecisionPlan::create(
      model.entry(), policy, target, castPlacementOf(model.options()));
  if (failed(plan))
    return model.compiler().failure(before);
  std::vector<QuantizedError> quantized;
  for (const OperandChanges::Operand &operand : changes->getOperands()) {
    auto [op, number] = operand;
    const OperandUsage *usage = changes->usageOf(operand);
    if (quantized.empty() || quantized.back().op != op)
      quantized.push_back({op, sensitivity.ofOperands(op),
                           /*both=*/usage != nullptr});
    if (usage && usage->elements > 0)
      explanation.operands.push_back(
          {opName(op), number, usage->format, usage->leastScale,
           usage->mostScale, usage->saturatedShare(), usage->flushedShare()});
  }
  explainErrors(model.entry(), *plan, sensitivity, Budget::Measure::Rms,
                int64_t(model.samples().size()), explanation, quantized);
  return {};
}
