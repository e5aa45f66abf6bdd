//===- MultiplyFloat8.cpp - matmuls of 8-bit floats on matrix units -------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Replaces the decoded operands of a matmul by their codes, or on CPUs f32
// operands by bf16. Legal because decoding is exact, also to bf16: the factors
// of every product are the same numbers. Runs after mpc-assign-precision, so
// that the typed graph shows which matmuls sum as the unit does.
//
//===----------------------------------------------------------------------===//

#include "OpEmitter.h"
#include "RoundConstant.h"

#include "mpc/Analysis/Float32Subgraphs.h"
#include "mpc/Dialect/Exe/IR/ExeDialect.h"
#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/Transforms/ConstantTransforms.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"
#include "mpc/Support/NarrowFloat.h"

namespace mpc {
#define GEN_PASS_DEF_MULTIPLYFLOAT8PASS
#include "mpc/Dialect/Mpc/Transforms/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {

/// An operand whose elements are floats of at most 8 bits.
struct Float8Operand {
  /// Null if the elements are others.
  FloatType format;
  /// Codes, before `moves`; null for a constant.
  Value codes;
  /// Transposes and reshapes between the codes and the operand, last one first.
  SmallVector<Operation *> moves;
  DecodeFloatOp decode;
  /// Codes of a constant.
  ElementsAttr constant;
};

/// Returns the codes of a constant whose elements are all numbers of `format`;
/// null if others are among them.
ElementsAttr encodeConstant(ElementsAttr value, FloatType format) {
  auto type = cast<RankedTensorType>(value.getType());
  FailureOr<ElementsAttr> wide = type.getElementType().isF32()
                                     ? FailureOr<ElementsAttr>(value)
                                     : widenConstant(value);
  if (failed(wide))
    return {};
  FailureOr<ConstantBytes> bytes = ConstantBytes::get(*wide);
  if (failed(bytes))
    return {};
  ArrayRef<float> numbers = bytes->as<float>();
  const NarrowFloat &narrow = *narrowFloatOf(format);
  std::string codes(numbers.size(), 0);
  for (auto [number, code] : llvm::zip_equal(numbers, codes)) {
    uint8_t exact = narrow.encode(number);
    if (narrow.decode(exact) != number)
      return {};
    code = char(exact);
  }
  return makeConstant(type.clone(format), std::move(codes));
}

Float8Operand float8OperandOf(Value operand) {
  Float8Operand found;
  MLIRContext *context = operand.getContext();
  while (Operation *op = operand.getDefiningOp()) {
    if (isa<TransposeOp, ReshapeOp>(op))
      found.moves.push_back(op);
    else if (!isa<CastOp>(op) || !isa<FloatType>(getElementTypeOrSelf(operand)))
      break;
    // Floats of 16 and more bits represent all numbers of 8 bits.
    operand = op->getOperand(0);
  }
  if (auto decode = operand.getDefiningOp<DecodeFloatOp>()) {
    if (!isa<Float8E8M0FNUType>(decode.getFormat())) {
      found.format = cast<FloatType>(decode.getFormat());
      found.codes = decode.getInput();
      found.decode = decode;
    }
  } else if (auto constant = operand.getDefiningOp<mpc::ConstantOp>();
             constant && found.moves.empty()) {
    for (FloatType format : {FloatType(Float8E4M3FNType::get(context)),
                             FloatType(Float8E5M2Type::get(context))}) {
      found.constant = encodeConstant(constant.getValue(), format);
      if (!found.constant)
        continue;
      found.format = format;
      break;
    }
  }
  return found;
}

struct MultiplyFloat8Pass
    : mpc::impl::MultiplyFloat8PassBase<MultiplyFloat8Pass> {
  using Base::Base;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    FailureOr<TargetInfo> info = exe::targetOf(function, target);
    if (failed(info))
      return signalPassFailure();
    const MathUnit *float8 = info->unit(MathType::Float8),
                   *bfloat16 = info->unit(MathType::BFloat16);
    // CPUs add the products in f32, tensor cores with fewer bits.
    bool isCpu = !info->isGpu();
    if (function.isDeclaration())
      return markAllAnalysesPreserved();
    function.walk([&](MatmulOp matmul) {
      if (float8)
        rewrite(matmul, *float8);
      else if (bfloat16 && isCpu)
        narrow(matmul);
    });
    if (numMatmuls == 0)
      markAllAnalysesPreserved();
  }

private:
  /// Emits the numbers of `operand`, along k in memory: the order that the
  /// instructions read.
  Value emit(OpBuilder &builder, Location loc, const Float8Operand &operand,
             bool isAlongDepth) {
    if (operand.constant) {
      ElementsAttr value = operand.constant;
      if (!isAlongDepth) {
        FailureOr<ElementsAttr> swapped = transposeConstant(
            value, swapLast(cast<RankedTensorType>(value.getType()).getRank()));
        if (failed(swapped))
          return {};
        value = *swapped;
      }
      return mpc::ConstantOp::create(builder, loc, value);
    }
    Value codes = operand.codes;
    for (Operation *move : llvm::reverse(operand.moves)) {
      Operation *moved = builder.clone(*move);
      moved->setOperand(0, codes);
      moved->getResult(0).setType(
          cast<RankedTensorType>(move->getResult(0).getType())
              .clone(getElementTypeOrSelf(codes)));
      codes = moved->getResult(0);
    }
    OpEmitter emitter(builder, operand.decode);
    if (!isAlongDepth)
      codes = emitter.transpose(
          codes, swapLast(cast<RankedTensorType>(codes.getType()).getRank()));
    return emitter.create<DecodeFloatOp>(
        cast<RankedTensorType>(codes.getType()).clone(operand.format), codes,
        operand.format);
  }

  void rewrite(MatmulOp matmul, const MathUnit &unit) {
    Type result = getElementTypeOrSelf(matmul.getResult());
    if (matmul.getPacked() || matmul.getContractionSize() == 0 ||
        matmul.getContractionSize() % unit.multiple ||
        !(result.isF32() || result.isBF16() || result.isF16()))
      return;
    Float8Operand lhs = float8OperandOf(matmul.getLhs());
    if (!hasUnit(lhs) || !isNarrow(matmul.getLhs()))
      return;
    Float8Operand rhs = float8OperandOf(matmul.getRhs());
    if (!hasUnit(rhs) || (lhs.constant && rhs.constant))
      return;
    OpBuilder builder(matmul);
    Location loc = matmul.getLoc();
    Value left = emit(builder, loc, lhs, !matmul.getTransposeLhs());
    Value right = emit(builder, loc, rhs, matmul.getTransposeRhs());
    if (!left || !right)
      return;
    matmul.getLhsMutable().assign(left);
    matmul.getRhsMutable().assign(right);
    matmul.setTransposeLhs(false);
    matmul.setTransposeRhs(true);
    // Recipes sum gradients in f32, and forward products as the unit does.
    matmul.setAccumulateAttr(matmul->hasAttr(kBackwardAttr)
                                 ? TypeAttr::get(builder.getF32Type())
                                 : TypeAttr());
    ++numMatmuls;
  }

  /// Returns `value`, f32 numbers that bf16 represents, in bf16.
  static Value toBFloat16(Value value) {
    OpBuilder builder(value.getContext());
    builder.setInsertionPointAfterValue(value);
    FloatType element = builder.getBF16Type();
    if (auto constant = value.getDefiningOp<mpc::ConstantOp>())
      if (std::optional<RoundedConstant> rounded =
              roundConstantValue(constant, element))
        return mpc::ConstantOp::create(builder, value.getLoc(), rounded->value);
    return CastOp::create(
        builder, value.getLoc(),
        cast<RankedTensorType>(value.getType()).clone(element), value);
  }

  /// Multiplies f32 operands in bf16.
  void narrow(MatmulOp matmul) {
    // Fewer rows read the weights from memory, 8 bits of each.
    constexpr int64_t kFewRows = 8;
    int64_t rows = elementCount(matmul.getResult()) /
                   std::max<int64_t>(shapeOf(matmul.getResult()).back(), 1);
    if (matmul.getPacked() || rows <= kFewRows ||
        matmul.getComputeMode() != ComputeMode::native ||
        !getElementTypeOrSelf(matmul.getLhs()).isF32() ||
        !float8OperandOf(matmul.getLhs()).format ||
        !float8OperandOf(matmul.getRhs()).format)
      return;
    for (OpOperand &operand : matmul->getOpOperands())
      operand.set(toBFloat16(operand.get()));
    ++numMatmuls;
  }

  /// Returns true for the formats of float8 units.
  static bool hasUnit(const Float8Operand &operand) {
    return isa_and_present<Float8E4M3FNType, Float8E5M2Type>(operand.format);
  }

  /// Returns true for 16-bit floats: an override computes others in f32.
  static bool isNarrow(Value value) {
    return getElementTypeOrSelf(value).getIntOrFloatBitWidth() == 16;
  }
};

} // namespace
