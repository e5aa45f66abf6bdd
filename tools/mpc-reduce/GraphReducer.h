//===- GraphReducer.h - test-case reduction of graphs -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// mlir-reduce removes unused ops, of which a graph has few: this also removes
// results, arguments and ops in the middle.
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
  /// Interestingness test of the text of a smaller graph, which verifies.
  using Test = std::function<bool(const std::string &text)>;

  GraphReducer(mlir::ModuleOp module, Test interesting)
      : best(module.clone()), interesting(std::move(interesting)) {}

  /// Reduces until no smaller graph is interesting, or `goesOn` returns false.
  /// Tries, from large steps to small: fewer results; replacing all ops before
  /// some op, or a single op, by an operand of its type or by new arguments;
  /// splat constants; dropping layers and names.
  void run(const std::function<bool()> &goesOn = [] { return true; });

  /// Returns the smallest interesting graph so far, with op names.
  std::string text() const;

private:
  using Change = std::function<bool(mlir::func::FuncOp)>;
  /// Applies `change` to a copy and adopts it if it is interesting.
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
