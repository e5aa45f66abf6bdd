//===- Lint.h - static lint for low-precision types -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Detects, without running a model, where assigned types lose more than
// rounding: constants that become infinite or zero, epsilons and masks that
// lose their effect, sums that stagnate, integers that change.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_LINT_H
#define MPC_ANALYSIS_LINT_H

#include "mpc/Policy/Policy.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/DenseMap.h"

#include <string>
#include <vector>

namespace mpc {

/// One finding.
struct LintWarning {
  /// Warning code, one word of docs/Reference/Lint.md: "epsilon_flush".
  std::string code;
  /// The op that computes with the value.
  mlir::Operation *op = nullptr;
  /// The offending number, as text: "1e-12", "50000".
  std::string value;
  /// One sentence.
  std::string text;
  /// Suggested fix: flags, or a change of the model.
  std::string fix;
};

/// A constant before narrowing.
struct OriginalConstant {
  mlir::ElementsAttr value;
  /// "constant 'name'".
  std::string text;
};
using ConstantReads =
    llvm::DenseMap<std::pair<mlir::Operation *, unsigned>, OriginalConstant>;

/// The lint of one function. Constructed before a policy is applied, because
/// the original values are no longer in the graph afterwards; run on the same
/// function after mpc-assign-precision, whose types it checks.
class NumericLint {
public:
  /// Records which f32 constants the ops of `func` read.
  explicit NumericLint(mlir::func::FuncOp func);

  /// Returns the warnings about `func` under `policy`, in the order of the ops.
  /// Considers only values that are stored, computed or accumulated in 16 bits,
  /// and in addition integers in floats that the policy's lists would narrow
  /// (the text says that they stay f32), and weight or cache storage without a
  /// benefit.
  std::vector<LintWarning> run(mlir::func::FuncOp func, const Policy &policy);

private:
  /// Constants by reading operand; an assignment changes operands in place.
  ConstantReads originals;
};

} // namespace mpc

#endif // MPC_ANALYSIS_LINT_H
