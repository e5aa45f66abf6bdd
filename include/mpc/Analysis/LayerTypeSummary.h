//===- LayerTypeSummary.h - types per layer of a model ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Summarizes, per layer path, the compute types, storage types and variables of
// a graph after Precision. Reads types only; the reasons are in the plan.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_LAYERTYPESUMMARY_H
#define MPC_ANALYSIS_LAYERTYPESUMMARY_H

#include "mpc/Policy/Policy.h"
#include "mpc/Runtime/Layers.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"

#include <string>
#include <vector>

namespace mpc {

/// The layer paths of a model as imported, and the nodes of each: passes that
/// merge ops of several layers preserve all names.
class LayerPaths {
public:
  LayerPaths() = default;
  explicit LayerPaths(mlir::func::FuncOp func);

  /// In the order of the ops.
  llvm::ArrayRef<std::string> paths() const { return ordered; }
  /// Indices of the layers of `op`, its own path's first.
  llvm::SmallVector<unsigned, 2> layersOf(mlir::Operation *op) const;
  /// Returns true if only other layers read the variable `name`.
  bool isOfOthers(llvm::StringRef name, unsigned layer) const;

private:
  std::vector<std::string> ordered;
  llvm::StringMap<unsigned> numbers;
  /// The layer of each node's name; kAmbiguous where two layers use the name.
  llvm::StringMap<unsigned> layerOfName;
  /// The layers that read each named argument or constant.
  llvm::StringMap<llvm::SmallVector<unsigned, 1>> readers;
};

/// Returns the layers of `func`, which is after Precision by `policy`, in the
/// order of `paths`, then one without a path for ops outside all layers. Layers
/// without remaining ops have no types. Empty if `func` computes no outputs
/// (the update of a training step). Linear in the ops.
std::vector<LayerTypes> typedLayers(mlir::func::FuncOp func,
                                    const LayerPaths &paths,
                                    const Policy &policy);

} // namespace mpc

#endif // MPC_ANALYSIS_LAYERTYPESUMMARY_H
