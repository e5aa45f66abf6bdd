//===- CompressTables.cpp - lossless compression of embedding tables ------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Stores constant tables of which mpc.gather takes rows in the smallest
// quantized format that reproduces every value exactly, and inserts an
// mpc.dequantize before each reader, whose kernel dequantizes the rows it
// takes. Runs after the passes that rewrite constants, which handle only
// floats.
//
//===----------------------------------------------------------------------===//

#include "QuantizedPanels.h"

#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"

namespace mpc {
#define GEN_PASS_DEF_COMPRESSTABLESPASS
#include "mpc/Dialect/Mpc/Transforms/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

/// Returns true if `constant` is a large matrix of floats of which all readers
/// take whole rows.
static bool isTable(mpc::ConstantOp constant) {
  auto type = cast<RankedTensorType>(constant.getType());
  Type element = type.getElementType();
  if (type.getRank() != 2 || byteCount(type) < kLeastCompressedBytes ||
      !(element.isF32() || element.isBF16() || element.isF16()) ||
      isa<SplatElementsAttr>(constant.getValue()) || constant->use_empty())
    return false;
  return llvm::all_of(constant->getUses(), [](OpOperand &use) {
    auto gather = dyn_cast<GatherOp>(use.getOwner());
    return gather && use.getOperandNumber() == 0 && gather.getAxis() == 0;
  });
}

namespace {
struct CompressTablesPass
    : mpc::impl::CompressTablesPassBase<CompressTablesPass> {
  using Base::Base;

  void runOnOperation() override {
    for (auto constant : llvm::make_early_inc_range(
             getOperation().getBody().getOps<mpc::ConstantOp>()))
      if (isTable(constant))
        narrow(constant);
  }

private:
  void narrow(mpc::ConstantOp constant) {
    auto type = cast<RankedTensorType>(constant.getType());
    int64_t rows = type.getDimSize(0), width = type.getDimSize(1);
    bool onlyBytes = !type.getElementType().isF32();
    auto search = [&]() -> std::optional<LosslessPanels> {
      std::optional<std::vector<float>> numbers = constantFloats(constant);
      if (!numbers)
        return std::nullopt;
      return findLosslessEncoding(*numbers, rows, width, /*columns=*/1,
                                  /*run=*/width, /*together=*/1, onlyBytes);
    };
    std::optional<QuantizedPanels> stored =
        QuantizedPanels::find(constant, {rows, width}, "of a table", search);
    if (!stored)
      return;
    ++numNarrowed;
    bytesSaved += byteCount(type) - stored->bytes;
    for (OpOperand &use : llvm::make_early_inc_range(constant->getUses())) {
      OpBuilder builder(use.getOwner());
      use.set(stored->widen(builder, constant.getLoc(), type.getElementType()));
    }
    constant->erase();
  }
};
} // namespace
