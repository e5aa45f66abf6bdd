//===- ContractionShape.cpp - types and extents of contractions -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What emitters of contractions ask of an op before they cut it: the type of
// its sums, the form of its panels, and which of its dimensions are rows.
//
//===----------------------------------------------------------------------===//

#include "ContractionEmitter.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

FailureOr<PanelForm> mpc::panelFormOf(Operation *op, PackedAttr packed,
                                      Type element, Type sumType,
                                      const CpuTarget &target) {
  int64_t lanes = vectorLanes(sumType, target), columns = packed.getColumns();
  int64_t interleave = packed.getInterleave();
  if (columns % lanes || columns / lanes > 4 ||
      (interleave == 2 &&
       (columns % (2 * lanes) || element.getIntOrFloatBitWidth() != 16)) ||
      interleave > 2)
    return op->emitError() << "the constant operand is packed in panels of "
                           << columns << " columns with interleave "
                           << interleave << ", which '" << target.name()
                           << "' code for " << sumType
                           << " sums cannot read; pack it for the target's "
                           << target.blockColumns() << " columns";
  if (interleave == 2 && !sumType.isF32())
    return op->emitError() << "an interleaved operand needs f32 sums, not "
                           << sumType;
  if (interleave == 2)
    return element.isBF16() ? PanelForm::PairsBf16 : PanelForm::PairsF16;
  return element == sumType ? PanelForm::Plain : PanelForm::Widened;
}

Type mpc::sumTypeOf(Operation *op) {
  Type result = getElementTypeOrSelf(op->getResult(0).getType());
  Type operand = getElementTypeOrSelf(op->getOperand(0).getType());
  if (!isa<FloatType>(result))
    return memoryElementType(result);
  auto contraction = cast<ContractionOpInterface>(op);
  bool wide = result.isF64() || operand.isF64() ||
              contraction.getAccumulateType().isF64();
  Builder builder(op->getContext());
  return wide ? Type(builder.getF64Type()) : Type(builder.getF32Type());
}

int64_t mpc::tailVectors(const Panel &panel, int64_t used, int64_t lanes) {
  // f16 pairs come in whole rows, or only their lower halves.
  if (panel.form == PanelForm::PairsF16 && used > panel.columns / 2)
    return panel.columns / lanes;
  return llvm::divideCeil(used, lanes);
}

FailureOr<ProductShape> ProductShape::get(const MatrixProduct &product) {
  auto lhs = cast<RankedTensorType>(product.lhs.getType());
  auto rhs = cast<RankedTensorType>(product.rhs.getType());
  auto result = cast<RankedTensorType>(product.op->getResult(0).getType());
  int64_t rank = result.getRank();
  if (rank < 2)
    return product.op->emitError()
           << "code generation takes results of rank 2 or more, not " << result;
  ProductShape shape;
  shape.m = result.getDimSize(rank - 2);
  shape.n = result.getDimSize(rank - 1);
  shape.depth = lhs.getDimSize(lhs.getRank() - (product.transposeLhs ? 2 : 1));
  shape.batchShape.assign(result.getShape().begin(),
                          result.getShape().end() - 2);
  shape.lhsBatch.assign(lhs.getShape().begin(), lhs.getShape().end() - 2);
  if (!product.packed)
    shape.rhsBatch.assign(rhs.getShape().begin(), rhs.getShape().end() - 2);

  // Batch dimensions that the right side does not have are more rows.
  shape.flattened =
      !product.transposeLhs && shape.lhsBatch == shape.batchShape &&
      llvm::all_of(shape.rhsBatch, [](int64_t extent) { return extent == 1; });
  shape.rowShape = {shape.m};
  if (shape.flattened) {
    shape.rowShape = shape.batchShape;
    shape.rowShape.push_back(shape.m);
    shape.m = productOf(shape.rowShape);
  } else {
    shape.batch = productOf(shape.batchShape);
  }
  return shape;
}

SmallVector<Value> ProductShape::batchIndices(IndexMath &math,
                                              ArrayRef<int64_t> operandBatch,
                                              ArrayRef<Value> position) const {
  SmallVector<Value> indices;
  for (size_t i = 0; i < operandBatch.size(); ++i) {
    bool repeated = operandBatch[i] == 1 || position.empty();
    size_t dim = i + batchShape.size() - operandBatch.size();
    indices.push_back(repeated ? math.constant(0) : position[dim]);
  }
  return indices;
}
