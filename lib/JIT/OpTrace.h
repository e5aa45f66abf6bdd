//===- OpTrace.h - values of single ops in the oracle -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ops are numbered before a stage rewrites them and found again after it, so
// that two graphs of one model can be compared op by op. Knows LLVM; internal.
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

/// Gives each op of `function` but constants and the return its number, a
/// discardable attribute that rewrites of single ops keep.
void numberOps(mlir::func::FuncOp function);

/// The number of `op`, -1 where it has none.
int64_t numberOf(mlir::Operation *op);

/// Takes the number of `op` away.
void clearNumber(mlir::Operation *op);

/// What the interpreter calls after each op, with its results.
using OpObserver =
    std::function<void(mlir::Operation *, llvm::ArrayRef<reference::Tensor>)>;

/// First results of numbered ops, collected from the interpreter.
class OpValues {
public:
  OpObserver observer();
  /// The value of the op with that number, or null.
  const reference::Tensor *find(int64_t number) const;

private:
  std::map<int64_t, reference::Tensor> values;
};

/// An op whose result, or a cast whose result, is not finite where float64's
/// is.
struct Overflow {
  /// The op; of a cast, what it casts.
  std::string op;
  /// "cast", or the op's kind for policies.
  std::string kind;
  /// The op's layer path, may be empty.
  std::string layer;
  /// The type that the value has left, as "f16".
  std::string type;

  /// "'square' (mul, f16, layer encoder/0)".
  std::string text() const;
};

/// Finds the first overflow of a run in program order.
class OverflowFinder {
public:
  /// `wanted` holds the float64 results of the graph's numbered ops,
  /// `arguments` what the run begins with. Both must outlive the finder.
  OverflowFinder(const OpValues &wanted,
                 llvm::ArrayRef<reference::Tensor> arguments)
      : wanted(wanted), arguments(arguments) {}

  /// Looks at a run of the numbered graph with its declared types.
  OpObserver observer();
  /// Looks at one result of `op`, in program order.
  void look(mlir::Operation *op, const reference::Tensor &result);

  const std::optional<Overflow> &first() const { return found; }

private:
  const OpValues &wanted;
  llvm::ArrayRef<reference::Tensor> arguments;
  std::optional<Overflow> found;
};

} // namespace mpc

#endif // MPC_LIB_JIT_OPTRACE_H
