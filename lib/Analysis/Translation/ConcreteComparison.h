//===- ConcreteComparison.h - evaluation of unproved kernels ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_ANALYSIS_TRANSLATION_CONCRETECOMPARISON_H
#define MPC_LIB_ANALYSIS_TRANSLATION_CONCRETECOMPARISON_H

#include "PlannedMemory.h"

#include "mpc/Reference/Tensor.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace mpc::translation {

/// One launch as the symbolic evaluation saw it.
struct LaunchTerms {
  exe::LaunchOp launch;
  mlir::func::FuncOp kernel;
  /// Per operand, what it was read from.
  llvm::SmallVector<PlannedMemory::Read, 4> inputs;
  /// Per result: its tensor, its form, and whether the graph has a value of
  /// that form.
  llvm::SmallVector<TensorId, 1> results;
  llvm::SmallVector<ClosedForm, 1> forms;
  llvm::SmallVector<bool, 1> isKnown;
  bool isProved = false;
};

/// One result of the program.
struct ResultTerms {
  PlannedMemory::Read read;
  mlir::Value expected;
  bool isEqual = false;
};

/// Evaluates launches that are not proved, and the ops of the graph that they
/// stand for, with the interpreter on the same values. A value that both read
/// is filled by a hash of its function and the function's arguments, so that
/// its layout does not matter.
class ConcreteComparison {
public:
  ConcreteComparison(mlir::func::FuncOp graph, SymbolicTensors &tensors,
                     const llvm::DenseMap<mlir::Value, ClosedForm> &forms,
                     llvm::ArrayRef<LaunchTerms> launches,
                     llvm::ArrayRef<ResultTerms> results)
      : graph(graph), tensors(tensors), graphForms(forms), launches(launches),
        results(results) {}

  struct Outcome {
    bool isEqual = false;
    /// Launches that were compared together, in order.
    llvm::SmallVector<size_t> region;
    /// The values of the graph that the results of the last launch (if equal)
    /// or of the first one should be; empty if unknown, and null for a result
    /// that the graph has.
    llvm::SmallVector<mlir::Value> expected;
    /// Results of the program that were compared too.
    llvm::SmallVector<size_t> results;
    /// The first differing element.
    std::string text;
    /// The first launch has the ops that compute `expected`, and differs.
    bool isCertain = false;
  };
  /// Compares launch `first` and as many later ones as are needed to compute
  /// values of the graph.
  Outcome compareFrom(size_t first);
  /// Compares the results of the program that depend on launch `first` through
  /// values that the graph lacks; without a launch, all that are not equal.
  Outcome compareResults(std::optional<size_t> first);

private:
  /// Values that an evaluation starts from.
  enum class Round { Ordinary, Special, Small, Large };
  /// Launches at which a region from `first` may end: itself, the next two that
  /// depend on it and are not proved, the one that depends on it after the last
  /// one of the same ops of the model, and that one.
  llvm::SmallVector<size_t> ends(size_t first) const;
  /// Adds the launches that compute what `region` reads, unless the graph has
  /// it and the region need not start `fromArguments`.
  void close(std::set<size_t> &region, bool fromArguments = false) const;
  /// Names and positions of the model's ops that a launch computes.
  std::set<std::string> namesOf(size_t launch) const;
  /// Returns true if a launch may compute a part of a composite op.
  bool computesComposite(size_t launch);
  /// Values of the graph that result `number` of a launch may be, the likeliest
  /// first; null if the graph has the result.
  llvm::SmallVector<mlir::Value> candidates(size_t launch, unsigned number);
  /// Results of the program that only launches of a region write.
  llvm::SmallVector<size_t> resultsOf(const std::set<size_t> &region) const;
  /// Compares the results of a region's last launch with `expected`, which is
  /// empty if the graph has none, and the results `written` of the program;
  /// returns the first difference, or nullopt if they are equal: bit by bit, or
  /// within what the order of sums and composite ops change.
  std::optional<std::string> compare(const std::set<size_t> &region,
                                     llvm::ArrayRef<mlir::Value> expected,
                                     llvm::ArrayRef<size_t> written,
                                     bool isBitwise);
  /// Returns true if the launches of a region have the ops of the graph that
  /// compute `expected` from what the region reads, whatever their order.
  bool hasOpsOf(const std::set<size_t> &region,
                llvm::ArrayRef<mlir::Value> expected);

  /// Functions of the values that a region and results read from elsewhere.
  llvm::SmallVector<Expr> frontier(const std::set<size_t> &region,
                                   llvm::ArrayRef<size_t> written);
  /// Ops of the graph that compute `expected` from `start`, in order.
  llvm::SmallVector<mlir::Operation *>
  slice(llvm::ArrayRef<mlir::Value> expected, llvm::ArrayRef<Expr> start);

  reference::Tensor fill(const ClosedForm &form, mlir::RankedTensorType type,
                         Round round);
  /// A constant; one that is multiplied in a sum has small integers instead.
  const reference::Tensor &constant(mlir::ElementsAttr value, bool isFactor);

  mlir::func::FuncOp graph;
  SymbolicTensors &tensors;
  const llvm::DenseMap<mlir::Value, ClosedForm> &graphForms;
  llvm::ArrayRef<LaunchTerms> launches;
  llvm::ArrayRef<ResultTerms> results;
  /// Functions whose elements are multiplied in a sum.
  llvm::DenseSet<Expr> factors;
  /// Constants by attribute, and whether they are multiplied in a sum.
  std::map<std::pair<const void *, bool>, reference::Tensor> constants;
  /// Whether the last comparison had no tolerance.
  bool isExact = false;
};

} // namespace mpc::translation

#endif // MPC_LIB_ANALYSIS_TRANSLATION_CONCRETECOMPARISON_H
