//===- Keras.h - helpers of the Keras replays -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_REPLAY_KERAS_H
#define MPC_TOOLS_REPLAY_KERAS_H

#include "Replay.h"

#include "mpc/Policy/Policy.h"

namespace mpc::replay {

/// The graph of one Keras layer, for a function whose body it is.
struct KerasLayerGraph {
  /// Types of the layer's inputs (f32 where float), as text.
  std::vector<std::string> inputs;
  /// Ops of the layer. `%x0`, `%x1` ... are the inputs, `%y` the result, `{L}`
  /// the layer's attribute, `{L/SUB}` that of a layer inside it.
  std::string body;
  /// Type of the result, as text.
  std::string result;
  /// Layers inside it.
  std::vector<std::string> sublayers;
};

/// The graph of a recorded layer kind, empty body where the dialect lacks it.
KerasLayerGraph kerasLayerGraph(llvm::StringRef kind);

/// One layer of a model: its path, its graph, the values that enter it and the
/// value that it defines, without '%'.
struct KerasModelLayer {
  std::string path;
  KerasLayerGraph graph;
  std::vector<std::string> inputs;
  std::string result;
};

/// A module whose function @main holds `layers` in order. `arguments` are
/// (name, type) pairs; the last layer's result is returned, as f32.
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>>
buildKerasModel(llvm::ArrayRef<std::pair<std::string, std::string>> arguments,
                llvm::ArrayRef<KerasModelLayer> layers,
                mlir::MLIRContext &context);

/// Runs mpc-assign-precision under a policy of the algorithm keras_layers that
/// starts from Keras' policy `global` and maps `layers` (path -> policy name or
/// object, as in a policy file).
llvm::Error assignKerasPolicy(mlir::ModuleOp module, const Policy &global,
                              const Json &layers);

/// The Keras name of the type that @main returns, before the final upcast to
/// the type of the signature.
std::string returnedType(mlir::ModuleOp module);

/// Whether an entry records that Keras refused.
bool isRefusal(const Json &row);

} // namespace mpc::replay

#endif // MPC_TOOLS_REPLAY_KERAS_H
