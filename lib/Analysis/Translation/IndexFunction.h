//===- IndexFunction.h - evaluation of affine indices -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_ANALYSIS_TRANSLATION_INDEXFUNCTION_H
#define MPC_LIB_ANALYSIS_TRANSLATION_INDEXFUNCTION_H

#include "Expression.h"

#include <vector>

namespace mpc::translation {

/// An affine index as a function of its leaves (variables and indices that are
/// read from tensors). Terms of one leaf are tabulated.
class IndexFunction {
public:
  /// `leaves` outlives the function.
  IndexFunction(Expr expr, llvm::ArrayRef<Expr> leaves);

  /// The index if the leaves have `values`.
  int64_t at(llvm::ArrayRef<int64_t> values) const;

private:
  int64_t evaluate(Expr expr, llvm::ArrayRef<int64_t> values) const;

  llvm::ArrayRef<Expr> leaves;
  std::vector<std::vector<int64_t>> tables;
  llvm::SmallVector<std::pair<Expr, int64_t>> others;
  int64_t base = 0;
};

/// Sets `at` to the next combination of values of `leaves`, the last one
/// fastest. After the last combination all are zero, and the result is false.
bool advance(llvm::MutableArrayRef<int64_t> at, llvm::ArrayRef<Expr> leaves);

} // namespace mpc::translation

#endif // MPC_LIB_ANALYSIS_TRANSLATION_INDEXFUNCTION_H
