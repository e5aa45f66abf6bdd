//===- OperandChanges.h - changes by quantized operands ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A policy's quantization of weights, operands and KV caches, evaluated in
// float64: what it changes in each operand, and how the numbers of each format
// are used.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TUNING_OPERANDCHANGES_H
#define MPC_TUNING_OPERANDCHANGES_H

#include "mpc/Policy/NamedPolicy.h"
#include "mpc/Tuning/CorrespondingErrors.h"
#include "mpc/Tuning/ReverseMode.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"

#include <limits>
#include <utility>
#include <vector>

namespace mpc {

/// How an operand uses the numbers of its format, over all elements seen. An
/// element is its number times a scale.
struct OperandUsage {
  /// Short description of the format.
  std::string format;
  int64_t elements = 0;
  /// Elements beyond the largest number, and elements other than zero that
  /// become zero.
  int64_t saturated = 0, flushed = 0;
  /// Smallest and largest scale.
  double leastScale = std::numeric_limits<double>::infinity(), mostScale = 0;

  double saturatedShare() const { return share(saturated); }
  double flushedShare() const { return share(flushed); }

private:
  double share(int64_t count) const {
    return elements > 0 ? double(count) / double(elements) : 0;
  }
};

/// The contractions of a function whose weights or operands a policy quantizes,
/// and the concatenations whose rows it stores in another type (KV caches).
class OperandChanges {
public:
  /// An operand of a contraction or concatenation.
  using Operand = std::pair<mlir::Operation *, unsigned>;
  /// For each operand its quantized value minus its value, by element.
  using Changes = llvm::DenseMap<Operand, std::vector<float>>;

  /// Quantizes a copy of `function`, which is in f32 after Simplify, by
  /// `policy` with the overrides `sets`. Reports failures.
  static mlir::FailureOr<OperandChanges>
  create(mlir::func::FuncOp function, const NamedPolicy &policy,
         llvm::ArrayRef<std::string> sets);

  /// Runs the copy on the arguments of `forward`, values of the function, and
  /// returns what quantization changes in these. Gradients of rounded operands
  /// are not quantized. Reports failures.
  mlir::FailureOr<Changes> run(ForwardValues &forward);

  /// The quantized operands, in the order of their ops.
  llvm::ArrayRef<Operand> getOperands() const { return operands; }
  /// Usage over all runs; null for weights and caches stored in a format.
  const OperandUsage *usageOf(const Operand &operand) const {
    auto found = usage.find(operand);
    return found == usage.end() ? nullptr : &found->second;
  }

private:
  /// The values of an operand before it was rounded, computed along with it.
  struct Unrounded {
    /// With and without the scales of blocks.
    reference::Tensor scaled, number;
    double largest = 0;
  };
  void collect(mlir::Operation *op, mlir::Operation *own);
  void follow(mlir::Operation *op, mlir::ArrayRef<reference::Tensor> results);
  /// Returns the changes of one operand from its value `own` to `quantized`.
  std::vector<float> compare(const Operand &operand, const Unrounded &unrounded,
                             const reference::Tensor &own,
                             const reference::Tensor &quantized);

  mlir::OwningOpRef<mlir::ModuleOp> copy;
  llvm::SmallVector<Operand> operands;
  /// By value of the copy: the operands that it is.
  llvm::DenseMap<mlir::Value, llvm::SmallVector<Operand, 1>> readers;
  /// Ops of the copy between a rounding and an operand, the rounding included.
  llvm::DenseSet<mlir::Operation *> chain;
  /// Values of the copy that these ops read.
  llvm::DenseSet<mlir::Value> wanted;
  llvm::DenseMap<mlir::Value, reference::Tensor> kept;
  llvm::DenseMap<mlir::Value, Unrounded> unrounded;
  llvm::MapVector<Operand, OperandUsage> usage;
};

} // namespace mpc

#endif // MPC_TUNING_OPERANDCHANGES_H
