//===- Codegen.cpp - driver of the CPU backend ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contract in: a module whose functions with `mpc.kernel_kind` are kernels on
// static tensors. Contract out: LLVM dialect, one C-callable function per
// kernel.
//
//===----------------------------------------------------------------------===//

#include "mpc/Target/CPU/Codegen.h"

#include "ContractionEmitter.h"
#include "Lowering.h"
#include "Schedules.h"

#include "mpc/Dialect/Exe/IR/ExeDialect.h"
#include "mpc/Dialect/Exe/IR/InPlace.h"
#include "mpc/Dialect/Mpc/IR/MpcDialect.h"
#include "mpc/Dialect/Mpc/IR/MpcTrainingOps.h"
#include "mpc/Dialect/Tile/IR/TileOps.h"
#include "mpc/Target/CPU/Passes.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Pass/PassManager.h"

#include <cmath>

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Helpers that emitters share
//===----------------------------------------------------------------------===//

ElementTarget mpc::elementTarget(const CpuTarget &target) {
  ElementTarget result;
  result.lanes = target.lanes();
  result.registers = target.registers();
  result.hasScalef = target.isa == CpuIsa::Avx512;
  return result;
}

//===----------------------------------------------------------------------===//
// One kernel
//===----------------------------------------------------------------------===//

/// Creates the empty `name_impl` for `kernel`.
static func::FuncOp createImpl(func::FuncOp kernel) {
  MLIRContext *context = kernel.getContext();
  OpBuilder builder(kernel);
  SmallVector<Type> types;
  for (Type type : kernel.getArgumentTypes())
    types.push_back(memoryType(type));
  for (Type type : kernel.getResultTypes())
    types.push_back(memoryType(type));
  Type index = builder.getIndexType();
  types.append({index, index,
                MemRefType::get({ShapedType::kDynamic}, builder.getI8Type())});
  auto impl = func::FuncOp::create(builder, kernel.getLoc(),
                                   (kernel.getName() + "_impl").str(),
                                   FunctionType::get(context, types, {}));
  impl.setPrivate();
  Block *entry = impl.addEntryBlock();
  builder.setInsertionPointToStart(entry);
  func::ReturnOp::create(builder, kernel.getLoc());
  return impl;
}

/// The scratch argument gets its size once the emitter has said it: bare
/// pointers carry static shapes only.
static void setScratchType(func::FuncOp impl, int64_t bytes) {
  Block &entry = impl.getBody().front();
  BlockArgument scratch = entry.getArguments().back();
  auto type =
      MemRefType::get({std::max<int64_t>(bytes, 1)},
                      cast<MemRefType>(scratch.getType()).getElementType());
  scratch.setType(type);
  SmallVector<Type> types(impl.getArgumentTypes());
  types.back() = type;
  impl.setFunctionType(FunctionType::get(impl.getContext(), types, {}));
}

static LogicalResult checkSignature(func::FuncOp kernel) {
  SmallVector<Type> types(kernel.getArgumentTypes());
  llvm::append_range(types, kernel.getResultTypes());
  for (Type type : types) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || !tensor.hasStaticShape())
      return kernel.emitError()
             << "kernel '" << kernel.getName() << "' has the type " << type
             << "; code generation takes statically shaped tensors";
  }
  if (!llvm::hasSingleElement(kernel.getBody()))
    return kernel.emitError()
           << "kernel '" << kernel.getName() << "' must be one block";
  return success();
}

/// Emits by what the kernel holds: the one contraction decides, whatever the
/// attribute calls it.
static FailureOr<EmittedKernel>
emitKernel(func::FuncOp kernel, func::FuncOp impl, const CpuTarget &target) {
  FailureOr<Operation *> anchor = Contraction::find(kernel);
  if (failed(anchor))
    return failure();
  if (!*anchor)
    return emitLoops(kernel, impl, elementTarget(target));
  if (elementCount((*anchor)->getResult(0)) == 0)
    return EmittedKernel{0, 1, 0};
  FailureOr<Contraction> contraction = Contraction::get(*anchor, target);
  if (failed(contraction))
    return failure();
  auto blocks = kernel->getAttrOfType<tile::BlocksAttr>(kScheduleAttr);
  if (!blocks)
    return kernel.emitError()
           << "kernel '" << kernel.getName() << "' has no " << kScheduleAttr
           << "; run mpc-schedule-cpu-kernels first";
  ContractionFunction *const functions[] = {emitProduct, emitConvolution,
                                            emitDepthwise, emitFilterGradient,
                                            emitAttention};
  return functions[static_cast<int>(contraction->form)](
      {kernel, impl, *contraction, blocks});
}

//===----------------------------------------------------------------------===//
// C interface
//===----------------------------------------------------------------------===//

/// Which of a kernel's buffers no other one may be: all, but results and the
/// arguments that they may lie over.
static SmallVector<bool> buffersApart(func::FuncOp kernel) {
  bool inPlace = kernel->hasAttr(exe::kInPlaceAttr);
  SmallVector<bool> apart;
  for (unsigned i = 0; i < kernel.getNumArguments(); ++i)
    apart.push_back(!exe::isWrittenInPlace(kernel, i));
  apart.append(kernel.getNumResults(), !inPlace);
  return apart;
}

/// Unpacks the buffer array and calls the kernel's body, which gets inlined.
static LogicalResult createWrapper(ModuleOp module, StringRef name,
                                   ArrayRef<bool> apart) {
  auto impl = module.lookupSymbol<LLVM::LLVMFuncOp>((name + "_impl").str());
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

  // Scratch is never another buffer's memory.
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

void mpc::registerCodegenDialects(DialectRegistry &registry) {
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

FailureOr<SmallVector<KernelInfo>> mpc::lowerKernels(ModuleOp module,
                                                     const CpuTarget &target) {
  loadDialects(module.getContext());
  exe::setTarget(module, target.info());
  PassManager passes(module.getContext(), ModuleOp::getOperationName());
  passes.addPass(createScheduleCpuKernelsPass());
  if (failed(passes.run(module)))
    return failure();
  return lowerKernelsBy(module, [&](func::FuncOp kernel, func::FuncOp impl) {
    return emitKernel(kernel, impl, target);
  });
}

FailureOr<SmallVector<KernelInfo>> mpc::lowerKernelsBy(ModuleOp module,
                                                       KernelEmitter emit) {
  loadDialects(module.getContext());
  SmallVector<func::FuncOp> kernels;
  for (auto function : module.getOps<func::FuncOp>())
    if (function->hasAttr(MpcDialect::kKernelKindAttr) &&
        !function.isExternal())
      kernels.push_back(function);

  SmallVector<KernelInfo> infos;
  SmallVector<SmallVector<bool>> apart;
  for (func::FuncOp kernel : kernels) {
    if (failed(checkSignature(kernel)))
      return failure();
    func::FuncOp impl = createImpl(kernel);
    FailureOr<EmittedKernel> emitted = emit(kernel, impl);
    if (failed(emitted)) {
      kernel.emitError() << "no code could be generated for kernel '"
                         << kernel.getName() << "'";
      return failure();
    }
    setScratchType(impl, emitted->scratchBytes);
    infos.push_back({kernel.getName().str(), emitted->items, emitted->grain,
                     emitted->scratchBytes});
    apart.push_back(buffersApart(kernel));
    kernel.erase();
  }
  if (failed(lowerToLlvm(module)))
    return failure();
  for (auto [info, buffers] : llvm::zip_equal(infos, apart))
    if (failed(createWrapper(module, info.name, buffers)))
      return failure();
  return infos;
}
