//===- PrintGpu.cpp - printing of gpu and cuda ops ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelPrinter.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mpc;

static char axis(gpu::Dimension dimension) {
  return dimension == gpu::Dimension::x   ? 'X'
         : dimension == gpu::Dimension::y ? 'Y'
                                          : 'Z';
}

/// Returns the smallest element size, in bytes, of dynamic shared memory views.
static unsigned smallestView(gpu::GPUFuncOp kernel) {
  unsigned bytes = 16;
  kernel.walk([&](memref::ViewOp view) {
    if (view.getSource().getDefiningOp<gpu::DynamicSharedMemoryOp>())
      bytes = std::min(bytes, view.getType().getElementTypeBitWidth() / 8);
  });
  return std::max(bytes, 1u);
}

/// Returns the prelude function of a warp reduction.
static StringRef warpReduction(gpu::AllReduceOperation kind) {
  switch (kind) {
  case gpu::AllReduceOperation::ADD:
    return "warpSum";
  case gpu::AllReduceOperation::MUL:
    return "warpProduct";
  case gpu::AllReduceOperation::MAXIMUMF:
  case gpu::AllReduceOperation::MAXSI:
    return "warpMax";
  case gpu::AllReduceOperation::MINIMUMF:
  case gpu::AllReduceOperation::MINSI:
    return "warpMin";
  case gpu::AllReduceOperation::OR:
    return "warpOr";
  case gpu::AllReduceOperation::AND:
    return "warpAnd";
  default:
    return {};
  }
}

bool KernelPrinter::printGpu(Operation *op) {
  auto place = [&](std::string name) {
    Expression text("mpc::" + name + "()");
    define(op->getResult(0),
           index64 ? call("static_cast<long long>", text) : text);
    return true;
  };
  if (auto id = dyn_cast<gpu::ThreadIdOp>(op))
    return place(std::string("thread") + axis(id.getDimension()));
  if (auto id = dyn_cast<gpu::BlockIdOp>(op))
    return place(std::string("block") + axis(id.getDimension()));
  if (auto size = dyn_cast<gpu::BlockDimOp>(op))
    return place(std::string("blockSize") + axis(size.getDimension()));
  if (auto size = dyn_cast<gpu::GridDimOp>(op))
    return place(std::string("gridSize") + axis(size.getDimension()));
  if (isa<gpu::LaneIdOp>(op))
    return place("lane");
  if (isa<gpu::SubgroupIdOp>(op))
    return place("warp");
  if (isa<gpu::BarrierOp>(op)) {
    effect("mpc::barrier();");
    return true;
  }
  if (auto shuffle = dyn_cast<gpu::ShuffleOp>(op)) {
    if (!shuffle.getValid().use_empty()) {
      fail(op, "uses the validity result of a shuffle, which is not supported");
      return true;
    }
    std::string name = "mpc::shuffle";
    if (shuffle.getMode() == gpu::ShuffleMode::XOR)
      name += "Xor";
    else if (shuffle.getMode() == gpu::ShuffleMode::UP)
      name += "Up";
    else if (shuffle.getMode() == gpu::ShuffleMode::DOWN)
      name += "Down";
    SmallVector<Expression> operands = {takeWhole(shuffle.getValue()),
                                        take(shuffle.getOffset())};
    APInt width;
    if (!matchPattern(shuffle.getWidth(), m_ConstantInt(&width)) || width != 32)
      operands.push_back(take(shuffle.getWidth()));
    declare(shuffle.getShuffleResult(), call(name, operands));
    return true;
  }
  if (auto reduce = dyn_cast<gpu::SubgroupReduceOp>(op)) {
    StringRef name = warpReduction(reduce.getOp());
    if (name.empty() || reduce.getClusterStride() != 1)
      return false;
    SmallVector<Expression> operands = {takeWhole(reduce.getValue())};
    if (auto size = reduce.getClusterSize(); size && *size != 32)
      operands.push_back(Expression(std::to_string(*size)));
    declare(reduce.getResult(), call(("mpc::" + name).str(), operands));
    return true;
  }
  if (auto memory = dyn_cast<gpu::DynamicSharedMemoryOp>(op)) {
    for (auto &[other, buffer] : buffers)
      if (other.getDefiningOp<gpu::DynamicSharedMemoryOp>()) {
        buffers[memory] = Buffer(buffer);
        return true;
      }
    std::string name = names.add("shared");
    line("MPC_DYNAMIC_SHARED_BYTES(" + name + ", " +
         std::to_string(smallestView(kernel)) + ");");
    buffers[memory] = {name};
    return true;
  }
  return false;
}

bool KernelPrinter::printCuda(Operation *op) {
  if (auto prelude = dyn_cast<cuda::CallOp>(op)) {
    Expression text = function(op, prelude.getCallee());
    // Collectives must be reached by all lanes: never move them.
    StringRef name = prelude.getCallee();
    bool isCollective = name.starts_with("warp") ||
                        name.starts_with("barrier") ||
                        name.starts_with("shuffle") || name == "ballot" ||
                        name == "any" || name == "all";
    if (isCollective)
      declare(prelude.getResult(), text);
    else
      define(prelude.getResult(), text);
    return true;
  }
  if (auto product = dyn_cast<cuda::MmaOp>(op)) {
    auto words = [&](Value fragment) { return bufferOf(fragment, op).name; };
    bool isTf32 = product.getType() == cuda::FragmentType::tf32;
    std::string type =
        product.getType() == cuda::FragmentType::f16 ? "half" : "bfloat16";
    effect((isTf32 ? "mpc::mmaTf32(" : "mpc::mma<mpc::" + type + ">(") +
           words(product.getSums()) + ", " + words(product.getA()) + ", " +
           words(product.getB()) + ");");
    return true;
  }
  if (auto product = dyn_cast<cuda::WarpgroupMmaOp>(op)) {
    Expression a = address(product.getA(), product.getAIndices(), op),
               b = address(product.getB(), product.getBIndices(), op);
    auto word = [](bool value) { return value ? ", true" : ", false"; };
    effect(
        std::string("mpc::warpgroupMma<mpc::") +
        (product.getType() == cuda::FragmentType::f16 ? "half" : "bfloat16") +
        word(product.getATransposed()) + word(product.getBTransposed()) + ">(" +
        bufferOf(product.getSums(), op).name + ", " + a.text + ", " + b.text +
        ", " + take(product.getKeep()).text + ");");
    return true;
  }
  if (isa<cuda::WarpgroupFenceOp>(op)) {
    effect("mpc::warpgroupFence();");
    return true;
  }
  if (isa<cuda::WarpgroupCommitOp>(op)) {
    effect("mpc::warpgroupCommit();");
    return true;
  }
  if (auto wait = dyn_cast<cuda::WarpgroupWaitOp>(op)) {
    effect("mpc::warpgroupWait<" + std::to_string(wait.getPending()) + ">();");
    return true;
  }
  if (isa<cuda::FenceSharedOp>(op)) {
    effect("mpc::fenceShared();");
    return true;
  }
  if (auto load = dyn_cast<cuda::LoadMatrixOp>(op)) {
    Expression row = address(load.getShared(), load.getIndices(), op);
    effect(std::string("mpc::loadMatrix") +
           (load.getTransposed() ? "Transposed(" : "(") +
           bufferOf(load.getTiles(), op).name + ", " + row.text + ");");
    return true;
  }
  if (auto copy = dyn_cast<cuda::CopyAsyncOp>(op)) {
    Expression to = address(copy.getShared(), copy.getSharedIndices(), op);
    Expression from = address(copy.getGlobal(), copy.getGlobalIndices(), op);
    std::string valid;
    if (copy.getValid())
      valid = ", " + take(copy.getValid()).text;
    effect("mpc::copyAsync<" + std::to_string(copy.getBytes()) + ">(" +
           to.text + ", " + from.text + valid + ");");
    return true;
  }
  if (isa<cuda::CommitCopiesOp>(op)) {
    effect("mpc::commitCopies();");
    return true;
  }
  if (auto wait = dyn_cast<cuda::WaitCopiesOp>(op)) {
    effect("mpc::waitCopies<" + std::to_string(wait.getPending()) + ">();");
    return true;
  }
  if (isa<cuda::SyncWarpOp>(op)) {
    effect("mpc::syncWarp();");
    return true;
  }
  if (auto meeting = dyn_cast<cuda::GridBarrierOp>(op)) {
    Expression counter =
        address(meeting.getCounters(), meeting.getCounter(), op);
    effect("mpc::gridBarrier(" + counter.text + ", " +
           std::to_string(meeting.getBlocks()) + ", " +
           take(meeting.getFirst()).text + ");");
    return true;
  }
  if (isa<cuda::FenceOp>(op)) {
    effect("mpc::fence();");
    return true;
  }
  return false;
}
