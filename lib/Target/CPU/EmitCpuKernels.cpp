//===- EmitCpuKernels.cpp - kernels on tensors to tile dialect ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ContractionBlocking.h"
#include "ContractionEmitter.h"

#include "mpc/Dialect/Exe/IR/ExeDialect.h"
#include "mpc/Dialect/Exe/IR/InPlace.h"
#include "mpc/Target/CPU/Passes.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace mpc {
#define GEN_PASS_DEF_EMITCPUKERNELSPASS
#include "mpc/Target/CPU/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;
using namespace mpc::cpu;

ElementTarget cpu::elementTarget(const CpuTarget &target) {
  ElementTarget result;
  result.lanes = target.summedLanes();
  result.registers = target.isReproducible ? 16 : target.registers();
  result.canonicalSums = target.isReproducible;
  // Other levels round the same product once.
  result.hasScalef = target.hasAvx512();
  result.roundsToBf16 =
      target.isa == CpuIsa::Avx512Bf16 || target.isa == CpuIsa::Amx;
  result.permutesWords = target.isa == CpuIsa::Avx512Bf16;
  return result;
}

ElementTarget cpu::elementTarget(const TargetInfo &target) {
  if (std::optional<CpuTarget> level = CpuTarget::of(target))
    return elementTarget(*level);
  ElementTarget result;
  result.lanes = target.facts().lanes;
  result.registers = target.facts().registers;
  return result;
}

void cpu::setScratch(func::FuncOp impl, int64_t bytes) {
  // Bare pointers carry static shapes only.
  BlockArgument scratch = impl.getArguments().back();
  scratch.setType(
      MemRefType::get({std::max<int64_t>(bytes, 1)},
                      cast<MemRefType>(scratch.getType()).getElementType()));
  impl.setFunctionType(FunctionType::get(
      impl.getContext(), impl.getBody().front().getArgumentTypes(), {}));
  impl->setAttr(kScratchBytesAttr,
                Builder(impl.getContext()).getI64IntegerAttr(bytes));
}

static LogicalResult checkSignature(func::FuncOp kernel) {
  SmallVector<Type> types(kernel.getArgumentTypes());
  llvm::append_range(types, kernel.getResultTypes());
  for (Type type : types) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || !tensor.hasStaticShape())
      return kernel.emitError()
             << "kernel '" << kernel.getName() << "' has the type " << type
             << "; code generation needs statically shaped tensors";
  }
  if (!llvm::hasSingleElement(kernel.getBody()))
    return kernel.emitError()
           << "kernel '" << kernel.getName() << "' must have one block";
  return success();
}

/// Creates the empty function on memrefs for `kernel`.
static func::FuncOp createImpl(func::FuncOp kernel) {
  OpBuilder builder(kernel);
  SmallVector<Type> types;
  for (Type type : kernel.getArgumentTypes())
    types.push_back(memoryType(type));
  for (Type type : kernel.getResultTypes())
    types.push_back(memoryType(type));
  auto watched = kernel->getAttrOfType<DenseI64ArrayAttr>(kCheckedResultsAttr);
  if (watched)
    types.append(watched.size(), MemRefType::get({1}, builder.getI64Type()));
  Type index = builder.getIndexType();
  types.append({index, index, MemRefType::get({1}, builder.getI8Type())});
  auto impl = func::FuncOp::create(builder, kernel.getLoc(),
                                   (kernel.getName() + kImplSuffix).str(),
                                   builder.getFunctionType(types, {}));
  impl.setPrivate();
  builder.setInsertionPointToStart(impl.addEntryBlock());
  func::ReturnOp::create(builder, kernel.getLoc());

  // Buffers without aliases (noalias): all, except results and the arguments
  // that they may overwrite in place.
  bool inPlace = kernel->hasAttr(exe::kInPlaceAttr);
  SmallVector<bool> apart;
  for (unsigned i = 0; i < kernel.getNumArguments(); ++i)
    apart.push_back(!exe::isWrittenInPlace(kernel, i));
  apart.append(kernel.getNumResults(), !inPlace);
  // Launches that share the kernel may share a word.
  if (watched) {
    apart.append(watched.size(), false);
    impl->setAttr(kCheckedResultsAttr, watched);
    impl->setAttr(kExemptValuesAttr, kernel->getAttr(kExemptValuesAttr));
    int64_t inputs = kernel.getNumArguments();
    impl->setAttr(kCheckedArgumentsAttr,
                  builder.getDenseI64ArrayAttr(
                      {inputs, inputs + int64_t(kernel.getNumResults())}));
  }
  impl->setAttr(kNoAliasAttr, builder.getDenseBoolArrayAttr(apart));
  return impl;
}

/// Dispatches on the kernel's contraction, if it has one, whatever its
/// attribute says. Returns the bytes of scratch memory.
static FailureOr<int64_t> emitKernel(func::FuncOp kernel, func::FuncOp impl,
                                     const TargetInfo &target) {
  Operation *anchor = nullptr;
  std::optional<CpuTarget> level = CpuTarget::of(target);
  if (level) {
    FailureOr<Operation *> found = Contraction::find(kernel);
    if (failed(found))
      return failure();
    anchor = *found;
  }
  if (!anchor) {
    OpBuilder builder(impl.getBody().front().getTerminator());
    return emitLoops(kernel, builder, KernelMemory::of(kernel, impl),
                     elementTarget(target));
  }
  if (elementCount(anchor->getResult(0)) == 0)
    return 0;
  FailureOr<Contraction> contraction = Contraction::get(anchor, *level);
  if (failed(contraction))
    return failure();
  auto blocks = kernel->getAttrOfType<tile::BlocksAttr>(exe::kScheduleAttr);
  if (!blocks)
    return kernel.emitError()
           << "kernel '" << kernel.getName() << "' has no "
           << exe::kScheduleAttr << "; run mpc-schedule-cpu-kernels first";
  ContractionFunction *const functions[] = {emitCpuGemm,   emitConvolution,
                                            emitDepthwise, emitFilterGradient,
                                            emitAttention, emitPacking};
  return functions[static_cast<int>(contraction->form)](
      {kernel, impl, *contraction, blocks});
}

namespace {
struct EmitCpuKernelsPass
    : mpc::impl::EmitCpuKernelsPassBase<EmitCpuKernelsPass> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    TargetInfo target = exe::targetOf(module);
    for (auto kernel :
         llvm::make_early_inc_range(module.getOps<func::FuncOp>())) {
      if (!kernel->hasAttr(MpcDialect::kKernelKindAttr) || kernel.isExternal())
        continue;
      if (failed(checkSignature(kernel)))
        return signalPassFailure();
      func::FuncOp impl = createImpl(kernel);
      FailureOr<int64_t> scratch = emitKernel(kernel, impl, target);
      if (failed(scratch)) {
        kernel.emitError() << "no code could be generated for kernel '"
                           << kernel.getName() << "'";
        return signalPassFailure();
      }
      setScratch(impl, *scratch);
      kernel.erase();
    }
  }
};
} // namespace
