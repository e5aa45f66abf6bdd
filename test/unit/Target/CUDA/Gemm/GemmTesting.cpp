//===- GemmTesting.cpp - GEMMs with explicit tiles ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GemmTesting.h"

#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

ParsedGemm::ParsedGemm(const std::string &text, const CudaTarget &target) {
  DialectRegistry registry;
  registry.insert<MpcDialect, func::FuncDialect>();
  context =
      std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  // Schedules hold teams.
  context->loadDialect<tile::TileDialect>();
  module = parseSourceString<ModuleOp>(text, context.get());
  if (!module) {
    ADD_FAILURE() << "cannot parse\n" << text;
    return;
  }
  kernel = module->lookupSymbol<func::FuncOp>("k");
  problem = FusedGemm::matmul(kernel, target);
  if (!problem)
    problem = FusedGemm::convolution(kernel, target);
  if (!problem)
    problem = FusedGemm::filterGradient(kernel, target);
}

std::vector<GemmTiles> mpc::tilesOf(const std::string &text,
                                    const CudaTarget &target) {
  ParsedGemm gemm(text, target);
  return gemm.problem ? GemmTiles::candidates(*gemm.problem, target)
                      : std::vector<GemmTiles>();
}

ForcedGemm mpc::withTiles(const std::string &text, size_t number,
                          const CudaTarget &target) {
  ParsedGemm gemm(text, target);
  ForcedGemm result;
  GemmTiles tiles = GemmTiles::candidates(*gemm.problem, target).at(number);
  bool isMatmul = isa<MatmulOp>(gemm.problem->anchor),
       isConv = isa<ConvOp>(gemm.problem->anchor);
  std::unique_ptr<GemmPlan> plan =
      GemmPlan::of(gemm.kernel, target, std::move(gemm.problem));
  std::optional<Schedule> schedule =
      plan ? plan->scheduleWith(tiles) : std::nullopt;
  if (!schedule) {
    ADD_FAILURE() << "no schedule for\n" << text;
    return result;
  }
  schedule->family = isMatmul ? "gemm" : isConv ? "convolution" : "filter";
  result.schedule = *schedule;
  gemm.kernel->setAttr(exe::kScheduleAttr,
                       schedule->toAttribute(gemm.context.get()));
  llvm::raw_string_ostream os(result.text);
  gemm.module->print(os);
  return result;
}
