//===- Fusibility.h - what the fuser will do --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Pure functions that say which casts the Fuse stage absorbs, and a prediction
// of which values never leave a kernel. The Precision stage prices casts by
// them and the Fuse stage honours them.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_FUSIBILITY_H
#define MPC_ANALYSIS_FUSIBILITY_H

#include "mpc/Analysis/Fusion/ContractedDag.h"
#include "mpc/Dialect/Mpc/IR/MpcDialect.h"
#include "mpc/Target/TargetInfo.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>
#include <vector>

namespace mpc {

/// The facts of a target that decide which casts are free.
struct FusionTarget {
  /// Whether a contraction narrows its operands itself, while it loads them.
  /// The CPU's micro-kernels do not: they read 16-bit panels as they lie.
  bool narrowsContractionOperands = false;
  /// Whether a contraction that may round its f32 operands to tf32 does so. The
  /// CPU's compute f32, which the permission allows.
  bool roundsToTensorFloat32 = false;
  /// Whether contractions multiply f32 operands in two or three bf16 terms.
  bool splitsIntoBFloat16 = false;
  /// Whether contractions may be permitted to multiply f32 operands in three
  /// bf16 terms, which has f32's precision: a GPU's library may do so, its
  /// kernels compute f32.
  bool permitsBFloat16Terms = false;
  /// Whether contractions sum in 16 bits. The CPU's sum in f32 and round once.
  bool accumulatesNarrow = false;

  FusionTarget() = default;
  explicit FusionTarget(const TargetInfo &target)
      : roundsToTensorFloat32(target.kernels().roundsToTensorFloat32),
        permitsBFloat16Terms(target.kernels().permitsBFloat16Terms) {}
};

/// Whether a cast between floats that feeds operand `index` of `op` disappears
/// into the kernel of `op`: it loads the cast's input and converts in
/// registers.
bool absorbsCast(mlir::Operation *op, unsigned index,
                 const FusionTarget &target);

/// Whether a cast between floats of a result of `op` disappears into the kernel
/// of `op`: it converts in registers and stores the cast's result. False where
/// `op` makes no kernel (constants, views) or one without an epilogue.
bool absorbsResultCast(mlir::Operation *op, const FusionTarget &target);

/// Predicts which kernels mpc-fuse forms: contractions and pools take the
/// elementwise ops of their result's shape that follow, row kernels take those
/// before and after them, what is left joins in loops of one shape. A wrong
/// guess costs bytes or one rounding, never correctness.
class KernelPrediction {
public:
  explicit KernelPrediction(mlir::func::FuncOp func);

  /// Whether `value` is made and read inside one kernel, so that it never
  /// reaches memory.
  bool isInternal(mlir::Value value) const;

  /// Whether two ops are predicted to share a kernel.
  bool shareKernel(mlir::Operation *a, mlir::Operation *b) const;

  /// The same for all ops of one kernel, different for different kernels; null
  /// for ops without one (constants, the terminator).
  const void *kernelId(mlir::Operation *op) const;

  /// Kernels that were looked at to keep them free of cycles: the work done.
  int64_t getVisited() const { return dag.getVisited(); }

private:
  using Node = ContractedDag::Node;
  struct Kernel {
    /// The op that the kernel is built around; null for a loop.
    mlir::Operation *anchor = nullptr;
    /// Extents of its results.
    llvm::ArrayRef<int64_t> shape;
  };

  /// The kernel of `op`; nullopt for ops without one.
  std::optional<Node> kernelOf(mlir::Operation *op) const;
  /// Whether `op` is an elementwise op that no kernel has taken.
  bool isFree(mlir::Operation *op) const;
  /// Whether every reader of `op` is in `kernel`.
  bool isReadOnlyBy(mlir::Operation *op, Node kernel) const;
  /// Moves the ops of `from` into `into`; false where that makes a cycle.
  bool merge(Node into, Node from);
  void growEpilogue(mlir::Operation *anchor);
  void growPrologue(mlir::Operation *anchor);
  void joinLoops(mlir::Operation *op);

  llvm::SmallVector<mlir::Operation *> ops;
  /// A node for each of `ops`, with the same number.
  ContractedDag dag;
  llvm::DenseMap<mlir::Operation *, Node> nodes;
  /// The op before an anchor that its kernel has taken.
  llvm::DenseMap<mlir::Operation *, mlir::Operation *> prologues;
  /// By node: that of the op, and of all ops that were merged with it.
  std::vector<Kernel> kernels;
};

} // namespace mpc

#endif // MPC_ANALYSIS_FUSIBILITY_H
