//===- QuantizedWeightStorage.cpp - storage of quantized weights ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/QuantizedWeightStorage.h"

#include "mpc/Analysis/WeightColumns.h"
#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

/// Number of rows multiplied with each column of the weights.
static int64_t rowsOf(Operation *op) {
  Value result = op->getResult(0);
  return elementCount(result) / std::max<int64_t>(shapeOf(result).back(), 1);
}

bool mpc::dequantizesMatrices(const TargetInfo &target) {
  const KernelCapabilities &kernels = target.kernels();
  return kernels.fusesOperandMovement && kernels.panelColumns == 0;
}

/// Smaller constants are read in negligible time.
static constexpr double kLeastBytes = 1 << 16;
/// Instructions to dequantize one weight, and rows per tile, each of which
/// dequantizes again.
static constexpr double kUnpackInstructions = 4;
static constexpr int64_t kGemmTileRows = 128;
/// Number of rows up to which a GEMM is memory-bound on a target without known
/// rates.
static constexpr int64_t kFewRows = 8;
/// Maximum relative time of a worthwhile change.
static constexpr double kWorthwhile = 0.9;

bool mpc::isDequantizedGemmFaster(const DequantizedGemmWeights &weights,
                                  const TargetInfo &target) {
  if (weights.wideBytes < kLeastBytes ||
      weights.narrowBytes >= weights.wideBytes)
    return false;
  if (!target.hasCeilings())
    return weights.rows <= kFewRows;
  auto count = double(weights.count);
  double multiply = 2 * double(weights.rows) * count /
                    target.flopsPerSecond(weights.type, /*aligned=*/true);
  // A multiply-add is two operations of one instruction.
  double unpack = double(llvm::divideCeil(weights.rows, kGemmTileRows)) *
                  count * kUnpackInstructions * 2 /
                  target.flopsPerSecond(PolicyType::Float32, /*aligned=*/true);
  // Matrix units run concurrently with the threads.
  double busy = target.unit(weights.type) ? std::max(multiply, unpack)
                                          : multiply + unpack;
  double wide = std::max(multiply, weights.wideBytes / target.bytesPerSecond());
  return std::max(busy, weights.narrowBytes / target.bytesPerSecond()) <
         kWorthwhile * wide;
}

/// Returns true if a kernel of threads reads weights in this format.
static bool unpacksStored(Operation *op, PolicyType type,
                          const WeightFormat &format, int64_t count,
                          const CastFusionTarget &target) {
  bool is16 = type == PolicyType::Float16 || type == PolicyType::BFloat16;
  return isa<MatmulOp>(op) && !target.hasProductLibrary &&
         isDequantizedGemmFaster({rowsOf(op), type, count,
                                  (is16 ? 2.0 : 4.0) * double(count),
                                  double(storedBytes(op, format))},
                                 target.machine);
}

bool mpc::readsQuantizedWeights(Operation *op, PolicyType type,
                                const WeightFormat &format,
                                const CastFusionTarget &target) {
  bool isUnpacked = dequantizesMatrices(target.machine);
  ConstantOp constant = weightsOf(op);
  std::optional<WeightColumns> columns =
      constant ? WeightColumns::of(op) : std::nullopt;
  // A splat is one number, and grouped filters are not packed into panels.
  if (!columns || columns->length == 0 || splatValue(constant.getValue()) ||
      !format.isNarrow() ||
      (target.machine.kernels().panelColumns == 0 && !isUnpacked))
    return false;
  if (auto conv = dyn_cast<ConvOp>(op); conv && conv.getGroups() != 1)
    return false;
  if (columns->formatFor(format, op).type != format.type)
    return false;
  if (isUnpacked)
    return unpacksStored(op, type, format, columns->count * columns->length,
                         target);
  if (type == PolicyType::Float32)
    return true;
  // 16-bit integers are no narrower than the compute type.
  bool areBytes = format.isScaled() && format.type != WeightType::Int16;
  if (!areBytes ||
      (type != PolicyType::BFloat16 && type != PolicyType::Float16))
    return false;
  // Without a unit, kernels upconvert any operand in registers.
  if (!target.machine.unit(type == PolicyType::Float16 ? MathType::Float16
                                                       : MathType::BFloat16))
    return true;
  // With one, kernels read steps of the int8 unit, which multiplies few rows;
  // for many, a bf16 unit's panels are dequantized.
  constexpr int64_t kSteps = 16;
  const MathUnit *unit = target.machine.unit(MathType::Int8);
  auto product = dyn_cast<MatmulOp>(op);
  int64_t group =
      format.type == WeightType::Int4 ? format.group : columns->length;
  return format.isInteger() && product && !product.getTransposeLhs() && unit &&
         unit->depth == 4 && group % kSteps == 0 &&
         (rowsOf(op) <= kMostSlicedRows ||
          (type == PolicyType::BFloat16 &&
           rowsOf(op) >= kFewestDequantizedRows));
}

int64_t mpc::storedBytes(Operation *op, const WeightFormat &format) {
  WeightColumns columns = *WeightColumns::of(op);
  int64_t elements = columns.count * columns.length;
  constexpr int64_t kScaleBytes = 4, kGroupBytes = 2;
  switch (format.type) {
  case WeightType::Float32:
    return 4 * elements;
  case WeightType::Float16:
  case WeightType::BFloat16:
    return 2 * elements;
  case WeightType::Int16:
    return 2 * elements + kScaleBytes * columns.count;
  case WeightType::Int8:
  case WeightType::Float8:
    return elements + kScaleBytes * columns.count;
  case WeightType::Int4:
    return elements / 2 + kGroupBytes * (elements / format.group);
  }
  llvm_unreachable("every type has bytes");
}

bool mpc::isFloat32AsFast(const CastFusionTarget &target) {
  return target.machine.kernels().panelColumns &&
         !target.machine.unit(MathType::BFloat16) &&
         !target.machine.unit(MathType::Float16);
}
