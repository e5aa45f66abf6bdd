//===- FusionKernel.h - a fusion as a kernel on tensors ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_FUSIONKERNEL_H
#define MPC_LIB_TARGET_CUDA_FUSIONKERNEL_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mpc {
class FusionOp;
} // namespace mpc

namespace mpc::cuda {

/// How a merged kernel runs a producer before its consumer: in every block as a
/// whole; as tiles, the block of the same index computing the operand of each
/// consumer block; or in blocks before those of the consumer, which wait.
enum class ProducerFusionKind { whole, tile, before };

/// On a producer, the name of its ProducerFusionKind; default: whole.
inline constexpr llvm::StringLiteral kProducerFusionAttr =
    "mpc.producer_fusion";

llvm::StringRef stringifyProducerFusion(ProducerFusionKind kind);
std::optional<ProducerFusionKind> symbolizeProducerFusion(llvm::StringRef name);

/// Creates a kernel that computes `fusion`, at the insertion point of
/// `builder`.
mlir::func::FuncOp kernelOf(FusionOp fusion, llvm::StringRef name,
                            mlir::OpBuilder &builder);

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_FUSIONKERNEL_H
