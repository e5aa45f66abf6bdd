//===- ConstantOrigin.h - origin of a model's constants ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Importers store the origin in the constant's location; only passes that
// select trainable weights read it.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_CONSTANTORIGIN_H
#define MPC_DIALECT_MPC_IR_CONSTANTORIGIN_H

#include "mlir/IR/Operation.h"

#include <optional>
#include <string>

namespace mpc {

/// Where and with which metadata a model file stores a constant. Constants
/// created by an importer have no origin.
struct ConstantOrigin {
  enum class Kind {
    /// A Constant node of ONNX: a literal of the graph, or a weight.
    Node,
    /// An initializer without further metadata.
    Initializer,
    /// The exporter recorded a parameter of the framework's module.
    Parameter,
    /// The exporter recorded a buffer or a constant tensor.
    Buffer,
  };
  Kind kind = Kind::Initializer;
  /// Comma-separated parameters or buffers that the exporter computed the
  /// constant from; empty if it is one itself.
  std::string of = {};
  /// Whether the exporter recorded all parameters of the module, and not this
  /// tensor.
  bool isUnrecorded = false;

  /// Returns `location` with this origin.
  mlir::Location mark(mlir::Location location) const;
  /// Returns the origin in the op's location, or nullopt.
  static std::optional<ConstantOrigin> get(mlir::Operation *op);
};

} // namespace mpc

#endif // MPC_DIALECT_MPC_IR_CONSTANTORIGIN_H
