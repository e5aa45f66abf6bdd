//===- TypedLayers.h - which types the layers of a model have ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sums up, per layer path, what a graph after Precision computes in, stores and
// reads as variables. Reads types only: what decides is in the plan.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_TYPEDLAYERS_H
#define MPC_ANALYSIS_TYPEDLAYERS_H

#include "mpc/Policy/Policy.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"

#include <string>
#include <vector>

namespace mpc {

/// The layer paths of a model as it was imported, and which nodes each holds:
/// passes that join ops of several layers keep the names of all.
class LayerPaths {
public:
  LayerPaths() = default;
  explicit LayerPaths(mlir::func::FuncOp func);

  /// In the order of the ops.
  llvm::ArrayRef<std::string> paths() const { return ordered; }
  /// Numbers of the layers that `op` stands for, its own path's first.
  llvm::SmallVector<unsigned, 2> layersOf(mlir::Operation *op) const;
  /// Whether other layers alone read the variable `name`.
  bool isOfOthers(llvm::StringRef name, unsigned layer) const;

private:
  std::vector<std::string> ordered;
  llvm::StringMap<unsigned> numbers;
  /// The layer of each node's name; kAmbiguous where two layers use the name.
  llvm::StringMap<unsigned> layerOfName;
  /// The layers that read each named argument or constant.
  llvm::StringMap<llvm::SmallVector<unsigned, 1>> readers;
};

/// How much of a layer has one type.
struct TypeAmount {
  std::string type;
  /// Ops or values.
  int64_t count = 0;
  /// Floating-point operations of contractions, or bytes.
  int64_t weight = 0;
};

/// A parameter that a layer reads.
struct TypedVariable {
  std::string name;
  /// "parameter", "statistics" or "constant".
  std::string role;
  /// What the policy keeps it in.
  std::string type;
  /// What memory holds of it.
  llvm::SmallVector<std::string, 2> stored;
};

struct TypedLayer {
  /// Empty for ops that no layer holds.
  std::string path;
  std::string policy;
  /// Of what outputs, losses and statistics are computed by, most work first.
  llvm::SmallVector<TypeAmount, 2> compute;
  /// Of what only gradients are computed by.
  llvm::SmallVector<TypeAmount, 2> gradient;
  /// Of results that other layers or the caller read, most bytes first.
  llvm::SmallVector<TypeAmount, 2> storage;
  std::vector<TypedVariable> variables;
};

/// The layers of `func`, which is after Precision by `policy`, in the order of
/// `paths`; one without a path last, where ops stand outside of all. Layers of
/// which nothing is left have no types. Empty where `func` computes no outputs
/// (the update of a training step). Linear in the ops.
std::vector<TypedLayer> typedLayers(mlir::func::FuncOp func,
                                    const LayerPaths &paths,
                                    const Policy &policy);

} // namespace mpc

#endif // MPC_ANALYSIS_TYPEDLAYERS_H
