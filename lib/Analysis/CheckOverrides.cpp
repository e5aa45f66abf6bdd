//===- CheckOverrides.cpp - checks that overrides have an effect ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reports every override without an effect. Decides over all functions of a
// module what one function cannot: whether an override matches any op, and
// whether some op follows it.
//
//===----------------------------------------------------------------------===//

#include "PlanBuilder.h"

#include "mpc/Analysis/OpNames.h"
#include "mpc/Dialect/Mpc/IR/MpcDialect.h"
#include "mpc/Runtime/Suggestions.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Kinds
//===----------------------------------------------------------------------===//

LogicalResult mpc::checkKinds(Location loc, const Policy &policy) {
  llvm::SmallVector<StringRef> known;
  for (RegisteredOperationName name :
       loc.getContext()->getRegisteredOperations())
    if (name.getDialectNamespace() == MpcDialect::getDialectNamespace())
      known.push_back(name.stripDialect());
  auto check = [&](StringRef kind, const Twine &what) -> LogicalResult {
    if (llvm::is_contained(known, kind))
      return success();
    return emitError(loc) << what << " names the unknown op kind '" << kind
                          << "'" << didYouMean(kind, known);
  };
  for (auto &[kind, cls] : policy.getClasses())
    if (failed(check(kind, "policy '" + policy.getName() + "'")))
      return failure();
  for (auto &[kind, op] : policy.getSystemKinds())
    if (failed(check(kind, "policy '" + policy.getName() + "'")))
      return failure();
  for (const PolicyOverride &override : policy.getOverrides())
    if (override.key == PolicyOverride::Key::Kind &&
        failed(check(override.pattern, "override '" + override.text + "'")))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Uses
//===----------------------------------------------------------------------===//

LogicalResult PlanBuilder::refuse(Operation *op, const PolicyOverride &override,
                                  const Twine &why) {
  if (override.key == PolicyOverride::Key::Name)
    return op->emitError() << "override '" << override.text << "' " << why;
  OpPlan &refusing = planOf(op);
  refusing.refused = &override;
  refusing.refusal = why.str();
  useOf(override).refusals.push_back({op, refusing.refusal});
  return success();
}

/// Sums the uses of one override over all functions.
static OverrideUse sumOf(ArrayRef<const PrecisionPlan *> plans, size_t index) {
  OverrideUse sum;
  for (const PrecisionPlan *plan : plans) {
    const OverrideUse &use = plan->getOverrideUses()[index];
    sum.matched += use.matched;
    sum.obeyed += use.obeyed;
    sum.idle += use.idle;
    llvm::append_range(sum.refusals, use.refusals);
  }
  return sum;
}

/// Emits one warning per override, at the first op that does not follow it;
/// each op has a reason of its own.
static void warnOfRefusals(const PolicyOverride &override,
                           const OverrideUse &use) {
  const OverrideUse::Refusal &first = use.refusals.front();
  InFlightDiagnostic diag = first.op->emitWarning();
  diag << "override '" << override.text << "' " << first.why << " (obeyed by "
       << use.obeyed << " of " << use.obeyed + int64_t(use.refusals.size())
       << " ops that it applies to)";
}

/// Formats the names or layers of ops that are similar to the pattern of an
/// override: "; did you mean 'a'".
static std::string similarPatterns(const PolicyOverride &override,
                                   ArrayRef<func::FuncOp> functions) {
  llvm::SetVector<StringRef> known;
  bool isName = override.key == PolicyOverride::Key::Name;
  for (func::FuncOp function : functions)
    function.walk([&](Operation *op) {
      for (StringRef name : opNames(op))
        if (isName)
          known.insert(name);
      for (StringRef layer = layerPath(op); !isName && !layer.empty();
           layer = layer.contains('/') ? layer.rsplit('/').first : "")
        known.insert(layer);
    });
  StringRef pattern = override.pattern;
  pattern.consume_back("/.*");
  return didYouMean(pattern, known);
}

LogicalResult mpc::checkOverrides(Location loc, const Policy &policy,
                                  ArrayRef<const PrecisionPlan *> plans,
                                  ArrayRef<func::FuncOp> functions,
                                  bool partOfModel) {
  LogicalResult result = success();
  for (auto [index, override] : llvm::enumerate(policy.getOverrides())) {
    OverrideUse use = sumOf(plans, index);
    if (!use.refusals.empty()) {
      if (use.obeyed) {
        warnOfRefusals(override, use);
        continue;
      }
      result = use.refusals.front().op->emitError()
               << "override '" << override.text << "' "
               << use.refusals.front().why;
      continue;
    }
    // A policy file serves many models; an override on the command line is
    // meant for this one. A kind may be absent from a model; an unknown name or
    // layer is a mistake. Overridden matches count.
    if (use.matched > use.idle ||
        override.source != PolicyOverride::Source::CommandLine)
      continue;
    StringRef what =
        use.matched ? "matches no op with a type to set" : "matches no op";
    if (override.key == PolicyOverride::Key::Kind) {
      emitWarning(loc) << "override '" << override.text << "' " << what;
      continue;
    }
    if (partOfModel) {
      InFlightDiagnostic diag = emitWarning(loc);
      diag << "override '" << override.text << "' " << what;
      diag.getUnderlyingDiagnostic()->getMetadata().emplace_back(
          StringRef(override.text));
      continue;
    }
    result = emitError(loc)
             << "override '" << override.text << "' " << what
             << (use.matched ? "" : similarPatterns(override, functions))
             << "; mpc explain lists the names and layers of a model";
  }
  return result;
}
