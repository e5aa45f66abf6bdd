//===- CpuCodegen.cpp - driver of the CPU backend -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contract in: a module whose functions with `mpc.kernel_kind` are kernels on
// static tensors. Contract out: LLVM dialect, one C-callable function per
// kernel.
//
//===----------------------------------------------------------------------===//

#include "mpc/Target/CPU/Codegen.h"

#include "KernelEmitters.h"

#include "mpc/Dialect/Exe/IR/ExeDialect.h"
#include "mpc/Dialect/Mpc/IR/MpcDialect.h"
#include "mpc/Dialect/Tile/IR/TileOps.h"
#include "mpc/Target/CPU/Passes.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cpu;

//===----------------------------------------------------------------------===//
// C interface
//===----------------------------------------------------------------------===//

/// Creates the C entry point, which unpacks the buffer array and calls the
/// kernel's body (inlined).
static LogicalResult createWrapper(ModuleOp module, StringRef name,
                                   ArrayRef<bool> apart) {
  auto impl = module.lookupSymbol<LLVM::LLVMFuncOp>((name + kImplSuffix).str());
  if (!impl)
    return module.emitError()
           << "kernel '" << name << "' was lost during lowering";
  MLIRContext *context = module.getContext();
  OpBuilder builder(context);
  builder.setInsertionPointAfter(impl);
  Location loc = impl.getLoc();
  Type pointer = LLVM::LLVMPointerType::get(context),
       i64 = builder.getI64Type();
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context),
                                          {pointer, i64, i64, pointer});
  auto wrapper = LLVM::LLVMFuncOp::create(builder, loc, name, type);
  Block *entry = wrapper.addEntryBlock(builder);
  builder.setInsertionPointToStart(entry);
  SmallVector<Value> operands;
  unsigned buffers = impl.getNumArguments() - 3;
  for (unsigned i = 0; i < buffers; ++i) {
    Value slot = LLVM::GEPOp::create(
        builder, loc, pointer, pointer, entry->getArgument(0),
        ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i)});
    operands.push_back(LLVM::LoadOp::create(builder, loc, pointer, slot));
  }
  for (unsigned i = 1; i < 4; ++i)
    operands.push_back(entry->getArgument(i));
  LLVM::CallOp::create(builder, loc, impl, operands);
  LLVM::ReturnOp::create(builder, loc, ValueRange{});

  // Scratch never aliases another buffer.
  impl.setLinkage(LLVM::Linkage::Internal);
  for (unsigned i = 0; i < impl.getNumArguments(); ++i)
    if (i < buffers ? apart[i] : i + 1 == impl.getNumArguments())
      impl.setArgAttr(i, LLVM::LLVMDialect::getNoAliasAttrName(),
                      builder.getUnitAttr());
  return success();
}

//===----------------------------------------------------------------------===//
// Module
//===----------------------------------------------------------------------===//

void cpu::registerCodegenDialects(DialectRegistry &registry) {
  registry.insert<MpcDialect, exe::ExeDialect, arith::ArithDialect,
                  func::FuncDialect, LLVM::LLVMDialect, math::MathDialect,
                  memref::MemRefDialect, scf::SCFDialect, tile::TileDialect,
                  vector::VectorDialect>();
  registerLoweringInterfaces(registry);
}

static void loadDialects(MLIRContext *context) {
  DialectRegistry registry;
  registerCodegenDialects(registry);
  context->appendDialectRegistry(registry);
  context->loadAllAvailableDialects();
}

FailureOr<SmallVector<KernelInfo>> cpu::lowerKernels(ModuleOp module,
                                                     const CpuTarget &target) {
  loadDialects(module.getContext());
  exe::setTarget(module, target.info());
  return lowerKernels(module);
}

FailureOr<SmallVector<KernelInfo>>
cpu::lowerKernels(ModuleOp module,
                  llvm::function_ref<LogicalResult(StringRef)> after) {
  loadDialects(module.getContext());
  auto run = [&](std::unique_ptr<Pass> pass, StringRef name) {
    PassManager passes(module.getContext(), ModuleOp::getOperationName());
    passes.addPass(std::move(pass));
    // lowerToLlvm verifies its result.
    passes.enableVerifier(false);
    return success(succeeded(passes.run(module)) &&
                   (!after || succeeded(after(name))));
  };
  bool isScheduled = CpuTarget::of(exe::targetOf(module)).has_value();
  if ((isScheduled &&
       failed(run(createScheduleCpuKernelsPass(), "scheduled"))) ||
      failed(run(createEmitCpuKernelsPass(), "tiles")) ||
      failed(run(createLowerTilesPass(), "vectors")))
    return failure();

  SmallVector<KernelInfo> infos;
  SmallVector<DenseBoolArrayAttr> apart;
  for (auto impl : module.getOps<func::FuncOp>()) {
    auto buffers =
        dyn_cast_or_null<DenseBoolArrayAttr>(impl->removeAttr(kNoAliasAttr));
    if (!buffers)
      continue;
    auto number = [&](StringRef name) -> int64_t {
      auto value = dyn_cast_or_null<IntegerAttr>(impl->removeAttr(name));
      return value ? value.getInt() : 0;
    };
    auto watched = dyn_cast_or_null<DenseI64ArrayAttr>(
        impl->removeAttr(kCheckedResultsAttr));
    impl->removeAttr(kCheckedArgumentsAttr);
    impl->removeAttr(kExemptValuesAttr);
    infos.push_back({impl.getName().drop_back(kImplSuffix.size()).str(),
                     number(kItemsAttr), number(kGrainAttr),
                     number(kScratchBytesAttr), number(kLaterItemsAttr),
                     number(kSharedBytesAttr),
                     watched ? SmallVector<int64_t>(watched.asArrayRef())
                             : SmallVector<int64_t>()});
    apart.push_back(buffers);
  }
  if (failed(lowerToLlvm(module)))
    return failure();
  for (auto [info, buffers] : llvm::zip_equal(infos, apart))
    if (failed(createWrapper(module, info.name, buffers.asArrayRef())))
      return failure();
  return infos;
}
