//===- Lowering.cpp - kernel bodies to LLVM dialect -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelEmitters.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/UBToLLVM/UBToLLVM.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/Transforms/LoweringPatterns.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Transforms/CSE.h"
#include "mlir/Transforms/DialectConversion.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cpu;

void cpu::registerLoweringInterfaces(DialectRegistry &registry) {
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
}

/// LLVM simplifies blocks, and whatever a second visit of every op would find.
static GreedyRewriteConfig visitOnce() {
  return GreedyRewriteConfig().setMaxIterations(1).setRegionSimplificationLevel(
      GreedySimplifyRegionLevel::Disabled);
}

/// Converts all dialects but scf in one conversion. A pass for each would visit
/// every op ten times, which takes three times as long.
static LogicalResult convertToLlvm(ModuleOp module) {
  MLIRContext *context = module.getContext();
  LowerToLLVMOptions options(context);
  options.useBarePtrCallConv = true;
  LLVMTypeConverter converter(context, options);
  RewritePatternSet patterns(context);
  arith::populateArithToLLVMConversionPatterns(converter, patterns);
  cf::populateControlFlowToLLVMConversionPatterns(converter, patterns);
  populateFuncToLLVMConversionPatterns(converter, patterns);
  populateMathToLLVMConversionPatterns(converter, patterns);
  populateFinalizeMemRefToLLVMConversionPatterns(converter, patterns);
  ub::populateUBToLLVMConversionPatterns(converter, patterns);
  vector::populateVectorMaskOpLoweringPatterns(patterns);
  vector::populateVectorStepLoweringPatterns(patterns);
  populateVectorToLLVMConversionPatterns(converter, patterns,
                                         /*reassociateFPReductions=*/true);
  LLVMConversionTarget target(*context);
  target.addLegalOp<ModuleOp, UnrealizedConversionCastOp>();
  ConversionConfig config;
  // No pattern fails after a change; keeping rollback state costs half of the
  // time.
  config.allowPatternRollback = false;
  config.foldingMode = DialectConversionFoldingMode::Never;
  if (failed(applyFullConversion(module, target, std::move(patterns), config)))
    return failure();
  // Emitters reinterpret a memref's element type by such casts.
  SmallVector<UnrealizedConversionCastOp> casts;
  module.walk([&](UnrealizedConversionCastOp cast) { casts.push_back(cast); });
  reconcileUnrealizedCasts(casts);
  return success();
}

/// Folds memref descriptors, which `convertToLlvm` leaves, and runs CSE: the
/// size of a kernel decides whether its body is inlined.
static void foldDescriptors(ModuleOp module) {
  FrozenRewritePatternSet none;
  IRRewriter rewriter(module.getContext());
  DominanceInfo dominance;
  for (auto function : module.getOps<LLVM::LLVMFuncOp>()) {
    // Without convergence the result is less folded, but correct.
    (void)applyPatternsGreedily(function.getBody(), none, visitOnce());
    eliminateCommonSubExpressions(rewriter, dominance, function);
  }
}

LogicalResult cpu::lowerToLlvm(ModuleOp module) {
  PassManager passes(module->getContext(), module->getName().getStringRef());
  passes.addPass(createCanonicalizerPass(visitOnce()));
  passes.addPass(createCSEPass());
  // Loop-invariant index arithmetic is hoisted while loops are still visible.
  passes.addPass(createLoopInvariantCodeMotionPass());
  passes.addPass(createSCFToControlFlowPass());
  // Verification between MLIR's conversions would take a third of the time.
  passes.enableVerifier(false);
  if (failed(verify(module)) || failed(passes.run(module)) ||
      failed(convertToLlvm(module)))
    return failure();
  foldDescriptors(module);
  return verify(module);
}
