//===- TensorReader.h - decoding of tensors ---------------------*- C++ -*-===//
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

/// Returns the size of one element in mpc's memory layout, in bytes; 0 if
/// unsupported.
int64_t bytesOf(int32_t dataType);

/// Returns the size of `count` elements in a file, in bytes; sub-byte types are
/// packed.
int64_t storedBytes(int32_t dataType, int64_t count);

/// Converts file bytes to mpc's memory layout: one byte per sub-byte element, 0
/// or 1 for booleans.
void unpack(int32_t dataType, int64_t count, std::string &bytes);

/// Validates `proto` and moves its data into `tensor`. `what` names the tensor
/// in messages ("initializer 'w'").
mlir::LogicalResult readTensor(mpc_onnx::TensorProto &proto, TensorData &tensor,
                               mlir::Location location, llvm::StringRef what);

/// Returns the number of elements of `dims`; nullopt if an extent is negative,
/// the product overflows or the rank exceeds kMaxRank.
std::optional<int64_t> checkedCount(llvm::ArrayRef<int64_t> dims);

} // namespace mpc::onnx

#endif // MPC_LIB_IMPORT_ONNX_TENSORREADER_H
