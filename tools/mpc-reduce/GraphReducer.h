//===- GraphReducer.h - shrinks the graph of a model ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// mlir-reduce removes ops that nobody reads. A graph has few of those: here its
// results, its arguments and the ops in the middle go as well.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_REDUCE_GRAPHREDUCER_H
#define MPC_TOOLS_REDUCE_GRAPHREDUCER_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <functional>
#include <string>

namespace mpc {

class GraphReducer {
public:
  /// `interesting` is asked about the text of a smaller graph, which verifies.
  using Test = std::function<bool(const std::string &text)>;

  GraphReducer(mlir::ModuleOp module, Test interesting)
      : best(module.clone()), interesting(std::move(interesting)) {}

  /// Shrinks until nothing smaller is interesting, or `goesOn` says no. Tries,
  /// from large steps to small: fewer results; all that comes before some op,
  /// or the op alone, replaced by an operand of its type or by new arguments;
  /// constants of one value; no layers and no names.
  void run(const std::function<bool()> &goesOn = [] { return true; });

  /// The smallest interesting graph so far. Names of ops stay.
  std::string text() const;

private:
  using Change = std::function<bool(mlir::func::FuncOp)>;
  /// Makes a copy smaller by `change`; keeps it where it is interesting.
  bool attempt(const Change &change);
  bool reduceResults();
  bool cutOff();
  bool reduceOps();
  bool reduceConstants();
  bool reduceAttributes();

  mlir::OwningOpRef<mlir::ModuleOp> best;
  Test interesting;
  std::function<bool()> goesOn;
};

} // namespace mpc

#endif // MPC_TOOLS_REDUCE_GRAPHREDUCER_H
