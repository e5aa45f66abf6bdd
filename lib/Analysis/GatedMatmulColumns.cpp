//===- GatedMatmulColumns.cpp - two GEMMs with interleaved columns --------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/GatedMatmulColumns.h"

#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

using namespace mlir;
using namespace mpc;

/// Columns of a block on a GPU: 128 bits of 16-bit results.
static constexpr int64_t kVectorColumns = 8;

int64_t GatedMatmulColumns::blockFor(const KernelCapabilities &kernels) {
  if (kernels.panelColumns)
    return kernels.panelColumns / 2;
  return kernels.fusesResultMovement ? kVectorColumns : 0;
}

bool GatedMatmulColumns::hasTypes(MatmulOp product) {
  auto isFloat = [](Value value) {
    Type type = getElementTypeOrSelf(value);
    return type.isF32() || type.isF16() || type.isBF16();
  };
  return llvm::all_of(product->getOperands(), isFloat) &&
         isFloat(product.getResult()) && !product.getAccumulateType().isF64();
}

/// Returns the half of `[..., n, 2, block]` that `slice` takes, or nullopt.
static std::optional<int64_t> halfOf(SliceOp slice) {
  SmallVector<int64_t> sizes(shapeOf(slice.getInput()));
  size_t dimension = sizes.size() - 2;
  sizes[dimension] = 1;
  SmallVector<int64_t> offsets(slice.getOffsets());
  int64_t half = std::exchange(offsets[dimension], 0);
  bool isWhole =
      slice.getSizes() == ArrayRef<int64_t>(sizes) &&
      llvm::all_of(offsets, [](int64_t offset) { return offset == 0; }) &&
      llvm::all_of(slice.getStrideValues(),
                   [](int64_t stride) { return stride == 1; });
  return isWhole ? std::optional(half) : std::nullopt;
}

std::optional<GatedMatmulColumns> GatedMatmulColumns::of(Operation *product) {
  auto matmul = dyn_cast_if_present<MatmulOp>(product);
  if (!matmul || !hasTypes(matmul) || !matmul->hasOneUse())
    return std::nullopt;
  auto blocks = dyn_cast<ReshapeOp>(*matmul->user_begin());
  ArrayRef<int64_t> joint = shapeOf(matmul.getResult());
  if (!blocks || joint.size() < 2 ||
      shapeOf(blocks.getResult()).size() != joint.size() + 2)
    return std::nullopt;
  ArrayRef<int64_t> rows = joint.drop_back(),
                    split = shapeOf(blocks.getResult());
  if (split.drop_back(3) != rows || split[split.size() - 2] != 2 ||
      split.back() == 0 || llvm::range_size(blocks->getUsers()) != 2)
    return std::nullopt;

  GatedMatmulColumns pair;
  pair.block = split.back();
  SmallVector<int64_t> shape(rows);
  shape.push_back(joint.back() / 2);
  pair.views = {blocks, nullptr, nullptr, nullptr, nullptr};
  for (Operation *user : blocks->getUsers()) {
    auto slice = dyn_cast<SliceOp>(user);
    std::optional<int64_t> half = slice ? halfOf(slice) : std::nullopt;
    if (!half || pair.halves[*half] || !slice->hasOneUse())
      return std::nullopt;
    auto columns = dyn_cast<ReshapeOp>(*slice->user_begin());
    if (!columns || shapeOf(columns.getResult()) != ArrayRef<int64_t>(shape))
      return std::nullopt;
    pair.halves[*half] = columns.getResult();
    pair.views[1 + 2 * *half] = slice;
    pair.views[2 + 2 * *half] = columns;
  }
  return pair;
}
