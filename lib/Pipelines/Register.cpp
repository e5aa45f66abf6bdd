//===- Register.cpp - registration of dialects and passes -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Cuda/IR/CudaOps.h"
#include "mpc/Dialect/Exe/IR/ExeDialect.h"
#include "mpc/Dialect/Exe/Transforms/Passes.h"
#include "mpc/Dialect/Mpc/Training/Passes.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"
#include "mpc/Dialect/Mpc/Vjp/Vjp.h"
#include "mpc/Dialect/Stablehlo/IR/StablehloOps.h"
#include "mpc/Dialect/Tile/IR/TileOps.h"
#include "mpc/InitAllDialects.h"
#include "mpc/InitAllPasses.h"
#include "mpc/Pipelines/Pipelines.h"
#include "mpc/Target/CPU/Passes.h"
#include "mpc/Target/CUDA/Passes.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

void mpc::registerAllDialects(DialectRegistry &registry) {
  registry
      .insert<MpcDialect, exe::ExeDialect, cuda::CudaDialect, tile::TileDialect,
              stablehlo::StablehloDialect, chlo::ChloDialect, func::FuncDialect,
              gpu::GPUDialect, arith::ArithDialect, cf::ControlFlowDialect,
              math::MathDialect, memref::MemRefDialect, scf::SCFDialect,
              vector::VectorDialect, LLVM::LLVMDialect>();
  registerVjpModels(registry);
}

void mpc::registerAllPasses() {
  registerMpcPasses();
  registerFusionPipeline();
  registerMpcTrainingPasses();
  registerMpcExePasses();
  registerMpcTargetCPUPasses();
  registerMpcTargetCUDAPasses();
  registerCanonicalizerPass();
  registerCSEPass();
  registerSymbolDCEPass();
  registerPipelines();
}
