//===- OptimizeKernels.cpp - LLVM pass pipeline for kernels ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OptimizeKernels.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/Instructions.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/Scalar/LoopIdiomRecognize.h"

#include <mutex>

using namespace mpc;

/// Returns true if `loop` carries vector accumulators in registers, as the K
/// loop of a GEMM does.
static bool carriesSums(const llvm::Loop &loop) {
  constexpr int64_t kFewest = 4;
  return llvm::count_if(loop.getHeader()->phis(), [](llvm::PHINode &phi) {
           return phi.getType()->isVectorTy();
         }) >= kFewest;
}

/// Freezes base pointers of GEMM loops to speed up compilation. Loop strength
/// reduction takes time quadratic in the number of terms of an address, and a
/// GEMM address has one for each of five outer loops, although only the
/// innermost loop gains. freeze is the identity and hides the terms. Other
/// loops keep the visibility of all terms.
static void freezeBases(llvm::Function &function) {
  llvm::DominatorTree tree(function);
  llvm::LoopInfo loops(tree);
  for (llvm::Loop *loop : loops.getLoopsInPreorder()) {
    llvm::BasicBlock *before = loop->getLoopPreheader();
    if (!before || !carriesSums(*loop))
      continue;
    llvm::DenseMap<llvm::Value *, llvm::Value *> frozen;
    for (llvm::BasicBlock *block : loop->blocks())
      for (llvm::Instruction &instruction : *block) {
        auto *address = llvm::dyn_cast<llvm::GetElementPtrInst>(&instruction);
        if (!address || loop->isLoopInvariant(address))
          continue;
        // Pointers without address arithmetic have one term.
        llvm::Value *base = address->getPointerOperand();
        if (!llvm::isa<llvm::GetElementPtrInst, llvm::SelectInst>(base) ||
            !loop->isLoopInvariant(base))
          continue;
        llvm::Value *&value = frozen[base];
        if (!value)
          value = new llvm::FreezeInst(base, "",
                                       before->getTerminator()->getIterator());
        address->setOperand(0, value);
      }
  }
}

/// LLVM's O2 pipeline without passes that have no effect on kernels, found by
/// ablation: those for globals, coroutines, library calls, exceptions,
/// profiles, and cleanup after vectorizers. Emitters vectorize and unroll
/// already; repeating it only increases code size.
static std::string pipeline() {
  return llvm::formatv(
      "function<eager-inv>(simplifycfg),ipsccp,function<eager-inv>({0}),"
      "cgscc(devirt<4>(inline,function<eager-inv;no-rerun>("
      "sroa<modify-cfg>,early-cse<memssa>,correlated-propagation,{0},"
      "tailcallelim,{1},reassociate,"
      "loop-mssa(licm<no-allowspeculation>,{2},licm<allowspeculation>,"
      "simple-loop-unswitch<no-nontrivial;trivial>),{1},{0},"
      "loop(loop-idiom,indvars,loop-deletion),"
      "sroa<modify-cfg>,vector-combine,gvn<>,sccp,bdce,{0},jump-threading,"
      "correlated-propagation,adce,memcpyopt,dse,"
      "loop-mssa(licm<allowspeculation>),{3}))),"
      "deadargelim,function<eager-inv>(loop({2}),infer-alignment,{0},{4},{0},"
      "loop-mssa(licm<allowspeculation>),instsimplify,div-rem-pairs,{5})",
      "instcombine<max-iterations=1;no-verify-fixpoint>",
      "simplifycfg<switch-range-to-icmp>",
      "loop-rotate<header-duplication;no-prepare-for-lto>",
      "simplifycfg<switch-range-to-icmp;switch-to-arithmetic;"
      "hoist-common-insts;sink-common-insts>",
      "simplifycfg<switch-range-to-icmp;switch-to-arithmetic;"
      "forward-switch-cond;switch-to-lookup;no-keep-loops;"
      "hoist-common-insts;sink-common-insts>",
      "simplifycfg<switch-range-to-icmp;switch-to-arithmetic;"
      "hoist-loads-stores-with-cond-faulting;speculate-unpredictables>");
}

void mpc::optimizeKernels(llvm::Module &module, llvm::TargetMachine &machine) {
  static std::once_flag initialized;
  std::call_once(initialized, [] {
    // HashRecognize (CRC detection) is exponential in the depth of a loop's
    // arithmetic and useless for kernels; it can only be disabled by this
    // global.
    llvm::DisableLIRP::HashRecognize = true;
  });
  llvm::PassBuilder builder(&machine);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  llvm::ModulePassManager passes;
  llvm::cantFail(builder.parsePassPipeline(passes, pipeline()));
  passes.run(module, modules);
  for (llvm::Function &function : module)
    if (!function.isDeclaration())
      freezeBases(function);
}
