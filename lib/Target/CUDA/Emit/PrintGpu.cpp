//===- PrintGpu.cpp - printing of gpu and cuda ops ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelPrinter.h"

#include "../MatrixUnits.h"

#include "mlir/IR/Matchers.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

/// Prints the index of a thread, block or lane.
static bool printIndex(KernelPrinter &p, Operation *op) {
  StringRef function =
      llvm::StringSwitch<StringRef>(op->getName().getStringRef())
          .Case("gpu.thread_id", "thread")
          .Case("gpu.block_id", "block")
          .Case("gpu.lane_id", "lane")
          .Case("gpu.subgroup_id", "warp")
          .Default("");
  if (function.empty())
    return false;
  std::string name = "mpc::" + function.str();
  if (auto axis = op->getAttrOfType<gpu::DimensionAttr>("dimension"))
    name += gpu::stringifyDimension(axis.getValue()).upper();
  Expression text = call(name, {});
  p.define(op->getResult(0),
           p.isIndex64() ? call("static_cast<long long>", text) : text);
  return true;
}

bool cuda::printGpu(KernelPrinter &p, Operation *op) {
  if (printIndex(p, op))
    return true;
  if (isa<gpu::BarrierOp>(op)) {
    p.effect("mpc::barrier();");
    return true;
  }
  if (auto shuffle = dyn_cast<gpu::ShuffleOp>(op);
      shuffle && shuffle.getMode() == gpu::ShuffleMode::XOR) {
    if (!shuffle.getValid().use_empty()) {
      p.fail(op,
             "uses the validity result of a shuffle, which is not supported");
      return true;
    }
    SmallVector<Expression> operands = {p.takeWhole(shuffle.getValue()),
                                        p.take(shuffle.getOffset())};
    APInt width;
    if (!matchPattern(shuffle.getWidth(), m_ConstantInt(&width)) || width != 32)
      operands.push_back(p.take(shuffle.getWidth()));
    p.declare(shuffle.getShuffleResult(), call("mpc::shuffleXor", operands));
    return true;
  }
  if (auto reduce = dyn_cast<gpu::SubgroupReduceOp>(op)) {
    StringRef name =
        reductionNames(gpu::stringifyAllReduceOperation(reduce.getOp())).ofWarp;
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

/// Returns the template argument of the prelude for operands of `type`.
static std::string argumentOf(MatrixInstruction instruction, Type type) {
  return findMatrixUnit(instruction, type)->argument.str();
}

bool cuda::printCuda(KernelPrinter &p, Operation *op) {
  if (auto prelude = dyn_cast<cuda::CallOp>(op)) {
    p.define(prelude.getResult(), p.function(op, prelude.getCallee()));
    return true;
  }
  if (auto product = dyn_cast<cuda::MmaOp>(op)) {
    auto words = [&](Value fragment) { return p.bufferOf(fragment, op).name; };
    const MatrixUnit *unit =
        findMatrixUnit(MatrixInstruction::Mma, product.getType());
    if (!unit)
      return false;
    std::string argument =
        unit->argument.empty() ? "" : "<mpc::" + unit->argument.str();
    if (unit->isFloat8())
      argument += ", mpc::" +
                  argumentOf(MatrixInstruction::Mma,
                             product.getRhsType().value_or(product.getType()));
    if (!argument.empty())
      argument += ">";
    p.effect("mpc::" + unit->function.str() + argument + "(" +
             words(product.getSums()) + ", " + words(product.getA()) + ", " +
             words(product.getB()) + ");");
    return true;
  }
  if (auto product = dyn_cast<cuda::WarpgroupMmaOp>(op)) {
    Expression a = p.address(product.getA(), product.getAIndices(), op),
               b = p.address(product.getB(), product.getBIndices(), op);
    auto word = [](bool value) { return value ? ", true" : ", false"; };
    p.effect("mpc::warpgroupMma<mpc::" +
             argumentOf(MatrixInstruction::Wgmma, product.getType()) +
             word(product.getATransposed()) + word(product.getBTransposed()) +
             (product.getRhsType()
                  ? ", mpc::" + argumentOf(MatrixInstruction::Wgmma,
                                           *product.getRhsType())
                  : "") +
             ">(" + p.bufferOf(product.getSums(), op).name + ", " + a.text +
             ", " + b.text + ", " + p.take(product.getKeep()).text + ");");
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
  if (auto meeting = dyn_cast<cuda::GridBarrierOp>(op)) {
    Expression counter =
        p.address(meeting.getCounters(), meeting.getCounter(), op);
    p.effect("mpc::gridBarrier(" + counter.text + ", " +
             std::to_string(meeting.getBlocks()) + ", " +
             p.take(meeting.getFirst()).text + ");");
    return true;
  }
  if (op->getNumOperands() || !isa<cuda::CudaDialect>(op->getDialect()))
    return false;
  // The function has the op's name.
  std::string name =
      llvm::convertToCamelFromSnakeCase(op->getName().stripDialect());
  if (auto pending = op->getAttrOfType<IntegerAttr>("pending"))
    name += "<" + std::to_string(pending.getInt()) + ">";
  p.effect("mpc::" + name + "();");
  return true;
}
