//===- LayerPath.h - module scopes recorded by exporters --------*- C++ -*-===//
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

/// The strings of a list as Python prints it, "['a', 'b']"; empty where `text`
/// is none.
llvm::SmallVector<llvm::StringRef> stringsOfList(llvm::StringRef text);

/// The layer of a node from the scope list that torch.export writes into
/// metadata:
/// "['', 'bert', 'bert.encoder', 'linear_5']" gives "bert/encoder". The last
/// entry is the operation itself. Empty where there is no scope.
std::string layerFromScopes(llvm::StringRef scopes);

/// The layer of a node from its name as the TorchScript exporter writes it:
/// "/layers/layers.4/bn1/BatchNormalization" gives "layers/4/bn1". Empty for
/// names that are no paths.
std::string layerFromName(llvm::StringRef nodeName);

} // namespace mpc::onnx

#endif // MPC_LIB_IMPORT_ONNX_LAYERPATH_H
