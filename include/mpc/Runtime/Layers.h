//===- Layers.h - precision types of a model's layers -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compute, storage and variable types of the layers of a compiled model, like
// Keras's compute_dtype, dtype and variable_dtype. Type names are those of `mpc
// explain`: "bf16", "f32", "tf32".
//
//===----------------------------------------------------------------------===//

#ifndef MPC_RUNTIME_LAYERS_H
#define MPC_RUNTIME_LAYERS_H

#include "mpc/Runtime/Status.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mpc {

/// Share of a layer with one type.
struct TypeShare {
  std::string type;
  /// Number of ops that compute in the type, or of values stored in it.
  int64_t count = 0;
  /// FLOPs of the contractions among these ops, or size of these values in
  /// bytes.
  int64_t weight = 0;

  bool operator==(const TypeShare &) const = default;
};

/// A parameter or running statistic that a layer reads.
struct VariableType {
  /// Name of the argument in a training step, else of the constant.
  std::string name;
  /// "parameter", "statistics", or "constant" if its value is part of the
  /// program.
  std::string role;
  /// Type of the variable by the policy; in a training step, of the master
  /// weight that the optimizer updates.
  std::string type;
  /// Types in which the program stores it. A weight that is read only in 16
  /// bits is a 16-bit constant; a training step has a 16-bit copy in addition
  /// to the master.
  std::vector<std::string> stored;

  bool operator==(const VariableType &) const = default;
};

/// Precision types of one layer. A plain value.
struct LayerTypes {
  /// Path, as in `layer:` overrides: "encoder/block_0/attention"; empty for ops
  /// outside of any layer.
  std::string path;
  /// Name of the layer's policy.
  std::string policy;
  /// Compute types of its ops, sorted by contraction work, descending. Ops that
  /// only move data count if there are no others.
  std::vector<TypeShare> compute;
  /// The same for its gradient ops; empty outside of a training step.
  std::vector<TypeShare> gradient;
  /// Storage types of its results in memory, sorted by bytes, descending.
  std::vector<TypeShare> storage;
  std::vector<VariableType> variables;

  /// Returns true if the layer has no ops left: they were constant-folded or
  /// deduplicated. Such a layer has no types.
  bool isFolded() const { return compute.empty(); }
  /// Return the first type of each list, or of the first variable; empty if
  /// there is none.
  std::string computeType() const;
  std::string storageType() const;
  std::string variableType() const;

  bool operator==(const LayerTypes &) const = default;
};

/// Returns the types of layer `path` and its sublayers (paths that start with
/// `path` and a slash): shares are summed, although an op of several layers
/// counts for each; a variable appears once; the policy is empty if the layers
/// have several. An empty path means the whole model. NotFound, with similar
/// paths, if there is no such layer. Linear in the number of layers.
Result<LayerTypes> findLayer(std::span<const LayerTypes> layers,
                             const std::string &path);

} // namespace mpc

#endif // MPC_RUNTIME_LAYERS_H
