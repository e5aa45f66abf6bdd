//===- PrintGpu.cpp - printing of gpu and cuda ops ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelPrinter.h"

#include "../MatrixUnits.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

static char axis(gpu::Dimension dimension) {
  return dimension == gpu::Dimension::x   ? 'X'
         : dimension == gpu::Dimension::y ? 'Y'
                                          : 'Z';
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

bool cuda::printGpu(KernelPrinter &p, Operation *op) {
  auto place = [&](std::string name) {
    Expression text("mpc::" + name + "()");
    p.define(op->getResult(0),
             p.isIndex64() ? call("static_cast<long long>", text) : text);
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
    p.effect("mpc::barrier();");
    return true;
  }
  if (auto shuffle = dyn_cast<gpu::ShuffleOp>(op)) {
    if (!shuffle.getValid().use_empty()) {
      p.fail(op,
             "uses the validity result of a shuffle, which is not supported");
      return true;
    }
    std::string name = "mpc::shuffle";
    if (shuffle.getMode() == gpu::ShuffleMode::XOR)
      name += "Xor";
    else if (shuffle.getMode() == gpu::ShuffleMode::UP)
      name += "Up";
    else if (shuffle.getMode() == gpu::ShuffleMode::DOWN)
      name += "Down";
    SmallVector<Expression> operands = {p.takeWhole(shuffle.getValue()),
                                        p.take(shuffle.getOffset())};
    APInt width;
    if (!matchPattern(shuffle.getWidth(), m_ConstantInt(&width)) || width != 32)
      operands.push_back(p.take(shuffle.getWidth()));
    p.declare(shuffle.getShuffleResult(), call(name, operands));
    return true;
  }
  if (auto reduce = dyn_cast<gpu::SubgroupReduceOp>(op)) {
    StringRef name = warpReduction(reduce.getOp());
    if (name.empty() || reduce.getClusterStride() != 1)
      return false;
    SmallVector<Expression> operands = {p.takeWhole(reduce.getValue())};
    if (auto size = reduce.getClusterSize(); size && *size != 32)
      operands.push_back(Expression(std::to_string(*size)));
    p.declare(reduce.getResult(), call(("mpc::" + name).str(), operands));
    return true;
  }
  if (auto memory = dyn_cast<gpu::DynamicSharedMemoryOp>(op)) {
    p.bindBuffer(memory, p.dynamicShared());
    return true;
  }
  return false;
}

bool cuda::printCuda(KernelPrinter &p, Operation *op) {
  if (auto prelude = dyn_cast<cuda::CallOp>(op)) {
    Expression text = p.function(op, prelude.getCallee());
    // Collectives must be reached by all lanes: never move them.
    StringRef name = prelude.getCallee();
    bool isCollective = name.starts_with("warp") ||
                        name.starts_with("barrier") ||
                        name.starts_with("shuffle") || name == "ballot" ||
                        name == "any" || name == "all";
    if (isCollective)
      p.declare(prelude.getResult(), text);
    else
      p.define(prelude.getResult(), text);
    return true;
  }
  if (auto product = dyn_cast<cuda::MmaOp>(op)) {
    auto words = [&](Value fragment) { return p.bufferOf(fragment, op).name; };
    const MatrixUnit *unit =
        findMatrixUnit(MatrixInstruction::Mma, product.getType());
    if (!unit)
      return false;
    std::string argument =
        unit->argument.empty() ? "" : "<mpc::" + unit->argument.str() + ">";
    p.effect("mpc::" + unit->function.str() + argument + "(" +
             words(product.getSums()) + ", " + words(product.getA()) + ", " +
             words(product.getB()) + ");");
    return true;
  }
  if (auto product = dyn_cast<cuda::WarpgroupMmaOp>(op)) {
    Expression a = p.address(product.getA(), product.getAIndices(), op),
               b = p.address(product.getB(), product.getBIndices(), op);
    auto word = [](bool value) { return value ? ", true" : ", false"; };
    p.effect(std::string("mpc::warpgroupMma<mpc::") +
             findMatrixUnit(MatrixInstruction::Wgmma, product.getType())
                 ->argument.str() +
             word(product.getATransposed()) + word(product.getBTransposed()) +
             ">(" + p.bufferOf(product.getSums(), op).name + ", " + a.text +
             ", " + b.text + ", " + p.take(product.getKeep()).text + ");");
    return true;
  }
  if (isa<cuda::WarpgroupFenceOp>(op)) {
    p.effect("mpc::warpgroupFence();");
    return true;
  }
  if (isa<cuda::WarpgroupCommitOp>(op)) {
    p.effect("mpc::warpgroupCommit();");
    return true;
  }
  if (auto wait = dyn_cast<cuda::WarpgroupWaitOp>(op)) {
    p.effect("mpc::warpgroupWait<" + std::to_string(wait.getPending()) +
             ">();");
    return true;
  }
  if (isa<cuda::FenceSharedOp>(op)) {
    p.effect("mpc::fenceShared();");
    return true;
  }
  if (auto load = dyn_cast<cuda::LoadMatrixOp>(op)) {
    Expression row = p.address(load.getShared(), load.getIndices(), op);
    p.effect(std::string("mpc::loadMatrix") +
             (load.getTransposed() ? "Transposed(" : "(") +
             p.bufferOf(load.getTiles(), op).name + ", " + row.text + ");");
    return true;
  }
  if (auto copy = dyn_cast<cuda::CopyAsyncOp>(op)) {
    Expression to = p.address(copy.getShared(), copy.getSharedIndices(), op);
    Expression from = p.address(copy.getGlobal(), copy.getGlobalIndices(), op);
    std::string valid;
    if (copy.getValid())
      valid = ", " + p.take(copy.getValid()).text;
    p.effect("mpc::copyAsync<" + std::to_string(copy.getBytes()) + ">(" +
             to.text + ", " + from.text + valid + ");");
    return true;
  }
  if (isa<cuda::CommitCopiesOp>(op)) {
    p.effect("mpc::commitCopies();");
    return true;
  }
  if (auto wait = dyn_cast<cuda::WaitCopiesOp>(op)) {
    p.effect("mpc::waitCopies<" + std::to_string(wait.getPending()) + ">();");
    return true;
  }
  if (isa<cuda::SyncWarpOp>(op)) {
    p.effect("mpc::syncWarp();");
    return true;
  }
  if (auto meeting = dyn_cast<cuda::GridBarrierOp>(op)) {
    Expression counter =
        p.address(meeting.getCounters(), meeting.getCounter(), op);
    p.effect("mpc::gridBarrier(" + counter.text + ", " +
             std::to_string(meeting.getBlocks()) + ", " +
             p.take(meeting.getFirst()).text + ");");
    return true;
  }
  if (isa<cuda::FenceOp>(op)) {
    p.effect("mpc::fence();");
    return true;
  }
  return false;
}
