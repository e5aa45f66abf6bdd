//===- SelectGemms.cpp - products that the library computes ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Replaces launches whose kernels are one product with an epilogue of the
// library (GemmMatch.cpp) by exe.gemm. Last pass of the Plan stage, for GPUs.
//
//===----------------------------------------------------------------------===//

#include "GemmMatch.h"

#include "mpc/Dialect/Exe/Transforms/Passes.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <optional>

namespace mpc {
#define GEN_PASS_DEF_SELECTGEMMSPASS
#include "mpc/Dialect/Exe/Transforms/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
struct SelectGemmsPass : mpc::impl::SelectGemmsPassBase<SelectGemmsPass> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    SymbolTable symbols(module);
    llvm::StringMap<std::optional<GemmMatch>> matches;
    for (auto program : module.getOps<exe::ProgramOp>())
      for (exe::LaunchOp launch : program.getLaunches()) {
        auto kernel = symbols.lookup<func::FuncOp>(launch.getKernel());
        if (!kernel || kernel.isExternal() ||
            launch.getKind() != FusionKind::contraction)
          continue;
        std::optional<GemmMatch> &match = matches[launch.getKernel()];
        if (!match)
          match.emplace(kernel);
        if (match->problem()) {
          replace(launch, *match);
          ++numGemms;
        } else {
          emitRemark(launch.getLoc())
              << "kernel '" << launch.getKernel()
              << "' is no library call: " << match->reason();
        }
      }
    eraseUnused(module);
  }

private:
  static void replace(exe::LaunchOp launch, const GemmMatch &match) {
    OpBuilder builder(launch);
    SmallVector<Attribute> inputs;
    for (int64_t number : match.arguments())
      inputs.push_back(launch.getInputs()[number]);
    StringRef name = launch.getKernel();
    name.consume_front("k_");
    auto gemm = exe::GemmOp::create(
        builder, launch.getLoc(), builder.getStringAttr(name), match.problem(),
        launch.getOpsAttr(), launch.getFlopsAttr(), launch.getBytesAttr(),
        builder.getArrayAttr(inputs), launch.getOutputsAttr());
    gemm->setDiscardableAttrs(launch->getDiscardableAttrDictionary());
    launch.erase();
  }

  /// Kernels that nothing launches any more.
  static void eraseUnused(ModuleOp module) {
    llvm::StringSet<> used;
    module.walk([&](exe::LaunchOp launch) { used.insert(launch.getKernel()); });
    for (auto kernel :
         llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
      if (kernel->hasAttr("mpc.kernel_kind") &&
          !used.contains(kernel.getName()))
        kernel.erase();
  }
};
} // namespace
