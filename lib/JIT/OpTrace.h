//===- OpTrace.h - op-by-op comparison in the oracle ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ops are numbered before a stage rewrites them and found by number afterwards,
// so that two graphs of one model can be compared op by op. Uses LLVM;
// internal.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_JIT_OPTRACE_H
#define MPC_LIB_JIT_OPTRACE_H

#include "mpc/Reference/Tensor.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mpc {

/// Numbers all ops of `function` except constants and the return, as a
/// discardable attribute that op-by-op rewrites preserve.
void numberOps(mlir::func::FuncOp function);

/// Returns the number of `op`, or -1.
int64_t numberOf(mlir::Operation *op);

/// Removes the number of `op`.
void clearNumber(mlir::Operation *op);

/// Callback of the interpreter, called after each op with its results.
using OpObserver =
    std::function<void(mlir::Operation *, llvm::ArrayRef<reference::Tensor>)>;

/// First results of numbered ops, recorded from the interpreter.
class OpValues {
public:
  OpObserver observer();
  /// Returns the value of the op with that number, or null.
  const reference::Tensor *find(int64_t number) const;

private:
  std::map<int64_t, reference::Tensor> values;
};

/// First overflow: an op or cast whose result is non-finite where float64's is
/// finite.
struct Overflow {
  /// Name of the op; for a cast, of the op that it casts.
  std::string op;
  /// "cast", or the op's kind for policies.
  std::string kind;
  /// Layer path of the op, may be empty.
  std::string layer;
  /// Type whose range was exceeded, such as "f16".
  std::string type;

  /// "'square' (mul, f16, layer encoder/0)".
  std::string text() const;
};

/// Finds the first overflow of a run, in program order.
class OverflowFinder {
public:
  /// `wanted` holds the float64 results of the graph's numbered ops,
  /// `arguments` the arguments of the run. Both must outlive the finder.
  OverflowFinder(const OpValues &wanted,
                 llvm::ArrayRef<reference::Tensor> arguments)
      : wanted(wanted), arguments(arguments) {}

  /// Callback for a run of the numbered graph with its declared types.
  OpObserver observer();
  /// Checks one result of `op`, in program order.
  void look(mlir::Operation *op, const reference::Tensor &result);

  const std::optional<Overflow> &first() const { return found; }

private:
  const OpValues &wanted;
  llvm::ArrayRef<reference::Tensor> arguments;
  std::optional<Overflow> found;
};

} // namespace mpc

#endif // MPC_LIB_JIT_OPTRACE_H
