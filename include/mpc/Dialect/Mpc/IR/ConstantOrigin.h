//===- ConstantOrigin.h - where a model's constants come from ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Importers record it in the constant's location, which no pass reads but those
// that decide what training may change.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_CONSTANTORIGIN_H
#define MPC_DIALECT_MPC_IR_CONSTANTORIGIN_H

#include "mlir/IR/Operation.h"

#include <optional>
#include <string>

namespace mpc {

/// Where a model file stores a constant, and what it says of it. Constants that
/// an importer itself makes have no origin.
struct ConstantOrigin {
  enum class Kind {
    /// A node of its own (ONNX's Constant): a literal of the graph, or a
    /// weight.
    Node,
    /// An initializer of which nothing more is recorded.
    Initializer,
    /// The exporter recorded a parameter of the framework's module.
    Parameter,
    /// The exporter recorded a buffer or a constant tensor.
    Buffer,
  };
  Kind kind = Kind::Initializer;
  /// The parameters or buffers that the exporter computed the constant from,
  /// separated by commas; empty where it is one of them itself.
  std::string of = {};

  /// `location` with this origin.
  mlir::Location mark(mlir::Location location) const;
  /// The origin in the op's location; nothing where there is none.
  static std::optional<ConstantOrigin> get(mlir::Operation *op);
};

} // namespace mpc

#endif // MPC_DIALECT_MPC_IR_CONSTANTORIGIN_H
