//===- ArithmeticUnitChoice.cpp - choice of the arithmetic unit -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The target's unit (FMA, VNNI, AMX, ...) for the operand types, if the shape
// fills it, and the form in which it reads a packed constant.
//
//===----------------------------------------------------------------------===//

#include "ContractionShape.h"

#include "mpc/Analysis/QuantizedCacheRows.h"
#include "mpc/Analysis/QuantizedWeightStorage.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Target/TargetInfo.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cpu;

/// Returns how a constant operand of element type `element` in the layout
/// `packed` is read; reports at `op` an unsupported layout.
static FailureOr<PanelForm> panelFormOf(Operation *op, PackedAttr packed,
                                        Type element, Type sumType,
                                        ArithmeticUnit unit, bool isNarrow,
                                        const CpuTarget &target) {
  // For a bf16 split, and of quantized panels, the kernel packs its own panels,
  // from plain ones.
  bool isSplit = unit == ArithmeticUnit::TileTerms;
  int64_t wanted =
      isNarrow || (isSplit && !element.isF16()) ? 1 : stepDepth(unit);
  int64_t lanes = vectorLanes(sumType, target), columns = packed.getColumns();
  int64_t interleave = packed.getInterleave();
  if (columns % lanes || columns / lanes > 4 ||
      (interleave == 2 &&
       (columns % (2 * lanes) || element.getIntOrFloatBitWidth() != 16)) ||
      interleave > 2)
    return op->emitError()
           << "the constant operand is packed in panels of " << columns
           << " columns with interleave " << interleave << ", which '"
           << target.name() << "' code for " << sumType
           << " accumulators cannot read; pack it for the target's "
           << target.blockColumns() << " columns";
  if (interleave == 2 && !sumType.isF32())
    return op->emitError()
           << "an interleaved operand needs f32 accumulators, not " << sumType;
  int64_t depth = packed.getDepth();
  if (depth != wanted)
    return op->emitError() << "the constant operand is packed for units that "
                              "multiply "
                           << depth << " positions at once, '" << target.name()
                           << "' code multiplies " << wanted << " of "
                           << element << " operands";
  if (unit == ArithmeticUnit::PairsInt16)
    return element.isUnsignedInteger() ? PanelForm::PairsUnsignedInt8
                                       : PanelForm::PairsInt8;
  if (interleave == 2)
    return element.isBF16() ? PanelForm::PairsBf16 : PanelForm::PairsF16;
  return element == sumType || stepDepth(unit) > 1 ? PanelForm::Plain
                                                   : PanelForm::Widened;
}

/// Returns the form of panels that `narrow` dequantizes in registers.
static FailureOr<PanelForm> narrowFormOf(Operation *op, DequantizeOp narrow,
                                         Type sumType, ArithmeticUnit unit,
                                         const CpuTarget &target) {
  if (unit != ArithmeticUnit::MultiplyAdd || !sumType.isF32())
    return op->emitError() << "the constant operand is stored in "
                           << getElementTypeOrSelf(narrow.getValues())
                           << ", which can be dequantized only for f32 "
                              "operands and accumulators";
  if (narrow.getDepth() > 1 && !target.hasDotInt8())
    return op->emitError() << "the constant operand is stored for units that "
                              "multiply "
                           << narrow.getDepth() << " bytes at once, which '"
                           << target.name() << "' lacks";
  if (!narrow.getScale())
    return PanelForm::Widened;
  if (narrow.getFloat8())
    return PanelForm::Floats8;
  return narrow.getNibbles() ? PanelForm::Nibbles : PanelForm::Integers;
}

/// Number of contiguous positions where tiles would read rows.
static int64_t runOf(const Contraction &c) {
  const ConvolutionGeometry &g = c.geometry;
  if (c.form == ContractionForm::Product)
    return c.product.depth;
  if (c.form == ContractionForm::Convolution)
    return g.run();
  // Pixels of one channel, or channels if those are fewer.
  return g.stride[2] == 1 ? std::min(g.out[2], g.groupChannels()) : 0;
}

/// Returns true if the target has tiles for operands of `type` and `c` fills
/// them: shorter runs do not, and attention reads its scores in registers.
static bool fillsTiles(const Contraction &c, MathType type) {
  const MathUnit *unit = c.target.info().unit(type);
  if (!unit || unit->tiles.count == 0 || c.form == ContractionForm::Attention)
    return false;
  int64_t leastRun = type == MathType::Int8 ? 16 : 12;
  return runOf(c) >= leastRun;
}

/// Returns the unit for GEMMs of 8-bit integers; nullopt for other types.
static std::optional<ArithmeticUnit> integerUnitOf(const Contraction &c) {
  Type lhs = getElementTypeOrSelf(c.lhs().getType()),
       rhs = getElementTypeOrSelf(c.rhs().getType());
  if (!c.sumType.isInteger(32) || !isa<IntegerType>(lhs) ||
      lhs.getIntOrFloatBitWidth() != 8 || rhs.getIntOrFloatBitWidth() != 8)
    return std::nullopt;
  if (fillsTiles(c, MathType::Int8))
    return ArithmeticUnit::TileInt8;
  if (lhs.isUnsignedInteger() && !rhs.isUnsignedInteger() &&
      c.target.hasDotInt8())
    return ArithmeticUnit::DotInt8;
  // If tiles multiply bytes of any sign, constants are packed for them.
  return c.target.hasTiles() ? ArithmeticUnit::PairsInt8
                             : ArithmeticUnit::PairsInt16;
}

/// Returns true if both operands are large enough to amortize the bf16 split in
/// scratch memory: an element costs about as much as 100 vector multiply-adds
/// save.
static bool paysForTerms(const Contraction &c) {
  // The unit decides bits, so the number of rows must not decide the unit.
  if (c.target.isReproducible)
    return true;
  constexpr int64_t kLeastUses = 64;
  const ConvolutionGeometry &g = c.geometry;
  int64_t rows = c.product.m;
  if (c.form == ContractionForm::Convolution)
    rows = g.out[0] * g.out[1] * g.out[2];
  else if (c.form == ContractionForm::FilterGradient)
    rows = g.groupChannels() * g.windowSize();
  return rows >= kLeastUses && c.width() >= kLeastUses;
}

/// Returns the policy type of a bf16x2 or bf16x3 compute mode; nullopt for
/// others.
static std::optional<PolicyType> typeOfTerms(Operation *op) {
  auto contraction = dyn_cast<ContractionOpInterface>(op);
  ComputeMode mode =
      contraction ? contraction.getComputeMode() : ComputeMode::native;
  if (mode == ComputeMode::bf16x2)
    return PolicyType::BFloat16x2;
  if (mode == ComputeMode::bf16x3)
    return PolicyType::BFloat16x3;
  return std::nullopt;
}

/// Returns true if an f32 GEMM may and does use a bf16 split. The modes are
/// permissions: f32 is always allowed.
static bool splitsFloat32(const Contraction &c) {
  TargetInfo target = c.target.info();
  std::optional<PolicyType> type = typeOfTerms(c.op);
  return type && target.kernels().splitsIntoBFloat16 &&
         target.hasFastPath(*type) && fillsTiles(c, MathType::BFloat16) &&
         paysForTerms(c);
}

/// Returns true if attention's operand for an f32 query or key is exact in the
/// 16-bit type `element`: a query widened from it, or 8-bit keys without their
/// scales.
static bool holdsExactly(Value value, Type element) {
  if (element.getIntOrFloatBitWidth() != 16)
    return false;
  if (auto cast = value.getDefiningOp<CastOp>())
    return getElementTypeOrSelf(cast.getInput()) == element;
  std::optional<QuantizedCacheRows> rows = QuantizedCacheRows::of(value);
  return rows && !rows->isRounded();
}

/// Returns the unit for a contraction of these operand and accumulator types.
static ArithmeticUnit unitOf(const Contraction &c) {
  const CpuTarget &target = c.target;
  if (std::optional<ArithmeticUnit> unit = integerUnitOf(c))
    return *unit;
  auto areAll = [&](Type element) {
    return llvm::all_of(c.op->getOperands().take_front(2), [&](Value value) {
      return getElementTypeOrSelf(value.getType()) == element ||
             (c.form == ContractionForm::Attention &&
              holdsExactly(value, element));
    });
  };
  Builder builder(c.op->getContext());
  if (areAll(builder.getF16Type()) && c.sumType.isF32()) {
    bool isSplit =
        target.hasTiles() && target.info().unit(MathType::Float16)->terms > 1;
    if (fillsTiles(c, MathType::Float16) && (!isSplit || paysForTerms(c)))
      return isSplit ? ArithmeticUnit::TileTerms : ArithmeticUnit::TileF16;
    // Only for constants packed for tiles.
    return c.packed ? ArithmeticUnit::PairsF16 : ArithmeticUnit::MultiplyAdd;
  }
  if (areAll(builder.getF32Type()) && c.sumType.isF32() && splitsFloat32(c))
    return ArithmeticUnit::TileTerms;
  if (!areAll(builder.getBF16Type()) || !c.sumType.isF32() ||
      !target.hasDotBf16())
    return ArithmeticUnit::MultiplyAdd;
  if (fillsTiles(c, MathType::BFloat16))
    return ArithmeticUnit::TileBf16;
  // If tiles are the unit for bf16, vdpbf16ps is slower than f32: used only for
  // constants packed for it. The unit decides bits, so being a constant must
  // not decide the unit: a training step's weights are none.
  if (target.hasTiles() && !c.packed && !target.isReproducible)
    return ArithmeticUnit::MultiplyAdd;
  return ArithmeticUnit::DotBf16;
}

LogicalResult Contraction::chooseUnit() {
  // Lanes of a depthwise convolution are channels. For attention: query and
  // key; its weights, which multiply the value, are f32.
  Type right = getElementTypeOrSelf(rhs());
  bool dequantizes = narrow && narrow.getDepth() > 1 && right.isBF16() &&
                     form == ContractionForm::Product &&
                     product.m > kMostSlicedRows;
  if (form != ContractionForm::Depthwise &&
      (!packed || packed.getDepth() > 1 || right.isF32() || dequantizes))
    unit = unitOf(*this);
  if (unit == ArithmeticUnit::TileTerms) {
    terms.areAll = right.isF16();
    terms.count = typeOfTerms(op) == PolicyType::BFloat16x3 ? 3 : 2;
    if (right.isF16())
      terms.count = target.info().unit(MathType::Float16)->terms;
  }
  if (packed && form != ContractionForm::Depthwise) {
    FailureOr<PanelForm> found =
        panelFormOf(op, packed, right, sumType, unit, bool(narrow), target);
    if (succeeded(found) && narrow && !dequantizesPanels())
      found = narrowFormOf(op, narrow, sumType, unit, target);
    if (failed(found))
      return failure();
    panelForm = *found;
    if (!isa<BlockArgument>(sourceOfReshapes(stored())))
      return op->emitError(
          "a packed operand must be an argument of the kernel");
  }
  return success();
}

const MathUnit *Contraction::unitOfTarget() const {
  if (isF16())
    return target.info().unit(MathType::Float16);
  return target.info().unit(isa<FloatType>(sumType) ? MathType::BFloat16
                                                    : MathType::Int8);
}

double Contraction::speedup() const {
  switch (unit) {
  case ArithmeticUnit::MultiplyAdd:
  case ArithmeticUnit::PairsInt16:
  case ArithmeticUnit::PairsInt8:
  case ArithmeticUnit::PairsF16:
    return 1;
  case ArithmeticUnit::DotInt8:
    // As many instructions, with four times the operands.
    return 4;
  default:
    return unitOfTarget()->rate / double(terms.products()) /
           target.info().facts().float32Rate;
  }
}
