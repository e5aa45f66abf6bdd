//===- CompressPanels.cpp - lossless compression of packed weights --------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Stores packed constants in the smallest quantized format that reproduces
// every value exactly, and inserts an mpc.dequantize before each reader. Legal
// because the search (Analysis/LosslessPanels) accepts only lossless formats.
// Runs after mpc-pack-constants, which handles only floats.
//
//===----------------------------------------------------------------------===//

#include "QuantizedPanels.h"
#include "RoundConstant.h"

#include "mpc/Analysis/QuantizedWeightStorage.h"
#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"

#include <map>

namespace mpc {
#define GEN_PASS_DEF_COMPRESSPANELSPASS
#include "mpc/Dialect/Mpc/Transforms/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {

/// Returns the layout of the constant operand of `op`, a matmul or a conv.
PackedAttr packedOf(Operation *op) {
  if (auto product = dyn_cast<MatmulOp>(op))
    return product.getPackedAttr();
  return cast<ConvOp>(op).getPackedAttr();
}

/// Returns the packed constant of `op` if its GEMM reads native f32 or 16-bit
/// values; else null.
mpc::ConstantOp packedConstant(ContractionOpInterface op) {
  PackedAttr packed = packedOf(op);
  if (!packed || op.getComputeMode() != ComputeMode::native ||
      !op.getAccumulateType().isF32())
    return {};
  auto constant = op->getOperand(1).getDefiningOp<mpc::ConstantOp>();
  if (!constant)
    return {};
  Type element = getElementTypeOrSelf(constant.getType());
  bool isPlain = packed.getDepth() == 1 && packed.getInterleave() == 1;
  bool isTaken = element.isF32() ? isPlain
                                 : (element.isBF16() || element.isF16()) &&
                                       packed.getDepth() <= 2;
  return isTaken ? constant : mpc::ConstantOp();
}

/// Contiguous K extent of the constant that `op` reads: all of K for a matmul,
/// the channels at one window position for a conv.
int64_t runOf(ContractionOpInterface op) {
  int64_t depth = op.getContractionSize();
  auto conv = dyn_cast<ConvOp>(op.getOperation());
  return conv ? depth / productOf(conv.getWindowShape()) : depth;
}

/// Returns the numbers of the first `count` packed panels of `depth` positions
/// in plain column order, `[panel][k][column]`, in `memory` if they are not
/// stored so. `bytes` are those of `type`.
ArrayRef<float> plainPanels(const ConstantBytes &bytes, RankedTensorType type,
                            PackedAttr packed, int64_t count, int64_t depth,
                            MutableArrayRef<float> memory) {
  Type element = type.getElementType();
  if (element.isF32())
    return bytes.as<float>().take_front(count * type.getDimSize(1) *
                                        type.getDimSize(2));
  // Adjacent elements of a step are k indices of one column, or columns half a
  // panel apart.
  int64_t together = packed.getDepth(), apart = packed.getInterleave();
  int64_t columns = packed.getColumns(), half = columns / apart;
  std::vector<int64_t> places(columns);
  for (int64_t column = 0; column < columns; ++column)
    places[column] = (apart * (column % half) + column / half) * together;
  std::vector<uint16_t> row(columns);
  float *to = memory.data();
  for (int64_t panel = 0; panel < count; ++panel)
    for (int64_t k = 0; k < depth; ++k, to += columns) {
      int64_t line = panel * type.getDimSize(1) + k / together;
      const uint16_t *from = bytes.as<uint16_t>().data() +
                             line * columns * together + k % together;
      for (int64_t column = 0; column < columns; ++column)
        row[column] = from[places[column]];
      widenElements(row, element, to);
    }
  return memory.take_front(count * depth * columns);
}

struct CompressPanelsPass
    : mpc::impl::CompressPanelsPassBase<CompressPanelsPass> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<ContractionOpInterface> users;
    getOperation().walk([&](Operation *op) {
      if (isa<MatmulOp, ConvOp>(op) && isWanted(op))
        users.push_back(cast<ContractionOpInterface>(op));
    });
    for (ContractionOpInterface op : users)
      narrow(op);
    known.clear();
    for (Block &block : getOperation().getBody())
      for (Operation &op : llvm::make_early_inc_range(block))
        if (isa<mpc::ConstantOp>(op) && op.use_empty())
          op.erase();
  }

private:
  bool isWanted(Operation *op) const {
    if (mostRows == 0)
      return true;
    return isa<MatmulOp>(op) &&
           rowsOf(op) <= std::max(mostRows, mostByteRows) &&
           byteCount(op->getOperand(1).getType()) >= kLeastCompressedBytes;
  }

  /// Number of GEMM rows multiplied with each column of the constant.
  static int64_t rowsOf(Operation *op) {
    Value result = op->getResult(0);
    return elementCount(result) / std::max<int64_t>(shapeOf(result).back(), 1);
  }

  void narrow(ContractionOpInterface op) {
    mpc::ConstantOp constant = packedConstant(op);
    if (!constant)
      return;
    auto product = dyn_cast<MatmulOp>(op.getOperation());
    int64_t run = runOf(op);
    Type element = getElementTypeOrSelf(constant.getType());
    PackedAttr packed = packedOf(op);
    bool hasUnit = packed.getDepth() > 1;
    // Whether integers are stored in steps of an int8 dot-product unit. It
    // multiplies slices of few rows, at the same cost for each. For many, the
    // panels of a bf16 unit are dequantized, in the same storage. Other kernels
    // dequantize in registers.
    bool inSteps =
        product && !product.getTransposeLhs() &&
        (rowsOf(op) <= kMostSlicedRows ||
         (hasUnit && element.isBF16() && rowsOf(op) >= kFewestDequantizedRows));
    int64_t together = inSteps ? int8Depth : 1;
    if (!element.isF32() && together == 1 && hasUnit)
      return;
    bool onlyBytes = mostRows > 0 && rowsOf(op) > mostRows;
    auto [it, isNew] =
        known.try_emplace({constant.getOperation(), run, inSteps, onlyBytes});
    if (isNew)
      it->second = store(constant, op, run, together, onlyBytes);
    if (!it->second)
      return;
    OpBuilder builder(op);
    op->setOperand(1, it->second->widen(builder, op.getLoc(), element));
    if (product)
      product.setPackedAttr(plainOf(packed.getColumns()));
    else
      cast<ConvOp>(op.getOperation())
          .setPackedAttr(plainOf(packed.getColumns()));
  }

  std::optional<QuantizedPanels> store(mpc::ConstantOp constant,
                                       ContractionOpInterface reader,
                                       int64_t run, int64_t together,
                                       bool onlyBytes) {
    auto type = cast<RankedTensorType>(constant.getType());
    bool isWide = type.getElementType().isF32();
    PackedAttr packed = packedOf(reader);
    bool hasUnit = packed.getDepth() > 1;
    int64_t positions =
        hasUnit ? shapeOf(reader->getOperand(0)).back() : type.getShape()[1];
    if (type.getRank() != 3)
      return std::nullopt;
    int64_t count = type.getDimSize(0), columns = packed.getColumns();
    bool bytesOnly = onlyBytes || !isWide;
    auto search = [&]() -> std::optional<LosslessPanels> {
      FailureOr<ConstantBytes> bytes = ConstantBytes::get(constant.getValue());
      if (failed(bytes))
        return std::nullopt;
      std::shared_ptr<void> memory;
      MutableArrayRef<float> plain;
      if (!isWide) {
        size_t elements = size_t(count * positions * columns);
        memory = scratchMemory(&getContext(), elements * sizeof(float));
        if (!memory)
          return std::nullopt;
        plain = {static_cast<float *>(memory.get()), elements};
      }
      auto formOf = [&](int64_t count) {
        return findLosslessEncoding(
            plainPanels(*bytes, type, packed, count, positions, plain), count,
            positions, columns, run, together, bytesOnly);
      };
      // Most weights have no encoding, which the first panel shows.
      if (count > 1 && !formOf(1))
        return std::nullopt;
      std::optional<LosslessPanels> form = formOf(count);
      // For 16-bit weights only int8 is smaller, and for an int8 unit only in
      // its steps.
      if (form && !isWide && hasUnit && form->depth == 1)
        return std::nullopt;
      return form;
    };
    std::string text = "of panels";
    for (int64_t number :
         {positions, columns, packed.getInterleave(), packed.getDepth(), run,
          together, int64_t(bytesOnly)})
      text += " " + std::to_string(number);
    std::optional<QuantizedPanels> stored = QuantizedPanels::find(
        constant, {count, positions, columns}, text, search);
    if (!stored)
      return std::nullopt;
    ++numNarrowed;
    bytesSaved += byteCount(type) - stored->bytes;
    return stored;
  }

  PackedAttr plainOf(int64_t columns) {
    return PackedAttr::get(&getContext(), columns, /*interleave=*/1,
                           /*depth=*/1);
  }

  /// Cache, keyed by the constant, its contiguous K extent, whether rows are
  /// decomposed into int8 slices, and whether only bytes are allowed.
  std::map<std::tuple<Operation *, int64_t, bool, bool>,
           std::optional<QuantizedPanels>>
      known;
};

} // namespace
