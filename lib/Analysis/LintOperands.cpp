//===- LintOperands.cpp - lint of quantized operands ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Recipes and contractions for which the literature reports failures: MX scales
// rounded down in training, quantized output layers, blocks that kernels with
// units for the format do not support.
//
//===----------------------------------------------------------------------===//

#include "LintContext.h"

#include "mpc/Analysis/Float32Subgraphs.h"
#include "mpc/Analysis/OpNames.h"
#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"

using namespace mlir;
using namespace mpc;

/// Returns true if a contraction of the forward pass is the last one before a
/// result of the function or a loss. A residual connection also reaches later
/// contractions.
static bool isOutputLayer(Operation *op) {
  SmallVector<Operation *> open = {op};
  llvm::DenseSet<Operation *> seen;
  bool isOutput = false;
  while (!open.empty())
    for (Operation *user : open.pop_back_val()->getUsers()) {
      isOutput |= isa<func::ReturnOp>(user) || user->hasTrait<Loss>();
      if (user->hasAttr(kBackwardAttr) || user->hasTrait<Loss>() ||
          !seen.insert(user).second)
        continue;
      if (isa<ContractionOpInterface>(user))
        return false;
      open.push_back(user);
    }
  return isOutput;
}

/// Returns the constant or argument whose elements a quantized operand has;
/// null if an op computes them.
static Value sourceOf(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (isa<mpc::ConstantOp>(op))
      break;
    if (!isa<DecodeFloatOp, EncodeFloatOp, CastOp, MulOp, DivOp, ReshapeOp,
             SliceOp, TransposeOp>(op))
      return {};
    value = op->getOperand(0);
  }
  return value;
}

/// Returns true if every element of a constant is zero.
static bool isZero(Value source) {
  auto constant = source.getDefiningOp<mpc::ConstantOp>();
  if (!constant)
    return false;
  FailureOr<ConstantBytes> data = ConstantBytes::get(constant.getValue());
  return succeeded(data) &&
         llvm::all_of(data->bytes(), [](char byte) { return byte == 0; });
}

/// Reports operands of zeros and tables of embeddings.
static void lintSources(LintContext &context, Operation *op,
                        const std::string &fix) {
  for (unsigned i : {0, 1}) {
    Value source = sourceOf(op->getOperand(i));
    if (!source)
      continue;
    if (isZero(source))
      context.report("operand_zero", op, 0,
                     describe(op) + " has a " + (i ? "right" : "left") +
                         " operand of zeros, whose largest magnitude gives no "
                         "scale; it is 1",
                     fix);
    bool isTable = llvm::any_of(source.getUsers(), [](Operation *user) {
      return fusionClassOf(user) == FusionClass::Gather;
    });
    if (isTable)
      context.report("operand_embedding", op, 0,
                     describe(op) +
                         " multiplies a table of embeddings; published "
                         "recipes keep embeddings in 16 bits",
                     fix);
  }
}

void mpc::lintOperands(LintContext &context) {
  if (!context.policy.quantizesOperands())
    return;
  bool isFloorReported = false;
  for (Operation &op : context.body()) {
    if (op.hasAttr(kUnquantizedAttr))
      context.report(
          "operand_type", &op, 0,
          describe(&op) + " multiplies " +
              nameOf(cast<FloatType>(getElementTypeOrSelf(op.getOperand(0)))) +
              ", the model's own type, so its operands are not quantized",
          "change it to float32 in the model");
    if (!op.hasAttr(kOperandsAttr))
      continue;
    llvm::Expected<const Policy *> layer =
        context.policy.policyOfLayer(layerPath(&op));
    if (!layer) {
      // The stage has already reported it.
      llvm::consumeError(layer.takeError());
      continue;
    }
    const OperandFormat &format = (*layer)->getOperands();
    if (format.scaling == OperandScaling::Mx &&
        format.rounding == ScaleRounding::Floor && !isFloorReported) {
      isFloorReported = true;
      context.report("operand_scales", &op, 0,
                     "MX scales are rounded down (floor), which saturates the "
                     "largest numbers; training with them is reported to "
                     "diverge (arXiv 2506.08027)",
                     "set 'operands.scale_rounding' to rceil");
    }
    std::string fix = "--set name:" + opName(&op).str() + "=bfloat16";
    if (!op.hasAttr(kBackwardAttr) && isOutputLayer(&op))
      context.report("operand_output", &op, 0,
                     describe(&op) + " is an output layer with operands in " +
                         stringify(format.forward) +
                         "; published recipes keep output layers in 16 bits",
                     fix);
    lintSources(context, &op, fix);
    auto matmul = dyn_cast<MatmulOp>(op);
    int64_t size = format.blockSize();
    if (!matmul || !size)
      continue;
    int64_t depth = matmul.getContractionSize();
    if (depth % size != 0)
      context.report("operand_blocks", &op, double(depth),
                     describe(&op) + " contracts " + std::to_string(depth) +
                         " elements, no multiple of the block of " +
                         std::to_string(size) +
                         ", so its operands are padded with zeros",
                     "none is needed; a layer of a multiple of " +
                         std::to_string(size) + " wastes nothing");
  }
}
