//===- LintIntegers.cpp - lint of integers in 16-bit floats ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks for each value that carries integers whether its storage type under
// the policy represents them all; the other checks consider real numbers.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"

#include "LintContext.h"

#include <cmath>

using namespace mlir;
using namespace mpc;

namespace {

class IntegerLint {
public:
  explicit IntegerLint(LintContext &context)
      : context(context), integers(context.func),
        wouldBe(narrowTypeOf(context.policy, context.func.getContext())) {}

  void visit(Value value);

private:
  /// Returns the policy's storage type for values, or null if that is f32.
  static FloatType narrowTypeOf(const Policy &policy, MLIRContext *context) {
    for (PolicyType type : {policy.getStore(), policy.getCompute()}) {
      if (type == PolicyType::Float16)
        return Float16Type::get(context);
      if (type == PolicyType::BFloat16)
        return BFloat16Type::get(context);
    }
    return {};
  }
  bool exceeds(Value value, FloatType type) const {
    return integers.getMagnitude(value) > exactIntegerLimit(type);
  }
  /// Returns true if the lists permit `op` to read or compute 16 bits.
  bool mayNarrow(Operation *op) const {
    auto precision = dyn_cast<PrecisionOpInterface>(op);
    if (!precision || isa<CastOp>(op))
      return false;
    auto decision = op->getAttrOfType<DecisionAttr>(MpcDialect::kDecisionAttr);
    if (decision && decision.getOverride())
      return false; // the user decided: no warning
    PrecisionClass cls = context.policy.classOf(precision.getPrecisionKind());
    return cls != PrecisionClass::High && cls != PrecisionClass::HighResult &&
           cls != PrecisionClass::Ban;
  }
  void report(Value value, FloatType type, bool kept);

  LintContext &context;
  IntegerValuedFloats integers;
  FloatType wouldBe;
  /// Carriers whose chain has been reported.
  llvm::DenseSet<Value> told;
};

} // namespace

void IntegerLint::report(Value value, FloatType type, bool kept) {
  told.insert(value);
  Operation *op = beforeCasts(value).getDefiningOp();
  SmallVector<Operation *> readers;
  for (OpOperand *use : readersOf(value))
    if (use->getOwner()->getNumResults() > 0)
      readers.push_back(use->getOwner());
  if (!op)
    op = readers.empty() ? value.getParentBlock()->getTerminator()
                         : readers.front();
  double magnitude = integers.getMagnitude(value);
  std::string size = std::isinf(magnitude)
                         ? std::string("integers of any size")
                         : "integers up to " + numberText(magnitude);
  std::string text = describe(op) + " carries " + size + "; " + nameOf(type) +
                     " represents integers exactly up to " +
                     numberText(exactIntegerLimit(type)) + " only" +
                     (kept ? ", so they are kept in f32" : "");
  std::string fix = kept ? "none is needed; to use 16 bits, compute them in "
                           "i32 or i64 in the model"
                         : overrideOf(isa<CastOp>(op) && !readers.empty()
                                          ? ArrayRef<Operation *>(readers)
                                          : ArrayRef<Operation *>(op));
  context.report("integer_in_float", op,
                 std::isinf(magnitude) ? exactIntegerLimit(type) + 1
                                       : magnitude,
                 text, fix);
}

void IntegerLint::visit(Value value) {
  if (!integers.contains(value))
    return;
  Operation *op = value.getDefiningOp();
  bool known = op && llvm::any_of(op->getOperands(), [&](Value operand) {
                 return told.contains(operand);
               });
  if (known) {
    told.insert(value);
    return;
  }
  if (FloatType type = mpc::narrowTypeOf(value)) {
    if (exceeds(value, type))
      report(value, type, /*kept=*/false);
    return;
  }
  if (!wouldBe || !exceeds(value, wouldBe))
    return;
  // Narrow reads are reported at the cast.
  bool isNarrowed = llvm::any_of(value.getUsers(), [](Operation *user) {
    return isa<CastOp>(user) && mpc::narrowTypeOf(user->getResult(0));
  });
  if (isNarrowed)
    return;
  bool touched = llvm::any_of(value.getUsers(),
                              [&](Operation *user) { return mayNarrow(user); });
  if (touched || (op && mayNarrow(op)))
    report(value, wouldBe, /*kept=*/true);
}

void mpc::lintIntegers(LintContext &context) {
  IntegerLint lint(context);
  for (BlockArgument argument : context.body().getArguments())
    lint.visit(argument);
  for (Operation &op : context.body())
    for (Value result : op.getResults())
      lint.visit(result);
}
