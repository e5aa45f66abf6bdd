//===- CompressMatrices.cpp - lossless compression of GEMM weights --------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Stores constant GEMM operands in the smallest quantized format that
// reproduces every value exactly, with columns as rows, and inserts an
// mpc.dequantize before each reader that becomes faster
// (Analysis/WeightStorage). Runs after mpc-assign-layout and the passes that
// merge matmuls, which handle only floats.
//
//===----------------------------------------------------------------------===//

#include "QuantizedPanels.h"

#include "mpc/Analysis/QuantizedWeightStorage.h"
#include "mpc/Dialect/Exe/IR/ExeDialect.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"

#include <map>

namespace mpc {
#define GEN_PASS_DEF_COMPRESSMATRICESPASS
#include "mpc/Dialect/Mpc/Transforms/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

/// Returns the type in which a GEMM multiplies elements of a float type;
/// nullopt if kernels do not dequantize to it.
static std::optional<PolicyType> multipliedType(Type element) {
  if (element.isF32())
    return PolicyType::Float32;
  if (element.isBF16())
    return PolicyType::BFloat16;
  if (element.isF16())
    return PolicyType::Float16;
  return std::nullopt;
}

/// Returns the weights that `op` reads, assuming the smallest format (4 bits
/// each); nullopt if it has no constant operand to compress.
static std::optional<DequantizedGemmWeights> weightsReadBy(MatmulOp op) {
  auto matrix = cast<RankedTensorType>(op.getRhs().getType());
  std::optional<PolicyType> type = multipliedType(matrix.getElementType());
  auto constant = op.getRhs().getDefiningOp<mpc::ConstantOp>();
  if (!constant || !type || matrix.getRank() != 2 || op.getPacked() ||
      isa<SplatElementsAttr>(constant.getValue()) ||
      op.getAccumulate().value_or(op.getType().getElementType()).isF64())
    return std::nullopt;
  int64_t columns = shapeOf(op.getResult()).back();
  DequantizedGemmWeights weights;
  weights.rows = columns ? elementCount(op.getResult()) / columns : 0;
  weights.type = *type;
  weights.count = matrix.getNumElements();
  weights.wideBytes = double(byteCount(matrix));
  weights.narrowBytes = 0.5 * double(weights.count);
  return weights;
}

namespace {
struct CompressMatricesPass
    : mpc::impl::CompressMatricesPassBase<CompressMatricesPass> {
  using Base::Base;

  void runOnOperation() override {
    FailureOr<TargetInfo> info = exe::targetOf(getOperation(), target);
    if (failed(info))
      return signalPassFailure();
    if (!dequantizesMatrices(*info))
      return markAllAnalysesPreserved();
    getOperation().walk([&](MatmulOp op) { narrow(op, *info); });
    known.clear();
    for (Operation &op :
         llvm::make_early_inc_range(getOperation().getBody().front()))
      if (isa<mpc::ConstantOp>(op) && op.use_empty())
        op.erase();
  }

private:
  void narrow(MatmulOp op, const TargetInfo &info) {
    // Searches for a format only if the smallest one would save time.
    std::optional<DequantizedGemmWeights> weights = weightsReadBy(op);
    if (!weights || !isDequantizedGemmFaster(*weights, info))
      return;
    auto constant = op.getRhs().getDefiningOp<mpc::ConstantOp>();
    auto [it, isNew] = known.try_emplace(
        {constant.getOperation(), op.getTransposeRhs()}, std::nullopt);
    if (isNew)
      it->second = store(constant, op.getTransposeRhs());
    if (!it->second)
      return;
    weights->narrowBytes = double(it->second->bytes);
    if (!isDequantizedGemmFaster(*weights, info))
      return;
    if (it->second->values.use_empty()) {
      ++numNarrowed;
      bytesSaved += byteCount(constant.getType()) - it->second->bytes;
    }
    OpBuilder builder(op);
    Type element = getElementTypeOrSelf(constant.getType());
    op->setOperand(1, it->second->widen(builder, op.getLoc(), element));
    op.setTransposeRhs(true);
  }

  /// Compresses `constant`, stored by column; `areLines`: it already is.
  std::optional<QuantizedPanels> store(mpc::ConstantOp constant,
                                       bool areLines) {
    auto type = cast<RankedTensorType>(constant.getType());
    int64_t count = type.getDimSize(areLines ? 0 : 1),
            depth = type.getDimSize(areLines ? 1 : 0);
    auto search = [&]() -> std::optional<LosslessPanels> {
      std::optional<std::vector<float>> numbers = constantFloats(constant);
      if (!numbers)
        return std::nullopt;
      if (!areLines) {
        std::vector<float> lines(numbers->size());
        for (int64_t k = 0; k < depth; ++k)
          for (int64_t line = 0; line < count; ++line)
            lines[line * depth + k] = (*numbers)[k * count + line];
        numbers = std::move(lines);
      }
      return findLosslessEncoding(*numbers, count, depth, /*columns=*/1,
                                  /*run=*/depth);
    };
    return QuantizedPanels::find(constant, {count, depth},
                                 areLines ? "by rows" : "by columns", search);
  }

  /// Cache, keyed by the constant and whether its rows are columns of the GEMM.
  std::map<std::pair<Operation *, bool>, std::optional<QuantizedPanels>> known;
};
} // namespace
