//===- SplitFusedKernels.cpp - splits horizontally fused kernels ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each fusion inside a kernel is scheduled and lowered as a separate kernel;
// mpc-merge-fused-kernels merges the results.
//
//===----------------------------------------------------------------------===//

#include "FusionKernel.h"

#include "Emit/KernelAttributes.h"

#include "mpc/Analysis/Fusion/FusionPredicates.h"
#include "mpc/Dialect/Exe/IR/ExeDialect.h"
#include "mpc/Dialect/Mpc/IR/MpcFusionOps.h"
#include "mpc/Target/CUDA/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

namespace mpc {
#define GEN_PASS_DEF_SPLITFUSEDKERNELSPASS
#include "mpc/Target/CUDA/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

func::FuncOp cuda::kernelOf(FusionOp fusion, StringRef name,
                            OpBuilder &builder) {
  OpBuilder::InsertionGuard guard(builder);
  auto kernel =
      func::FuncOp::create(builder, fusion.getLoc(), name,
                           builder.getFunctionType(fusion->getOperandTypes(),
                                                   fusion->getResultTypes()));
  kernel.setPrivate();
  kernel->setAttr(MpcDialect::kKernelKindAttr, fusion.getKindAttr());
  Block *body = kernel.addEntryBlock();
  IRMapping mapping;
  for (auto [inside, argument] :
       llvm::zip_equal(fusion.getBody().getArguments(), body->getArguments())) {
    argument.setLoc(inside.getLoc());
    mapping.map(inside, argument);
  }
  builder.setInsertionPointToEnd(body);
  Block &ops = fusion.getBody().front();
  for (Operation &op : ops.without_terminator())
    builder.clone(op, mapping);
  SmallVector<Value> results;
  for (Value value : ops.getTerminator()->getOperands())
    results.push_back(mapping.lookup(value));
  func::ReturnOp::create(builder, fusion.getLoc(), results);
  return kernel;
}

namespace {
struct SplitFusedKernelsPass
    : mpc::impl::SplitFusedKernelsPassBase<SplitFusedKernelsPass> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<func::FuncOp> kernels;
    for (auto kernel : getOperation().getOps<func::FuncOp>())
      if (kernel->hasAttr(MpcDialect::kKernelKindAttr) &&
          !kernel.isExternal() && !kernel.getOps<FusionOp>().empty())
        kernels.push_back(kernel);
    if (kernels.empty())
      return markAllAnalysesPreserved();
    for (func::FuncOp kernel : kernels) {
      part(kernel);
      kernel.erase();
    }
  }

private:
  /// Returns the argument number of a kernel argument, or -1, -2 and so on for
  /// a value passed from one part to another.
  static int64_t numberOf(Value value, llvm::SetVector<Value> &inside) {
    value = sourceOfReshapes(value);
    if (auto argument = dyn_cast<BlockArgument>(value))
      return argument.getArgNumber();
    inside.insert(value);
    return -1 - (llvm::find(inside, value) - inside.begin());
  }

  static void part(func::FuncOp kernel) {
    OpBuilder builder(kernel);
    Operation *terminator = kernel.getBody().front().getTerminator();
    unsigned number = 0;
    llvm::SetVector<Value> inside;
    for (auto fusion : kernel.getOps<FusionOp>()) {
      std::string name = (kernel.getName() + "_part" + Twine(number++)).str();
      func::FuncOp part = kernelOf(fusion, name, builder);
      SmallVector<int64_t> inputs, outputs;
      for (Value input : fusion.getInputs())
        inputs.push_back(numberOf(input, inside));
      for (Value output : fusion.getOutputs()) {
        size_t known = outputs.size();
        for (OpOperand &use : output.getUses())
          if (use.getOwner() == terminator)
            outputs.push_back(use.getOperandNumber());
        if (outputs.size() == known)
          outputs.push_back(numberOf(output, inside));
      }
      for (auto [argument, input] :
           llvm::zip_equal(part.getArguments(), inputs))
        if (input >= 0)
          argument.setLoc(kernel.getArgument(input).getLoc());
      NamedAttrList entries;
      entries.set("kernel", kernel.getNameAttr());
      entries.set("inputs", builder.getDenseI64ArrayAttr(inputs));
      entries.set("outputs", builder.getDenseI64ArrayAttr(outputs));
      if (Attribute awaited = fusion->getAttr(kAwaitedAttr))
        entries.set("awaited", awaited);
      part->setAttr(kFusedPartAttr,
                    entries.getDictionary(builder.getContext()));
    }
  }
};
} // namespace
