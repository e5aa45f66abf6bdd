//===- LowerKernelsToGpu.cpp - generates gpu.funcs of kernels -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Creates each gpu.func; the schedule's kernel family generates its body. Runs
// after mpc-schedule-kernels; mpc-lower-tiles-to-threads lowers the tile ops.
//
//===----------------------------------------------------------------------===//

#include "Emit/KernelAttributes.h"
#include "Emit/KernelComment.h"
#include "Plan/KernelPlan.h"

#include "Target/Kernel/ElementMemory.h"

#include "mpc/Dialect/Cuda/IR/CudaOps.h"
#include "mpc/Dialect/Exe/IR/InPlace.h"
#include "mpc/Target/CUDA/Codegen.h"
#include "mpc/Target/CUDA/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <limits>

namespace mpc {
#define GEN_PASS_DEF_LOWERKERNELSTOGPUPASS
#include "mpc/Target/CUDA/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

static constexpr llvm::StringLiteral kCooperativeAttr = "mpc.cooperative";

SmallVector<CudaKernelInfo> cuda::cudaKernels(ModuleOp module) {
  SmallVector<CudaKernelInfo> kernels;
  module.walk([&](gpu::GPUFuncOp function) {
    CudaKernelInfo info;
    info.name = function.getName().str();
    if (auto grid = function.getKnownGridSize())
      llvm::copy(*grid, info.blocks.begin());
    if (auto block = function.getKnownBlockSize())
      info.threads = block->front();
    auto number = [&](StringRef name) -> int64_t {
      auto attribute = function->getAttrOfType<IntegerAttr>(name);
      return attribute ? attribute.getInt() : 0;
    };
    info.sharedBytes = number(kDynamicSharedAttr);
    info.scratchBytes = number(kScratchAttr);
    info.cooperative = function->hasAttr(kCooperativeAttr);
    kernels.push_back(info);
  });
  return kernels;
}

namespace {
struct LowerKernelsToGpuPass
    : mpc::impl::LowerKernelsToGpuPassBase<LowerKernelsToGpuPass> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<CudaTarget> architecture = cudaTargetOf(module);
    if (failed(architecture))
      return signalPassFailure();
    SmallVector<func::FuncOp> kernels;
    for (auto function : module.getOps<func::FuncOp>())
      if (function->hasAttr(MpcDialect::kKernelKindAttr) &&
          !function.isExternal())
        kernels.push_back(function);
    if (kernels.empty())
      return markAllAnalysesPreserved();
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    module->setAttr(gpu::GPUDialect::getContainerModuleAttrName(),
                    builder.getUnitAttr());
    auto gpuModule =
        gpu::GPUModuleOp::create(builder, module.getLoc(), kCudaModuleName);
    builder.setInsertionPointToStart(gpuModule.getBody());
    auto &plans = getAnalysis<KernelPlans>();
    for (func::FuncOp kernel : kernels) {
      if (failed(lower(kernel, builder, *architecture, plans))) {
        kernel.emitError() << "no code could be generated for kernel '"
                           << kernel.getName() << "'";
        return signalPassFailure();
      }
      kernel.erase();
    }
  }

private:
  static LogicalResult lower(func::FuncOp kernel, OpBuilder &builder,
                             const CudaTarget &architecture,
                             KernelPlans &plans) {
    if (!kernel->hasAttr(exe::kScheduleAttr))
      return Schedule::of(kernel);
    FailureOr<const PlannedKernel *> planned = plans.plan(kernel, architecture);
    if (failed(planned))
      return failure();
    const Schedule &schedule = (*planned)->schedule;

    SmallVector<Type> types;
    SmallVector<Location> locations;
    for (BlockArgument argument : kernel.getArguments()) {
      types.push_back(memoryType(argument.getType()));
      locations.push_back(argument.getLoc());
    }
    for (OpOperand &result :
         kernel.getBody().front().getTerminator()->getOpOperands()) {
      types.push_back(memoryType(result.get().getType()));
      locations.push_back(result.get().getLoc());
    }
    if (schedule.scratchBytes) {
      types.push_back(
          MemRefType::get({schedule.scratchBytes}, builder.getI8Type()));
      locations.push_back(NameLoc::get(builder.getStringAttr("scratch")));
    }
    auto function = gpu::GPUFuncOp::create(
        builder, kernel.getLoc(), kernel.getName(),
        FunctionType::get(kernel.getContext(), types, {}));
    function->setAttr(gpu::GPUDialect::getKernelFuncAttrName(),
                      builder.getUnitAttr());
    function.setKnownGridSize(
        SmallVector<int32_t>(schedule.blocks.begin(), schedule.blocks.end()));
    function.setKnownBlockSize(
        SmallVector<int32_t>{static_cast<int32_t>(schedule.threads), 1, 1});
    if (schedule.sharedBytes)
      function->setAttr(kDynamicSharedAttr,
                        builder.getI64IntegerAttr(schedule.sharedBytes));
    if (schedule.scratchBytes)
      function->setAttr(kScratchAttr,
                        builder.getI64IntegerAttr(schedule.scratchBytes));
    if (schedule.isCooperative())
      function->setAttr(kCooperativeAttr, builder.getUnitAttr());
    if (needsWideIndices(function, schedule))
      function->setAttr(kIndex64Attr, builder.getUnitAttr());
    if (kernel->hasAttr(exe::kInPlaceAttr))
      function->setAttr("mpc.in_place", builder.getUnitAttr());
    if (Attribute part = kernel->getAttr(kFusedPartAttr))
      function->setAttr(kFusedPartAttr, part);
    // Number of read-only arguments.
    function->setAttr(kInputsAttr,
                      builder.getI64IntegerAttr(kernel.getNumArguments()));
    function->setAttr(kDescriptionAttr,
                      builder.getStringAttr(describeKernel(kernel)));
    Block &body = function.getBody().front();
    for (auto [argument, location] : llvm::zip(body.getArguments(), locations))
      argument.setLoc(location);
    OpBuilder inside = OpBuilder::atBlockEnd(&body);
    auto terminator = gpu::ReturnOp::create(inside, kernel.getLoc());
    inside.setInsertionPoint(terminator);

    // Only op results carry names of the model.
    GpuKernel state{{function, inside, builder.getUnknownLoc(),
                     scratchOf(function), /*firstBlock=*/0},
                    kernel,
                    architecture,
                    schedule,
                    {},
                    {}};
    unsigned inputs = kernel.getNumArguments(),
             outputs = kernel.getNumResults();
    for (unsigned i = 0; i < inputs; ++i)
      state.inputs.push_back(body.getArgument(i));
    for (unsigned i = 0; i < outputs; ++i)
      state.outputs.push_back(body.getArgument(inputs + i));
    return (*planned)->plan->emit(state);
  }

  /// Returns true if an index of the kernel may exceed 32 bits.
  static bool needsWideIndices(gpu::GPUFuncOp function,
                               const Schedule &schedule) {
    constexpr int64_t kLargest = std::numeric_limits<int32_t>::max();
    int64_t threads = schedule.threads;
    for (int64_t blocks : schedule.blocks)
      threads *= blocks;
    return threads > kLargest ||
           llvm::any_of(function.getArgumentTypes(), [&](Type type) {
             auto memref = dyn_cast<MemRefType>(type);
             return memref && memref.getNumElements() > kLargest;
           });
  }
};
} // namespace
