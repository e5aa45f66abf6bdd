//===- Layers.h - the types of a model's layers -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// In which types the layers of a compiled model compute, hand on their results
// and keep their variables: what Keras calls compute_dtype, dtype and
// variable_dtype. Types are named as `mpc explain` names them: "bf16", "f32",
// "tf32".
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

/// How much of a layer has one type.
struct TypeShare {
  std::string type;
  /// Ops that compute in it, or values that are stored in it.
  int64_t count = 0;
  /// Floating-point operations of the contractions among these ops, or bytes of
  /// these values.
  int64_t weight = 0;

  bool operator==(const TypeShare &) const = default;
};

/// A parameter or a running statistic that a layer reads.
struct VariableType {
  /// The argument's name in a training step, the constant's elsewhere.
  std::string name;
  /// "parameter", "statistics", or "constant" where its value is part of the
  /// program.
  std::string role;
  /// The type that the variable has by the policy: in a training step that of
  /// the master, which the optimizer updates.
  std::string type;
  /// The types in which the program holds it. A weight that is read in 16 bits
  /// alone is a 16-bit constant; in a training step a 16-bit copy stands beside
  /// the master.
  std::vector<std::string> stored;

  bool operator==(const VariableType &) const = default;
};

/// The types of one layer. A plain value.
struct LayerTypes {
  /// The path as `layer:` overrides name it: "encoder/block_0/attention"; empty
  /// for ops that no layer holds.
  std::string path;
  /// The name of the policy that the layer has.
  std::string policy;
  /// What its ops compute in, the type with most contraction work first. Ops
  /// that only move elements count where there is nothing else.
  std::vector<TypeShare> compute;
  /// The same of the ops that compute its gradients; empty outside of a
  /// training step.
  std::vector<TypeShare> gradient;
  /// How the results that others read stand in memory, the type of most bytes
  /// first.
  std::vector<TypeShare> storage;
  std::vector<VariableType> variables;

  /// Whether no op of the layer is left: it was folded into constants or its
  /// values were computed elsewhere already. Such a layer has no types.
  bool isFolded() const { return compute.empty(); }
  /// The first type of each list, of variables the first one's; empty where
  /// there is none.
  std::string computeType() const;
  std::string storageType() const;
  std::string variableType() const;

  bool operator==(const LayerTypes &) const = default;
};

/// The types of the layer `path` of `layers` and of those inside of it, which
/// have its path and a slash in front of their own: shares are added up, though
/// an op that stands for several layers counts for each, a variable that
/// several read appears once, and the policy is empty where these have several.
/// An empty path means the whole model. NotFound, with the paths that look like
/// it, where there is no such layer. Takes time in the number of layers.
Result<LayerTypes> findLayer(std::span<const LayerTypes> layers,
                             const std::string &path);

} // namespace mpc

#endif // MPC_RUNTIME_LAYERS_H
