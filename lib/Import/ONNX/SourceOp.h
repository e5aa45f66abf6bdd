//===- SourceOp.h - framework ops recorded by exporters ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_ONNX_SOURCEOP_H
#define MPC_LIB_IMPORT_ONNX_SOURCEOP_H

#include "llvm/ADT/StringRef.h"

#include <string>

namespace mpc::onnx {

/// Framework op that torch.export records for a node.
struct SourceOp {
  /// ATen name without namespace and overload: `linear`. Empty if the text
  /// names no ATen op.
  std::string op;
  /// Name of the op in the exported graph: `linear_3`.
  std::string name;
};

/// Parses "%linear_3 : [...] = call_function[target=torch.ops.aten.linear.
/// default](args = ...)".
SourceOp parseFxNode(llvm::StringRef text);

} // namespace mpc::onnx

#endif // MPC_LIB_IMPORT_ONNX_SOURCEOP_H
