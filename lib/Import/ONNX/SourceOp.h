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

/// What torch.export writes about the op that a node came from.
struct SourceOp {
  /// torch's name without namespace and overload: `linear`. Empty where the
  /// text names no op of ATen.
  std::string op;
  /// The op's own name in the exported graph: `linear_3`.
  std::string name;
};

/// Reads "%linear_3 : [...] = call_function[target=torch.ops.aten.linear.
/// default](args = ...)".
SourceOp parseFxNode(llvm::StringRef text);

} // namespace mpc::onnx

#endif // MPC_LIB_IMPORT_ONNX_SOURCEOP_H
