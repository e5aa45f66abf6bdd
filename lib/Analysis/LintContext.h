//===- LintContext.h - shared state of the lint checks ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_ANALYSIS_LINTCONTEXT_H
#define MPC_LIB_ANALYSIS_LINTCONTEXT_H

#include "mpc/Analysis/IntegerValuedFloats.h"
#include "mpc/Analysis/Lint.h"
#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

namespace mpc {

/// One run of the lint.
class LintContext {
public:
  LintContext(mlir::func::FuncOp func, const Policy &policy,
              const ConstantReads &originals)
      : func(func), policy(policy), ranges(func), originals(originals) {}

  mlir::Block &body() { return func.getBody().front(); }

  void report(llvm::StringRef code, mlir::Operation *op, double value,
              const llvm::Twine &text, std::string fix);

  mlir::func::FuncOp func;
  const Policy &policy;
  RangeAnalysis ranges;
  /// Values that contain an infinity, or a zero, which an earlier op made of a
  /// finite nonzero number; their readers are not to blame.
  llvm::DenseSet<mlir::Value> overflowed, flushed;
  std::vector<LintWarning> warnings;
  const ConstantReads &originals;
};

/// The 16-bit element type of `value`, or null.
mlir::FloatType narrowTypeOf(mlir::Value value);

/// "f16".
std::string nameOf(mlir::FloatType type);
/// Six significant digits: "1e-12", "70000".
std::string numberText(double value);
/// Returns the name of `op` in messages: its quoted node name, else its kind.
std::string describe(mlir::Operation *op);
/// Returns the flags that compute `ops` in float32; a sentence instead if the
/// model itself fixes their type.
std::string overrideOf(llvm::ArrayRef<mlir::Operation *> ops);

/// Returns true if `op` only moves elements or converts between floats.
bool isTransparent(mlir::Operation *op);
/// `value` before casts between floats.
mlir::Value beforeCasts(mlir::Value value);
/// Returns the uses of `value`, looking through transparent ops.
llvm::SmallVector<mlir::OpOperand *> readersOf(mlir::Value value);
/// Sorts uses by the ops' order, independent of use lists.
void sortByPlace(llvm::SmallVectorImpl<mlir::OpOperand *> &reads);
/// Returns true if a zero in `value` reaches a divisor, a logarithm or an
/// inverse root through a few ops that map zero to zero.
bool guardsDivision(mlir::Value value);

/// The checks, in the order in which they run.
void lintConstants(LintContext &context);
void lintRanges(LintContext &context);
void lintSums(LintContext &context);
void lintIntegers(LintContext &context);
void lintCoordinates(LintContext &context);
void lintMeasured(LintContext &context);
void lintStored(LintContext &context);
void lintOperands(LintContext &context);

} // namespace mpc

#endif // MPC_LIB_ANALYSIS_LINTCONTEXT_H
