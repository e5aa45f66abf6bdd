//===- LayerPath.h - layer paths recorded by exporters ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_ONNX_LAYERPATH_H
#define MPC_LIB_IMPORT_ONNX_LAYERPATH_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace mpc::onnx {

/// Parses a list of strings as printed by Python, "['a', 'b']"; empty if `text`
/// is not one.
llvm::SmallVector<llvm::StringRef> stringsOfList(llvm::StringRef text);

/// Returns the layer of a node from torch.export's scope list in the metadata:
/// "['', 'bert', 'bert.encoder', 'linear_5']" gives "bert/encoder". The last
/// entry is the operation itself. Empty if there is no scope.
std::string layerFromScopes(llvm::StringRef scopes);

/// Returns the layer of a node from its name by the TorchScript exporter:
/// "/layers/layers.4/bn1/BatchNormalization" gives "layers/4/bn1". Empty for
/// names that are not paths.
std::string layerFromName(llvm::StringRef nodeName);

} // namespace mpc::onnx

#endif // MPC_LIB_IMPORT_ONNX_LAYERPATH_H
