//===- PlacementChecks.cpp - Planner against exhaustive search ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Costs every storage assignment of a small graph with the planner's cost
// model; the planner finds the minimum by a minimum cut.
//
//===----------------------------------------------------------------------===//

#include "CaseChecks.h"

#include "CompiledStage.h"

#include "Analysis/CastPlacementModel.h"

#include "mpc/Analysis/OpNames.h"
#include "mpc/Policy/Policy.h"

#include "llvm/Support/raw_ostream.h"

using namespace mpc;
using namespace mpc::smith;

/// Maximum number of free values, for 2^12 placements.
static constexpr size_t kMostFree = 12;

namespace {

/// Exhaustive search over the placements of one graph.
class PlacementSearch {
public:
  PlacementSearch(mlir::func::FuncOp func, const PrecisionPlan &plan,
                  const CastFusionTarget &target, const Policy &policy)
      : plan(plan), model(func, plan, target,
                          toFloatType(policy.getStore(), func.getContext())) {}

  /// Describes a placement cheaper than the plan; empty if there is none, or if
  /// there are too many placements.
  std::string judge();

private:
  bool isLow(mlir::Value value) const {
    return plan.getStorage(value).getWidth() < 32;
  }
  std::vector<mlir::Value> freeValues() const;

  const PrecisionPlan &plan;
  CastPlacementModel model;
};

} // namespace

/// The values that no rule decides. Partial sums are excluded: their cost is
/// more than their bytes.
std::vector<mlir::Value> PlacementSearch::freeValues() const {
  std::vector<mlir::Value> found;
  for (mlir::Value value : model.getValues()) {
    const ValueReason &reason = plan.getReason(value);
    bool isSum = reason.text.find("partial sums") != std::string::npos;
    if (!reason.hard && !isSum && model.lowType(value) &&
        !model.problem.nodes[model.nodeOf(value)].hard)
      found.push_back(value);
  }
  return found;
}

std::string PlacementSearch::judge() {
  std::vector<mlir::Value> free = freeValues();
  if (free.empty() || free.size() > kMostFree)
    return "";
  std::vector<StorageLabel> labels =
      model.labels([&](mlir::Value value) { return isLow(value); });
  int64_t planned = cost(model.problem, labels);
  for (uint32_t bits = 0; bits < (1u << free.size()); ++bits) {
    std::vector<StorageLabel> tried = labels;
    for (size_t i = 0; i < free.size(); ++i)
      tried[model.nodeOf(free[i])] =
          (bits >> i) & 1 ? StorageLabel::Low : StorageLabel::High;
    int64_t other = cost(model.problem, tried);
    if (other >= planned)
      continue;
    std::string text;
    llvm::raw_string_ostream stream(text);
    stream << "costs " << planned << " bytes where " << other << " do, with";
    for (mlir::Value value : free)
      if (tried[model.nodeOf(value)] != labels[model.nodeOf(value)])
        stream << " '"
               << (value.getDefiningOp() ? opName(value.getDefiningOp())
                                         : llvm::StringRef("an argument"))
               << "' " << (isLow(value) ? "wide" : "narrow");
    return text;
  }
  return "";
}

std::vector<Finding>
smith::checkPlacementOptimal(const std::string &file,
                             const CompileOptions &options) {
  std::string step = "placement";
  Result<CompiledStage> lowered = lowerTo(file, options, "simplify");
  if (!lowered.ok())
    return {{step, lowered.status().toString()}};
  llvm::Expected<Policy> policy = Policy::load(options.policy);
  if (!policy)
    return {{step, llvm::toString(policy.takeError())}};
  if (policy->getAlgorithm() != PolicyAlgorithm::MinimumCut)
    return {};
  CastFusionTarget target(lowered->compiler->target());
  target.hasProductLibrary = lowered->compiler->pipelineOptions().libraryGemms;
  mlir::func::FuncOp entry = lowered->entry();
  mlir::FailureOr<PrecisionPlan> plan =
      PrecisionPlan::create(entry, *policy, target, CastPlacement::MinimumCut);
  if (mlir::failed(plan))
    return {{step, "no plan"}};
  std::string wrong = PlacementSearch(entry, *plan, target, *policy).judge();
  if (wrong.empty())
    return {};
  return {{step, wrong}};
}
