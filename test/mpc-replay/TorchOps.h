//===- TorchOps.h - torch's functions as graphs -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers the functions, methods and operators of torch's Python interface to
// mpc ops. A function that torch itself runs as several ops becomes several
// calls, unless a list of the policy names the function.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_REPLAY_TORCHOPS_H
#define MPC_TOOLS_REPLAY_TORCHOPS_H

#include "TorchExpression.h"
#include "TorchGraph.h"

#include <map>

namespace mpc::replay {

/// A Python value of an expression.
struct Object {
  enum class Kind { None, Tensor, Number, Bool, Text, Sequence, Type };
  Kind kind = Kind::None;
  mlir::Value tensor;
  double number = 0;
  std::string text; ///< also a type's short name
  std::vector<Object> items;

  Object() = default;
  Object(mlir::Value tensor) : kind(Kind::Tensor), tensor(tensor) {}
  static Object makeNumber(double value) {
    Object object;
    object.kind = Kind::Number;
    object.number = value;
    return object;
  }
  static Object makeSequence(std::vector<Object> items) {
    Object object;
    object.kind = Kind::Sequence;
    object.items = std::move(items);
    return object;
  }
};

/// The arguments of one call.
struct Arguments {
  std::vector<Object> positional;
  std::map<std::string, Object> keywords;

  /// Argument `index`, or keyword `name`; null if both are absent.
  const Object *find(size_t index, const std::string &name) const;
  mlir::Value tensor(size_t index, const std::string &name = "") const;
  double number(size_t index, const std::string &name, double absent) const;
  bool flag(size_t index, const std::string &name, bool absent) const;
  std::string text(const std::string &name, const std::string &absent) const;
  /// A number or a sequence of numbers.
  Shape integers(size_t index, const std::string &name, Shape absent) const;
  std::vector<mlir::Value> tensors(size_t index) const;
};

using TorchFunction =
    std::function<Object(TorchGraph &graph, const Arguments &arguments)>;
using TorchFunctions = std::map<std::string, TorchFunction>;

void addElementwise(TorchFunctions &functions);
void addContractions(TorchFunctions &functions);
void addReductions(TorchFunctions &functions);
void addMovement(TorchFunctions &functions);
void addLayers(TorchFunctions &functions);
void addLosses(TorchFunctions &functions);

/// All functions, by name without `torch.` or `F.`; methods have the names of
/// functions.
const TorchFunctions &torchFunctions();

/// Evaluates `expression`; `environment` defines its names. Throws NotCovered.
Object evaluate(TorchGraph &graph, const Expression &expression,
                const std::map<std::string, Object> &environment);

/// Python's `axis` of a tensor of that rank.
int64_t wrapAxis(int64_t axis, int64_t rank);

} // namespace mpc::replay

#endif // MPC_TOOLS_REPLAY_TORCHOPS_H
