//===- FuseNormPrologues.cpp - norms fused into GEMMs ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A GEMM whose left operand is a norm along the contracted dimension can
// compute the normalized rows itself, in the shared memory of each block (norm
// prologue). It also stores them if they have other readers.
//
//===----------------------------------------------------------------------===//

#include "FusionRules.h"
#include "mpc/Analysis/Fusion/FusionPredicates.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

using namespace mlir;
using namespace mpc;

/// Returns true if all batches of the left side are multiplied with one matrix,
/// so that all rows form one GEMM.
static bool multipliesOneMatrix(MatmulOp product) {
  ArrayRef<int64_t> lhs = shapeOf(product.getLhs()),
                    rhs = shapeOf(product.getRhs()),
                    result = shapeOf(product.getResult());
  return lhs.size() >= 2 && lhs.drop_back() == result.drop_back() &&
         productOf(rhs.drop_back(2)) == 1 && productOf(lhs) > 0 &&
         productOf(result) > 0;
}

/// Returns true if GEMMs of these types have kernels with a norm prologue.
static bool hasPlainTypes(MatmulOp product) {
  Type element = getElementTypeOrSelf(product.getLhs()),
       result = getElementTypeOrSelf(product.getResult());
  auto isPlain = [](Type type) {
    return type.isF16() || type.isBF16() || type.isF32();
  };
  return isPlain(element) && isPlain(result) &&
         !product.getAccumulate().value_or(result).isF64();
}

/// Returns true if the group is one norm along the last dimension, preceded by
/// elementwise ops and movement of whole rows, and followed by elementwise ops.
static bool isNormOfRows(FusionGroup *group) {
  if (!group->anchor || group->isJoint ||
      !group->anchor->hasTrait<MapsRows>() ||
      isa<SoftmaxOp, LogSoftmaxOp>(group->anchor))
    return false;
  int64_t last = shapeOf(group->anchor->getResult(0)).size() - 1;
  SmallVector<int64_t> axes =
      cast<ReductionOpInterface>(group->anchor).getReductionAxes();
  SmallPtrSet<Operation *, 8> behind = {group->anchor};
  return axes == ArrayRef<int64_t>(last) &&
         llvm::all_of(group->ops, [&](Operation *op) {
           bool isBehind = llvm::any_of(op->getOperands(), [&](Value operand) {
             return behind.contains(operand.getDefiningOp());
           });
           if (isBehind)
             behind.insert(op);
           return op == group->anchor || isElementwise(op) ||
                  (isa<ReshapeOp>(op) && keepsLastDimension(op)) ||
                  (isa<PadOp, ConcatOp, SliceOp>(op) && !isBehind);
         });
}

/// Returns true if the kernel of `product` reads the results of `source` only
/// as its first operand: once fused, the rows exist only there.
static bool readsAsRows(const FusionGraph &graph, MatmulOp product,
                        FusionGroup *source) {
  return llvm::all_of(
      graph.groupOf(product.getOperation())->ops, [&](Operation *op) {
        return llvm::all_of(op->getOpOperands(), [&](OpOperand &operand) {
          return (op == product && operand.getOperandNumber() == 0) ||
                 (graph.groupOf(operand.get()) != source &&
                  graph.groupOf(sourceOfReshapes(operand.get())) != source);
        });
      });
}

void FusionRules::addOperandNorms(FusionGroup *group, FusionGroup *only,
                                  Candidates &candidates) const {
  auto product = dyn_cast<MatmulOp>(group->anchor);
  if (!kernels.hasRowPrologue || !product || product.getPacked() ||
      product.getTransposeLhs() || !multipliesOneMatrix(product) ||
      llvm::any_of(group->ops,
                   [](Operation *op) { return isa<ReductionOpInterface>(op); }))
    return;
  Value operand = product.getLhs();
  FusionGroup *source = graph.groupOf(operand);
  if (Value behind = reshapeToJoin(operand, group))
    source = graph.groupOf(behind);
  if (!source || source == group || (only && only != source) ||
      !isNormOfRows(source) || !readsAsRows(graph, product, source) ||
      isFull(group, source) || !hasPlainTypes(product) ||
      cost.rowsOfBlock(product) == 0)
    return;
  candidates.push_back({FusionStep::OperandNorm, group, source, operand,
                        cost.ofRows(group, source)});
}

/// Fuses the reshape in between first: if the norm cannot be fused, the GEMM
/// reads the stored value through it.
bool FusionRules::fuseNorm(FusionGroup *group, Value operand,
                           FusionGroup *norm) {
  FusionGroup *between = graph.groupOf(operand);
  if (between != norm) {
    graph.closeView(between);
    if (!graph.merge(group, between))
      return false;
  }
  return graph.merge(group, norm);
}
