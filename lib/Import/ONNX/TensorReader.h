//===- TensorReader.h - tensors of an ONNX file -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_ONNX_TENSORREADER_H
#define MPC_LIB_IMPORT_ONNX_TENSORREADER_H

#include "Graph.h"

namespace mpc_onnx {
class TensorProto;
}

namespace mpc::onnx {

/// Bytes of one element in mpc's memory layout; 0 where mpc has no such type.
int64_t bytesOf(int32_t dataType);

/// Bytes of `count` elements in a file, which packs types below a byte.
int64_t storedBytes(int32_t dataType, int64_t count);

/// Brings the bytes of a file into mpc's memory layout: one byte per element of
/// fewer bits, 0 or 1 for booleans.
void unpack(int32_t dataType, int64_t count, std::string &bytes);

/// Checks `proto` and moves its data into `tensor`. `what` names the tensor in
/// messages ("initializer 'w'").
mlir::LogicalResult readTensor(mpc_onnx::TensorProto &proto, TensorData &tensor,
                               mlir::Location location, llvm::StringRef what);

/// Elements of `dims`; nullopt where an extent is negative, the product does
/// not fit or there are more than kMaxRank.
std::optional<int64_t> checkedCount(llvm::ArrayRef<int64_t> dims);

} // namespace mpc::onnx

#endif // MPC_LIB_IMPORT_ONNX_TENSORREADER_H
