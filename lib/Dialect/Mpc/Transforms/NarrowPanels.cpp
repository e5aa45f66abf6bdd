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

#include "NarrowConstant.h"

#include "mpc/Analysis/NarrowForm.h"
#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"

#include <cstring>
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

/// What an mpc.dequantize reads.
struct StoredPanels {
  Value values, scale, zero;
  bool areNibbles = false, areFloats = false;
  int64_t commonZero = 0, depth = 1;
};

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
  FailureOr<ConstantBytes> bytes = ConstantBytes::get(constant.getValue());
  if (failed(bytes) || type.getRank() != 3)
    return std::nullopt;
  PlainPanels panels{{}, type.getDimSize(0), depth, packed.getColumns()};
  Type element = type.getElementType();
  if (element.isF32()) {
    ArrayRef<float> numbers = bytes->as<float>();
    panels.numbers.assign(numbers.begin(), numbers.end());
    return panels;
  }
  // Neighbours in a step are positions of a column, or columns that stand half
  // a panel apart.
  int64_t together = packed.getDepth(), apart = packed.getInterleave();
  int64_t columns = panels.columns, half = columns / apart;
  ArrayRef<uint16_t> halves = bytes->as<uint16_t>();
  const llvm::fltSemantics &semantics =
      cast<FloatType>(element).getFloatSemantics();
  for (int64_t panel = 0; panel < panels.count; ++panel)
    for (int64_t k = 0; k < depth; ++k) {
      int64_t line = panel * type.getDimSize(1) + k / together;
      for (int64_t column = 0; column < columns; ++column) {
        int64_t place = apart * (column % half) + column / half;
        uint16_t bits =
            halves[(line * columns + place) * together + k % together];
        panels.numbers.push_back(
            element.isBF16() ? llvm::bit_cast<float>(uint32_t(bits) << 16)
                             : llvm::APFloat(semantics, llvm::APInt(16, bits))
                                   .convertToFloat());
      }
    }
  return panels;
}

template <typename T> ArrayRef<char> bytesOf(const std::vector<T> &values) {
  return {reinterpret_cast<const char *>(values.data()),
          values.size() * sizeof(T)};
}

/// Whether bf16 holds all of `scales`.
bool areBf16(ArrayRef<float> scales) {
  return llvm::all_of(scales, [](float scale) {
    uint32_t bits;
    std::memcpy(&bits, &scale, sizeof(bits));
    return (bits & 0xffff) == 0;
  });
}

std::vector<uint16_t> upperHalves(ArrayRef<float> numbers) {
  std::vector<uint16_t> halves;
  for (float number : numbers) {
    uint32_t bits;
    std::memcpy(&bits, &number, sizeof(bits));
    halves.push_back(bits >> 16);
  }
  return halves;
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
    bool isProduct = product != nullptr;
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
        known.try_emplace({constant.getOperation(), isProduct, inSteps});
    if (isNew)
      it->second = store(constant, op, isProduct, together);
    if (!it->second)
      return;
    const StoredPanels &stored = *it->second;
    OpBuilder builder(op);
    Value numbers =
        DequantizeOp::create(builder, op.getLoc(), stored.values, stored.scale,
                             stored.zero, stored.areNibbles, stored.areFloats,
                             stored.commonZero, stored.depth, element);
    op->setOperand(1, numbers);
    if (product)
      product.setPackedAttr(plainOf(packed.getColumns()));
    else
      cast<ConvOp>(op.getOperation())
          .setPackedAttr(plainOf(packed.getColumns()));
  }

  std::optional<StoredPanels> store(mpc::ConstantOp constant,
                                    ContractionOpInterface reader,
                                    bool byGroups, int64_t together) {
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
    std::optional<NarrowForm> form = findNarrowForm(
        panels->numbers, count, depth, columns, byGroups, together);
    if (!form)
      return std::nullopt;
    // Of 16 bits only bytes are narrower, and a unit's only in steps of those.
    if (!isWide && (!areBytes(form->kind) || (hasUnit && form->depth == 1)))
      return std::nullopt;
    OpBuilder builder(constant);
    std::string name = resourceName(constant);
    int64_t saved = byteCount(type);
    auto make = [&](int64_t lines, int64_t width, Type element,
                    ArrayRef<char> data, StringRef suffix) -> Value {
      auto narrow = RankedTensorType::get({count, lines, width}, element);
      saved -= byteCount(narrow);
      return mpc::ConstantOp::create(
          builder, constant.getLoc(),
          makeConstant(narrow, data, (name + "." + suffix).str()));
    };
    StoredPanels stored;
    stored.areNibbles = form->kind == NarrowForm::Kind::Nibbles;
    stored.areFloats = form->kind == NarrowForm::Kind::Float8;
    stored.commonZero = form->commonZero;
    stored.depth = form->depth;
    int64_t ofByte = form->depth * (stored.areNibbles ? 2 : 1);
    stored.values =
        make(depth / ofByte, form->depth * columns, elementOf(form->kind),
             bytesOf(form->values), "narrow");
    if (form->isScaled()) {
      int64_t groups = depth / form->group;
      std::vector<uint16_t> halves = upperHalves(form->scales);
      stored.scale = areBf16(form->scales)
                         ? make(groups, columns, builder.getBF16Type(),
                                bytesOf(halves), "scales")
                         : make(groups, columns, builder.getF32Type(),
                                bytesOf(form->scales), "scales");
      if (!form->zeros.empty())
        stored.zero =
            make(groups, columns, byteType(), bytesOf(form->zeros), "zeros");
    }
    ++numNarrowed;
    bytesSaved += saved;
    return stored;
  }

  PackedAttr plainOf(int64_t columns) {
    return PackedAttr::get(&getContext(), columns, /*interleave=*/1,
                           /*depth=*/1);
  }

  Type byteType() {
    return IntegerType::get(&getContext(), 8, IntegerType::Unsigned);
  }

  static bool areBytes(NarrowForm::Kind kind) {
    return kind != NarrowForm::Kind::BFloat16 &&
           kind != NarrowForm::Kind::Float16 && kind != NarrowForm::Kind::Int16;
  }

  Type elementOf(NarrowForm::Kind kind) {
    switch (kind) {
    case NarrowForm::Kind::BFloat16:
      return BFloat16Type::get(&getContext());
    case NarrowForm::Kind::Float16:
      return Float16Type::get(&getContext());
    case NarrowForm::Kind::Int16:
      return IntegerType::get(&getContext(), 16);
    case NarrowForm::Kind::Int8:
      return IntegerType::get(&getContext(), 8);
    case NarrowForm::Kind::Float8:
    case NarrowForm::Kind::UnsignedInt8:
    case NarrowForm::Kind::Nibbles:
      return byteType();
    }
    llvm_unreachable("every kind has a type");
  }

  /// By the constant, whether products read it, and those whose rows are split.
  std::map<std::tuple<Operation *, bool, bool>, std::optional<StoredPanels>>
      known;
};

} // namespace
