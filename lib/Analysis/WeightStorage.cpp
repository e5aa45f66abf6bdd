//===- WeightStorage.cpp - weights as kernels read them -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/WeightStorage.h"

#include "mpc/Analysis/WeightColumns.h"
#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

/// Rows that meet each column of the weights.
static int64_t rowsOf(Operation *op) {
  Value result = op->getResult(0);
  return elementCount(result) / std::max<int64_t>(shapeOf(result).back(), 1);
}

bool mpc::unpacksMatrices(const TargetInfo &target) {
  const KernelModel &kernels = target.kernels();
  return kernels.mapsOperands && kernels.panelColumns == 0;
}

/// Smaller constants are read in less time than anything else takes.
static constexpr double kLeastBytes = 1 << 16;
/// Instructions that unpack one weight, and rows of the tiles for each of which
/// a kernel does it again.
static constexpr double kUnpackInstructions = 4;
static constexpr int64_t kTileRows = 128;
/// Rows up to which a product waits for memory wherever rates are not known.
static constexpr int64_t kFewRows = 8;
/// What is to be gained at least.
static constexpr double kWorthwhile = 0.9;

bool mpc::paysToUnpack(const UnpackedWeights &weights,
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
  double unpack = double(llvm::divideCeil(weights.rows, kTileRows)) * count *
                  kUnpackInstructions * 2 /
                  target.flopsPerSecond(PolicyType::Float32, /*aligned=*/true);
  // Matrix units work beside the threads.
  double busy = target.unit(weights.type) ? std::max(multiply, unpack)
                                          : multiply + unpack;
  double wide = std::max(multiply, weights.wideBytes / target.bytesPerSecond());
  return std::max(busy, weights.narrowBytes / target.bytesPerSecond()) <
         kWorthwhile * wide;
}

/// Whether a kernel of threads reads them so.
static bool unpacksStored(Operation *op, PolicyType type,
                          const WeightFormat &format, int64_t count,
                          const FusionTarget &target) {
  bool is16 = type == PolicyType::Float16 || type == PolicyType::BFloat16;
  return isa<MatmulOp>(op) && !target.hasProductLibrary &&
         paysToUnpack({rowsOf(op), type, count,
                       (is16 ? 2.0 : 4.0) * double(count),
                       double(storedBytes(op, format))},
                      target.machine);
}

bool mpc::readsStored(Operation *op, PolicyType type,
                      const WeightFormat &format, const FusionTarget &target) {
  bool isUnpacked = unpacksMatrices(target.machine);
  ConstantOp constant = weightsOf(op);
  std::optional<WeightColumns> columns =
      constant ? WeightColumns::of(op) : std::nullopt;
  // A splat is one number, and filters of groups are in no panels.
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
  // Integers of 16 bits are no narrower than what is multiplied.
  bool areBytes = format.isScaled() && format.type != WeightType::Int16;
  if (!areBytes ||
      (type != PolicyType::BFloat16 && type != PolicyType::Float16))
    return false;
  // Without a unit kernels widen factors in registers, whatever they are.
  if (!target.machine.unit(type == PolicyType::Float16 ? MathType::Float16
                                                       : MathType::BFloat16))
    return true;
  // Where there is one, the unit for bytes reads integers while few rows wait
  // for memory.
  constexpr int64_t kMostRows = 4, kSteps = 16;
  const MathUnit *unit = target.machine.unit(MathType::Int8);
  auto product = dyn_cast<MatmulOp>(op);
  int64_t group =
      format.type == WeightType::Int4 ? format.group : columns->length;
  return format.isInteger() && product && !product.getTransposeLhs() && unit &&
         unit->depth == 4 && rowsOf(op) <= kMostRows && group % kSteps == 0;
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

bool mpc::multipliesWideAsFast(const FusionTarget &target) {
  return target.machine.kernels().panelColumns &&
         !target.machine.unit(MathType::BFloat16) &&
         !target.machine.unit(MathType::Float16);
}
