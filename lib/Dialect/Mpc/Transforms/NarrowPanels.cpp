//===- NarrowPanels.cpp - packed constants in fewer bytes -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Stores packed constants in the narrowest form that gives every number back,
// and an mpc.dequantize before each reader. Legal because a form that loses
// nothing is looked for (Analysis/NarrowForm); behind mpc-pack-constants, which
// knows floats alone.
//
//===----------------------------------------------------------------------===//

#include "StoredPanels.h"

#include "mpc/Dialect/Mpc/IR/Shapes.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"

#include <map>

namespace mpc {
#define GEN_PASS_DEF_NARROWPANELSPASS
#include "mpc/Dialect/Mpc/Transforms/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

/// Smaller constants stay in caches between two products.
static constexpr int64_t kLeastBytes = 1 << 16;
/// Rows for which bytes are multiplied as such. 64 weights take five or six
/// instructions for each row then, and widened 12 for all rows and four for
/// each.
static constexpr int64_t kMostSplitRows = 4;

namespace {

/// The layout of the constant that `op`, a matmul or a conv, reads.
PackedAttr packedOf(Operation *op) {
  if (auto product = dyn_cast<MatmulOp>(op))
    return product.getPackedAttr();
  return cast<ConvOp>(op).getPackedAttr();
}

/// The packed constant of `op`, where its product reads f32 numbers as they
/// are, or 16 bits; null elsewhere.
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

/// Positions of the constant that `op` walks at a stretch: all of a product's,
/// and the channels at one place of a conv's window.
int64_t runOf(ContractionOpInterface op) {
  int64_t depth = op.getContractionSize();
  auto conv = dyn_cast<ConvOp>(op.getOperation());
  return conv ? depth / productOf(conv.getWindowShape()) : depth;
}

/// Panels of f32 whose columns are in order, `[panel][position][column]`.
struct PlainPanels {
  std::vector<float> numbers;
  int64_t count, depth, columns;
};

/// The panels of `depth` positions that `packed` describes; nullopt where the
/// data cannot be read.
std::optional<PlainPanels> plainPanels(mpc::ConstantOp constant,
                                       PackedAttr packed, int64_t depth) {
  auto type = cast<RankedTensorType>(constant.getType());
  std::optional<std::vector<float>> numbers = numbersOf(constant);
  if (!numbers || type.getRank() != 3)
    return std::nullopt;
  PlainPanels panels{{}, type.getDimSize(0), depth, packed.getColumns()};
  if (type.getElementType().isF32()) {
    panels.numbers = std::move(*numbers);
    return panels;
  }
  // Neighbours in a step are positions of a column, or columns that stand half
  // a panel apart.
  int64_t together = packed.getDepth(), apart = packed.getInterleave();
  int64_t columns = panels.columns, half = columns / apart;
  for (int64_t panel = 0; panel < panels.count; ++panel)
    for (int64_t k = 0; k < depth; ++k) {
      int64_t line = panel * type.getDimSize(1) + k / together;
      for (int64_t column = 0; column < columns; ++column) {
        int64_t place = apart * (column % half) + column / half;
        panels.numbers.push_back(
            (*numbers)[(line * columns + place) * together + k % together]);
      }
    }
  return panels;
}

struct NarrowPanelsPass : mpc::impl::NarrowPanelsPassBase<NarrowPanelsPass> {
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
    return isa<MatmulOp>(op) && rowsOf(op) <= mostRows &&
           byteCount(op->getOperand(1).getType()) >= kLeastBytes;
  }

  /// Rows that meet each of the constant's columns.
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
    // Whose rows are split where they are read: a unit for bytes takes as long
    // for each row, while of many rows each takes little beside the widening.
    bool inSteps =
        product && !product.getTransposeLhs() && rowsOf(op) <= kMostSplitRows;
    int64_t together = inSteps ? int8Depth : 1;
    Type element = getElementTypeOrSelf(constant.getType());
    PackedAttr packed = packedOf(op);
    // A unit multiplies several positions of 16 bits at once; one for bytes is
    // what beats it, and that only while few rows wait for memory. Without a
    // unit factors are widened in registers, whatever they are.
    if (!element.isF32() && together == 1 && packed.getDepth() > 1)
      return;
    auto [it, isNew] =
        known.try_emplace({constant.getOperation(), run, inSteps});
    if (isNew)
      it->second = store(constant, op, run, together);
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

  std::optional<StoredPanels> store(mpc::ConstantOp constant,
                                    ContractionOpInterface reader, int64_t run,
                                    int64_t together) {
    auto type = cast<RankedTensorType>(constant.getType());
    bool isWide = type.getElementType().isF32();
    PackedAttr packed = packedOf(reader);
    bool hasUnit = packed.getDepth() > 1;
    int64_t positions =
        hasUnit ? shapeOf(reader->getOperand(0)).back() : type.getShape()[1];
    std::optional<PlainPanels> panels =
        plainPanels(constant, packed, positions);
    if (!panels)
      return std::nullopt;
    int64_t count = panels->count, depth = panels->depth,
            columns = panels->columns;
    std::optional<NarrowForm> form =
        findNarrowForm(panels->numbers, count, depth, columns, run, together);
    if (!form)
      return std::nullopt;
    // Of 16 bits only bytes are narrower, and a unit's only in steps of those.
    if (!isWide && (!areBytes(form->kind) || (hasUnit && form->depth == 1)))
      return std::nullopt;
    StoredPanels stored =
        StoredPanels::make(constant, *form, {count, depth, columns});
    ++numNarrowed;
    bytesSaved += byteCount(type) - stored.bytes;
    return stored;
  }

  PackedAttr plainOf(int64_t columns) {
    return PackedAttr::get(&getContext(), columns, /*interleave=*/1,
                           /*depth=*/1);
  }

  static bool areBytes(NarrowForm::Kind kind) {
    return kind != NarrowForm::Kind::BFloat16 &&
           kind != NarrowForm::Kind::Float16 && kind != NarrowForm::Kind::Int16;
  }

  /// By the constant, the runs in which it is read, and whether that is by
  /// products whose rows are split.
  std::map<std::tuple<Operation *, int64_t, bool>, std::optional<StoredPanels>>
      known;
};

} // namespace
