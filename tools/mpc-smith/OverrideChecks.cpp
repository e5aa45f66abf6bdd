//===- OverrideChecks.cpp - Checks of policy overrides --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CaseChecks.h"

#include "CompiledStage.h"

#include "JIT/OpTrace.h"

#include "mpc/Analysis/OpNames.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Policy/Policy.h"

#include <map>

using namespace mpc;
using namespace mpc::smith;

static bool computesInF32(mlir::Operation *op) {
  auto isOwn = [](mlir::Type type) {
    auto element =
        mlir::dyn_cast<mlir::FloatType>(mlir::getElementTypeOrSelf(type));
    return element && !element.isF32();
  };
  return llvm::none_of(op->getOperandTypes(), isOwn) &&
         llvm::none_of(op->getResultTypes(), isOwn);
}

/// Whether the override matches the op.
static bool names(const PolicyOverride &override, mlir::Operation *op) {
  auto named = mlir::dyn_cast<PrecisionOpInterface>(op);
  return named &&
         override.fits(named.getPrecisionKind(), layerPath(op), opNames(op));
}

/// The compute type that an override names, or null.
static mlir::Type elementOf(llvm::StringRef type, mlir::MLIRContext *context) {
  mlir::Builder builder(context);
  return llvm::StringSwitch<mlir::Type>(type)
      .Case("float32", builder.getF32Type())
      .Case("bfloat16", builder.getBF16Type())
      .Case("float16", builder.getF16Type())
      .Default(mlir::Type());
}

/// The first precision operand of the op that is not of type `wanted`.
static std::optional<unsigned> otherOperand(mlir::Operation *op,
                                            mlir::Type wanted) {
  auto precise = mlir::cast<PrecisionOpInterface>(op);
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    if (precise.isPrecisionOperand(i) &&
        mlir::getElementTypeOrSelf(op->getOperand(i)) != wanted)
      return i;
  return std::nullopt;
}

std::vector<Finding>
smith::checkPolicyOverrides(const std::string &file,
                            const CompileOptions &options) {
  std::vector<Finding> findings;
  auto fail = [&](const std::string &text) {
    findings.push_back({"overrides", text});
    return findings;
  };
  Result<CompiledStage> lowered = lowerTo(file, options, "simplify");
  if (!lowered.ok())
    return fail(lowered.status().toString());
  Compiler &compiler = *lowered->compiler;
  llvm::Expected<Policy> policy = Policy::load("float32");
  for (const auto &[key, type] : options.sets)
    if (llvm::Error error = policy->addOverride(key + "=" + type))
      return fail(llvm::toString(std::move(error)));
  mlir::func::FuncOp entry = lowered->entry();
  // The precision pass retypes in place: ops are identified by number.
  numberOps(entry);
  std::map<int64_t, size_t> watched;
  entry.walk([&](mlir::Operation *op) {
    // Casts in the model compute nothing.
    if (!mlir::isa<PrecisionOpInterface>(op) || mlir::isa<CastOp>(op) ||
        !computesInF32(op))
      return;
    std::vector<size_t> naming;
    for (size_t i = 0; i < options.sets.size(); ++i)
      if (names(policy->getOverrides()[i], op))
        naming.push_back(i);
    // Priorities between overrides are covered by the policy's own tests.
    if (naming.size() == 1)
      watched[numberOf(op)] = naming[0];
  });
  if (Status status =
          compiler.runStages(*lowered->module, "simplify", "precision");
      !status.ok())
    return fail(status.toString());
  entry.walk([&](mlir::Operation *op) {
    auto found = watched.find(numberOf(op));
    if (found == watched.end() || mlir::isa<CastOp>(op) || !findings.empty())
      return;
    auto [key, type] = options.sets[found->second];
    std::string set = key + "=" + type;
    mlir::Type wanted = elementOf(type, op->getContext());
    std::optional<unsigned> other =
        wanted ? otherOperand(op, wanted) : std::nullopt;
    bool reported =
        llvm::any_of(compiler.diagnostics(), [&](const Diagnostic &message) {
          return message.text.find(set) != std::string::npos;
        });
    if (!other || reported)
      return;
    std::string text;
    llvm::raw_string_ostream(text)
        << "'" << set << "' is lost: operand " << *other << " of '"
        << opName(op) << "' (" << op->getName() << ") is "
        << mlir::getElementTypeOrSelf(op->getOperand(*other));
    fail(text);
  });
  return findings;
}
