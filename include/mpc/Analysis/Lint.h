//===- Lint.h - what a narrow type will break -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds, without running a model, where the types that a policy assigned lose
// more than rounding: constants that become infinite or zero, guards and masks
// that stop working, sums that stop growing, integers that change.
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
  /// What is wrong, one word of docs/Lint.md: "epsilon_flush".
  std::string code;
  /// The op that computes with the value.
  mlir::Operation *op = nullptr;
  /// The number that does not fit, as text: "1e-12", "50000".
  std::string value;
  /// One sentence.
  std::string text;
  /// What to do: flags that can be typed, or a change of the model.
  std::string fix;
};

/// A constant before it was narrowed.
struct OriginalConstant {
  mlir::ElementsAttr value;
  /// "constant 'name'".
  std::string text;
};
using ConstantReads =
    llvm::DenseMap<std::pair<mlir::Operation *, unsigned>, OriginalConstant>;

/// The lint of one function. Made before a policy is applied, since the values
/// that are lost are no longer in the graph afterwards; run on the same
/// function after mpc-assign-precision, whose types it judges.
class NumericLint {
public:
  /// Remembers which f32 constants the ops of `func` read.
  explicit NumericLint(mlir::func::FuncOp func);

  /// The warnings about `func` under `policy`, in the order of the ops. Only
  /// values that really are stored, computed or summed in 16 bits count, but
  /// for integers in floats, which are told where the policy's lists would
  /// narrow them and the text says that they are kept, and for what the
  /// policy's weights and cache store in vain.
  std::vector<LintWarning> run(mlir::func::FuncOp func, const Policy &policy);

private:
  /// Constants by the operand that reads them; an assignment changes operands
  /// in place.
  ConstantReads originals;
};

} // namespace mpc

#endif // MPC_ANALYSIS_LINT_H
