//===- GemmTesting.h - GEMMs with explicit tiles ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_UNIT_TARGET_CUDA_GEMMTESTING_H
#define MPC_TEST_UNIT_TARGET_CUDA_GEMMTESTING_H

#include "Target/CUDA/Gemm/Gemm.h"

#include <functional>
#include <string>

namespace mpc {

/// The GEMM problem of a kernel `@k`, with the module that contains it.
struct ParsedGemm {
  ParsedGemm(const std::string &text, const cuda::CudaTarget &target);
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp kernel;
  std::optional<cuda::FusedGemm> problem;
};

/// Tiles that a kernel may be cut into.
std::vector<cuda::GemmTiles> tilesOf(const std::string &text,
                                     const cuda::CudaTarget &target);

/// A kernel whose schedule is fixed.
struct ForcedGemm {
  std::string text;
  cuda::Schedule schedule;
};
/// The kernel `text` cut into its tiles number `number`.
ForcedGemm withTiles(const std::string &text, size_t number,
                     const cuda::CudaTarget &target);

} // namespace mpc

#endif // MPC_TEST_UNIT_TARGET_CUDA_GEMMTESTING_H
