//===- TranslationValidation.h - program against graph ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_TRANSLATIONVALIDATION_H
#define MPC_ANALYSIS_TRANSLATIONVALIDATION_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

#include <optional>
#include <string>
#include <vector>

namespace mpc {

/// Translation validation of one compile (Pnueli, Siegel and Singerman, TACAS
/// 1998): the planned program against the graph with types, before layouts,
/// packing and fusion.
///
/// Each element of a buffer that a launch writes is a symbolic expression of
/// the program's inputs; the launches' memory is followed through the arena. An
/// output is proved if its normalized expression and the graph's are equal:
/// index maps, casts, types of sums and all. Sums may be in any order; other
/// expressions may differ in nothing but the order of two commutative operands,
/// exact conversions before a cast and, in rounding mode "relaxed", dropped
/// roundings. What is not proved is evaluated by the interpreter, on special
/// values and on small integers, whose sums are exact, and compared bit by bit;
/// against a composite op of the graph, within a tolerance.
struct TranslationReport {
  enum class Verdict { Proved, Tested, Differs };
  struct Kernel {
    /// Symbol of the kernel's function; a function may be launched repeatedly.
    std::string name;
    Verdict verdict = Verdict::Proved;
  };
  /// One per launch, in order.
  std::vector<Kernel> kernels;

  /// The first difference.
  struct Difference {
    std::string kernel;
    /// One sentence: output, index, and both expressions.
    std::string text;
    mlir::Location location;
  };
  std::optional<Difference> difference;

  size_t count(Verdict verdict) const;
};

struct TranslationOptions {
  /// The compile may drop a rounding inside of a kernel (rounding mode
  /// "relaxed").
  bool relaxedRounding = false;
};

/// Compares `graph`, the entry function after stage precision, with the program
/// in `planned`. Both share a context; neither is modified. Fails with a
/// diagnostic if the program has steps other than launches.
mlir::FailureOr<TranslationReport>
validateTranslation(mlir::func::FuncOp graph, mlir::ModuleOp planned,
                    const TranslationOptions &options = {});

} // namespace mpc

#endif // MPC_ANALYSIS_TRANSLATIONVALIDATION_H
