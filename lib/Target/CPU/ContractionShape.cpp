//===- ContractionShape.cpp - shapes and types of contractions ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ContractionShape.h"

#include "../Kernel/ElementMemory.h"
#include "Int8SliceGemmEmitter.h"

#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cpu;

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

int64_t cpu::tailVectors(PanelForm form, int64_t columns, int64_t used,
                         int64_t lanes) {
  // f16 pairs come as whole rows, or only as their lower halves.
  if (form == PanelForm::PairsF16 && used > columns / 2)
    return columns / lanes;
  return llvm::divideCeil(used, lanes);
}

static Type sumTypeOf(Operation *op) {
  Type result = getElementTypeOrSelf(op->getResult(0).getType());
  Type operand = getElementTypeOrSelf(op->getOperand(0).getType());
  if (!isa<FloatType>(result))
    return memoryElementType(result);
  bool wide = operand.isF64() ||
              (!isa<AttentionOp, PackOp>(op) &&
               (result.isF64() ||
                cast<ContractionOpInterface>(op).getAccumulateType().isF64()));
  Builder builder(op->getContext());
  return wide ? Type(builder.getF64Type()) : Type(builder.getF32Type());
}

//===----------------------------------------------------------------------===//
// GEMMs
//===----------------------------------------------------------------------===//

/// Returns the extents of `c`, whose operands are matrices.
static FailureOr<GemmExtents> extentsOf(const Contraction &c) {
  auto lhs = cast<RankedTensorType>(c.lhs().getType());
  auto rhs = cast<RankedTensorType>(c.rhs().getType());
  auto result = cast<RankedTensorType>(c.op->getResult(0).getType());
  int64_t rank = result.getRank();
  if (rank < 2)
    return c.op->emitError()
           << "code generation needs a result of rank 2 or more, not "
           << result;
  GemmExtents shape;
  shape.m = result.getDimSize(rank - 2);
  shape.n = result.getDimSize(rank - 1);
  shape.depth = lhs.getDimSize(lhs.getRank() - (c.transposeLhs ? 2 : 1));
  shape.batchShape.assign(result.getShape().begin(),
                          result.getShape().end() - 2);
  shape.lhsBatch.assign(lhs.getShape().begin(), lhs.getShape().end() - 2);
  if (!c.packed)
    shape.rhsBatch.assign(rhs.getShape().begin(), rhs.getShape().end() - 2);

  // Batch dimensions without a counterpart on the right side are more rows.
  shape.flattened =
      !c.transposeLhs && shape.lhsBatch == shape.batchShape &&
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

SmallVector<Value> GemmExtents::batchIndices(IndexMath &math,
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

//===----------------------------------------------------------------------===//
// Contractions
//===----------------------------------------------------------------------===//

FailureOr<Operation *> Contraction::find(func::FuncOp kernel) {
  Operation *anchor = nullptr;
  WalkResult walk = kernel.walk([&](Operation *op) {
    if (!isa<MatmulOp, ConvOp, ConvFilterGradientOp, AttentionOp, PackOp>(op))
      return WalkResult::advance();
    if (anchor) {
      op->emitError() << "kernel '" << kernel.getName()
                      << "' contains a second contraction";
      return WalkResult::interrupt();
    }
    anchor = op;
    return WalkResult::advance();
  });
  if (walk.wasInterrupted())
    return failure();
  return anchor;
}

/// Fills `c` for an op that writes panels, with words as the micro-kernel reads
/// them.
static LogicalResult describePacking(Contraction &c, PackOp op) {
  c.form = ContractionForm::Packing;
  c.packed = op.getPackedAttr();
  c.transposeRhs = op.getTranspose();
  c.product.depth = op.getDepth();
  c.product.n = op.getWidth();
  Type element = getElementTypeOrSelf(op.getInput());
  if (c.packed.getDepth() == 2)
    c.unit =
        element.isF16() ? ArithmeticUnit::PairsF16 : ArithmeticUnit::DotBf16;
  bool fits = c.packed.getDepth() == 2
                  ? element.isF16() || element.isBF16()
                  : c.packed.getDepth() == 1 && element == c.sumType;
  if (fits && c.packed.getInterleave() == 1 &&
      c.packed.getColumns() % c.lanes == 0)
    return success();
  return op.emitError() << "packs " << element << " as " << c.packed
                        << ", which '" << c.target.name()
                        << "' code writes of f32 and f64 with a depth of 1, of "
                           "bf16 and f16 with 2, in multiples of "
                        << c.lanes << " columns and not interleaved";
}

FailureOr<Contraction> Contraction::get(Operation *op,
                                        const CpuTarget &target) {
  Contraction c;
  c.op = op;
  c.target = target;
  c.sumType = sumTypeOf(op);
  c.lanes = vectorLanes(c.sumType, target);
  // A canonical sum has one accumulator at a time.
  if (!target.isReproducible)
    c.multiplyAddsInFlight = target.info().facts().multiplyAddsInFlight;
  if (auto packing = dyn_cast<PackOp>(op)) {
    if (failed(describePacking(c, packing)))
      return failure();
    return c;
  }
  FailureOr<ConvolutionGeometry> geometry = ConvolutionGeometry();
  if (auto product = dyn_cast<MatmulOp>(op)) {
    c.packed = product.getPackedAttr();
    c.transposeLhs = product.getTransposeLhs();
    c.transposeRhs = product.getTransposeRhs();
  } else if (auto conv = dyn_cast<ConvOp>(op)) {
    c.packed = conv.getPackedAttr();
    geometry = ConvolutionGeometry::get(conv);
    if (failed(geometry))
      return failure();
    if (!c.packed || !geometry->isProduct())
      c.form = isa<FloatType>(c.sumType) && geometry->groups > 1 &&
                       geometry->groupChannels() == 1 &&
                       geometry->groupOutputs() == 1
                   ? ContractionForm::Depthwise
                   : ContractionForm::Convolution;
  } else if (auto gradient = dyn_cast<ConvFilterGradientOp>(op)) {
    c.form = ContractionForm::FilterGradient;
    geometry = ConvolutionGeometry::get(gradient);
  } else {
    c.form = ContractionForm::Attention;
  }
  if (failed(geometry))
    return failure();
  c.geometry = *geometry;
  if (c.form == ContractionForm::Product) {
    FailureOr<GemmExtents> shape = extentsOf(c);
    if (failed(shape))
      return failure();
    c.product = *shape;
    c.pair = GatedMatmulColumns::of(op);
  }
  auto isSigned = [](Value value) {
    return !getElementTypeOrSelf(value.getType()).isUnsignedInteger();
  };
  c.signs = {isSigned(c.lhs()), isSigned(c.rhs())};
  if (c.packed)
    c.narrow = c.rhs().getDefiningOp<DequantizeOp>();
  if (failed(c.chooseUnit()))
    return failure();
  return c;
}

bool Contraction::isStored(Value operand) const {
  Type element = getElementTypeOrSelf(operand.getType());
  return isa<BlockArgument>(sourceOfReshapes(operand)) &&
         memoryElementType(element) == factorType();
}

Type Contraction::factorType() const {
  if (isPaired() && !isa<FloatType>(sumType))
    return rowType();
  if (isF16())
    return Float16Type::get(op->getContext());
  return isPaired() ? BFloat16Type::get(op->getContext()) : sumType;
}

Type Contraction::wordType() const {
  return isPaired() ? IntegerType::get(op->getContext(), 32) : sumType;
}

Type Contraction::panelType() const {
  if (narrow)
    return memoryElementType(getElementTypeOrSelf(narrow.getValues()));
  return packed && unit == ArithmeticUnit::PairsInt16 ? rowType() : wordType();
}

Type Contraction::rowType() const {
  if (stepDepth(unit) == 4)
    return IntegerType::get(op->getContext(), 8);
  return isPaired() ? IntegerType::get(op->getContext(), 16) : sumType;
}

bool Contraction::storesRows() const {
  if (splitsRows())
    return false;
  bool isRegion =
      form != ContractionForm::Product && form != ContractionForm::Attention;
  // Positions of a pair must be adjacent.
  if (isPaired() && (transposeLhs || form == ContractionForm::FilterGradient))
    return false;
  return isStored(lhs()) &&
         (!isRegion || (geometry.channelsLast && geometry.needsNoPadding()));
}

bool Contraction::storesPanels(int64_t columns) const {
  if (form != ContractionForm::FilterGradient)
    return packed && form != ContractionForm::Depthwise && terms.count == 1 &&
           !dequantizesPanels();
  if (isPaired())
    return false;
  int64_t whole = panelsOfGroup(columns) == 1 ? lanes : columns;
  Type element = getElementTypeOrSelf(rhs().getType());
  bool isWidened = isa<Float16Type, BFloat16Type>(element) && sumType.isF32();
  return geometry.channelsLast && width() % whole == 0 &&
         isa<BlockArgument>(sourceOfReshapes(rhs())) &&
         (element == sumType || isWidened);
}

SmallVector<BlockArgument> Contraction::residuals() const {
  bool isPlane = form == ContractionForm::Convolution && !geometry.channelsLast;
  if (isPlane || (form != ContractionForm::Product &&
                  form != ContractionForm::Convolution))
    return {};
  auto shape = cast<RankedTensorType>(op->getResult(0).getType()).getShape();
  SmallVector<BlockArgument> found;
  for (BlockArgument argument :
       op->getParentOfType<func::FuncOp>().getArguments()) {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (type && type.getShape() == shape &&
        argument != sourceOfReshapes(lhs()) &&
        argument != sourceOfReshapes(stored()))
      found.push_back(argument);
  }
  return found;
}

int64_t Contraction::width() const {
  if (form == ContractionForm::Product || form == ContractionForm::Packing)
    return product.n;
  if (form != ContractionForm::Attention)
    return geometry.groupOutputs();
  // Keys, then the columns of values.
  auto value = cast<RankedTensorType>(op->getOperand(2).getType());
  auto key = cast<RankedTensorType>(rhs().getType());
  return std::max(key.getDimSize(key.getRank() - 2),
                  value.getDimSize(value.getRank() - 1));
}

int64_t Contraction::vectors(int64_t columns) const {
  // If most of the last panel is padding, registers are left for more rows.
  bool isWindow = form == ContractionForm::Convolution ||
                  form == ContractionForm::FilterGradient;
  return isWindow && panelsOfGroup(columns) == 1
             ? tailVectors(panelForm, columns, width(), lanes)
             : columns / lanes;
}

int64_t Contraction::mostRows(int64_t columns) const {
  // Two tiles of rows, and two of columns.
  if (isTiled(unit))
    return 2 * unitOfTarget()->tiles.rows;
  int64_t most = maxBlockRows(
      vectors(columns) * lanes / vectorLanes(sumType, target), target);
  if (!splitsRows())
    return most;
  // Registers other than accumulators hold weights and an int8 slice of a row.
  int64_t ofRow = vectors(columns) * Int8SliceGemmEmitter::sumsOfRow(narrow);
  return std::clamp<int64_t>(target.registers() * 3 / 4 / ofRow, 1, most);
}
