//===- FusionPasses.cpp - shared code of the fusion passes ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Selects the block and target for a fusion pass, and builds the pipeline of
// the four passes.
//
//===----------------------------------------------------------------------===//

#include "FusionPasses.h"

#include "mpc/Dialect/Exe/IR/ExeDialect.h"
#include "mpc/Dialect/Mpc/IR/MpcFusionOps.h"
#include "mpc/Support/EscapedText.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"

using namespace mlir;
using namespace mpc;

FailureOr<FusionScope> mpc::scopeOf(func::FuncOp function, const Pass &pass,
                                    const std::string &target) {
  FusionScope scope;
  if (function.isExternal() || !function.getOps<FusionOp>().empty())
    return scope;
  if (!function.getBody().hasOneBlock())
    return function.emitError()
           << pass.getArgument() << " needs a function of one block, found "
           << function.getBody().getBlocks().size();
  FailureOr<TargetInfo> info = exe::targetOf(function, target);
  if (failed(info))
    return failure();
  scope.target = *info;
  scope.block = &function.getBody().front();
  return scope;
}

void mpc::eraseDeadOps(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

std::string mpc::identifierOf(Operation *op) {
  StringRef name = op->getName().stripDialect();
  Location loc = op->getLoc();
  if (auto fused = dyn_cast<FusedLoc>(loc);
      fused && !fused.getLocations().empty())
    loc = fused.getLocations().front();
  if (auto named = dyn_cast<NameLoc>(loc); named && !named.getName().empty())
    name = named.getName().getValue();
  std::string text = identifierPart(name);
  return text.empty() ? op->getName().stripDialect().str() : text;
}

void mpc::addFusionPasses(OpPassManager &functions,
                          const SelectFusionGroupsPassOptions &options) {
  functions.addPass(createPrepareFusionPass({options.target}));
  functions.addPass(createSelectFusionGroupsPass(options));
  functions.addPass(createFuseHorizontalPass({options.target}));
  functions.addPass(createOutlineFusionsPass());
}

namespace {

struct FusionOptions : PassPipelineOptions<FusionOptions> {
  Option<std::string> target{
      *this, "target",
      llvm::cl::desc("target in place of the module's exe.target")};
  Option<bool> report{*this, "report",
                      llvm::cl::desc("emit a remark for each decision")};
};

} // namespace

void mpc::registerFusionPipeline() {
  PassPipelineRegistration<FusionOptions>(
      "mpc-fuse", "Group ops into the regions that become kernels",
      [](OpPassManager &manager, const FusionOptions &options) {
        bool isOfFunctions =
            manager.getOpName() == func::FuncOp::getOperationName();
        addFusionPasses(isOfFunctions ? manager : manager.nest<func::FuncOp>(),
                        {options.target, options.report});
      });
}
