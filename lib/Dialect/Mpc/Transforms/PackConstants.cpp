//===- PackConstants.cpp - prepack weights into panels --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Packs constant right-hand sides and filters into GEMM panels as described by
// `#mpc.packed`. Last pass of the Layout stage: later layout changes would
// invalidate the packing.
//
//===----------------------------------------------------------------------===//

#include "OpEmitter.h"

#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/Transforms/ConstantTransforms.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"

#include <map>

namespace mpc {
#define GEN_PASS_DEF_PACKCONSTANTSPASS
#include "mpc/Dialect/Mpc/Transforms/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {

/// Returns the constant that `value` reshapes, or null.
ElementsAttr constantBehind(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getInput();
  ElementsAttr attr = constantOf(value);
  if (!attr)
    return {};
  FailureOr<ElementsAttr> reshaped = reshapeConstant(attr, type);
  return succeeded(reshaped) ? *reshaped : ElementsAttr();
}

/// Strides of a matmul's right-hand side; nullopt for batched weights.
std::optional<PackSource> matmulSource(MatmulOp op) {
  ArrayRef<int64_t> shape = shapeOf(op.getRhs());
  if (productOf(shape.drop_back(2)) != 1 ||
      shape.size() > shapeOf(op.getLhs()).size())
    return std::nullopt;
  int64_t rows = shape[shape.size() - 2], columns = shape.back();
  PackSource source;
  source.rows = source.rowSplit = op.getTransposeRhs() ? columns : rows;
  source.columns = op.getTransposeRhs() ? rows : columns;
  source.rowStride = op.getTransposeRhs() ? 1 : columns;
  source.columnStride = op.getTransposeRhs() ? columns : 1;
  return source;
}

/// Strides of a conv filter `[O, C / groups, window...]`; rows are window, then
/// channels. nullopt if panels would be mostly padding.
std::optional<PackSource> convSource(ConvOp op, int64_t panel) {
  ArrayRef<int64_t> shape = shapeOf(op.getFilter());
  int64_t groups = op.getGroups(), columns = shape[0] / groups;
  if (op.getLayout() != ImageLayout::channels_last ||
      (groups > 1 && 2 * columns < panel))
    return std::nullopt;
  int64_t window = productOf(shape.drop_front(2)), channels = shape[1];
  PackSource source;
  source.groups = groups;
  source.columns = columns;
  source.rows = window * channels;
  source.groupStride = columns * channels * window;
  source.columnStride = channels * window;
  source.rowStride = window;
  source.rowSplit = channels;
  source.outerRowStride = 1;
  source.run = op.getContractionRun();
  return source;
}

struct PackConstantsPass : mpc::impl::PackConstantsPassBase<PackConstantsPass> {
  using Base::Base;

  LogicalResult initialize(MLIRContext *context) override {
    if (columns < 2 || columns > 1024 || columns % 2 != 0)
      return emitError(UnknownLoc::get(context))
             << "mpc-pack-constants: columns must be an even number from 2 to "
                "1024, found "
             << columns.getValue();
    if (bf16Depth != 1 && bf16Depth != 2 && bf16Depth != 4)
      return emitError(UnknownLoc::get(context))
             << "mpc-pack-constants: bf16-depth must be 1, 2 or 4, found "
             << bf16Depth.getValue();
    for (auto [name, depth] :
         {std::pair("int8-depth", int8Depth.getValue()),
          std::pair("other-int8-depth", otherInt8Depth.getValue())})
      if (depth != 2 && depth != 4)
        return emitError(UnknownLoc::get(context))
               << "mpc-pack-constants: " << name << " must be 2 or 4, found "
               << depth;
    if (f16Depth != 1 && f16Depth != 2)
      return emitError(UnknownLoc::get(context))
             << "mpc-pack-constants: f16-depth must be 1 or 2, found "
             << f16Depth.getValue();
    return success();
  }

  void runOnOperation() override {
    SmallVector<Operation *> users;
    getOperation().walk([&](Operation *op) {
      if (isa<MatmulOp, ConvOp>(op))
        users.push_back(op);
    });
    for (Operation *op : users) {
      if (auto matmul = dyn_cast<MatmulOp>(op)) {
        if (!matmul.getPacked())
          packMatmul(matmul);
      } else if (!cast<ConvOp>(op).getPacked()) {
        packConv(cast<ConvOp>(op));
      }
    }
    packedConstants.clear();
  }

private:
  void packMatmul(MatmulOp op) {
    ElementsAttr attr = constantBehind(op.getRhs());
    std::optional<PackSource> source = matmulSource(op);
    if (!attr || !source)
      return;
    PackedAttr form = formOf(op);
    if (!form)
      return;
    Value constant =
        pack(op, op.getRhs(), attr, *source, form, op.getTransposeRhs());
    if (!constant)
      return;
    op.getRhsMutable().assign(constant);
    op.setTransposeRhs(false);
    op.setPackedAttr(form);
  }

  void packConv(ConvOp op) {
    ElementsAttr attr = constantBehind(op.getFilter());
    std::optional<PackSource> source = convSource(op, columns);
    if (!attr || !source)
      return;
    SmallVector<int64_t> window(shapeOf(op.getFilter()).drop_front(2));
    PackedAttr form = formOf(op);
    Value constant = pack(op, op.getFilter(), attr, *source, form,
                          /*variant=*/op.getGroups());
    if (!constant)
      return;
    op.getFilterMutable().assign(constant);
    op.setWindow(window);
    op.setPackedAttr(form);
  }

  /// Returns the packing of the right-hand side of `op`; null for unsupported
  /// integers.
  PackedAttr formOf(ContractionOpInterface op) {
    Type element = getElementTypeOrSelf(op->getOperand(1).getType());
    if (!isa<FloatType>(element)) {
      Type left = getElementTypeOrSelf(op->getOperand(0).getType());
      if (!getElementTypeOrSelf(op->getResult(0).getType()).isInteger(32) ||
          element.getIntOrFloatBitWidth() != 8)
        return {};
      bool isMixed = left.isUnsignedInteger() && !element.isUnsignedInteger();
      return PackedAttr::get(&getContext(), columns, /*interleave=*/1,
                             isMixed ? int8Depth : otherInt8Depth);
    }
    int64_t depth = element.isBF16()  ? bf16Depth
                    : element.isF16() ? f16Depth
                                      : 1;
    if (depth > 1)
      return PackedAttr::get(&getContext(), columns, /*interleave=*/1, depth);
    return PackedAttr::get(&getContext(), columns,
                           element.getIntOrFloatBitWidth() == 16 ? 2 : 1,
                           /*depth=*/1);
  }

  /// Returns the packed constant of `attr`, cached per access pattern.
  Value pack(Operation *user, Value unpacked, ElementsAttr attr,
             const PackSource &source, PackedAttr form, int64_t variant) {
    Value &known =
        packedConstants[{attr.getAsOpaquePointer(), isa<ConvOp>(user), variant,
                         source.run, form.getDepth()}];
    if (known)
      return known;
    FailureOr<ElementsAttr> packed = packConstant(attr, source, form);
    if (failed(packed))
      return {};
    ++numPacked;
    bytesAdded += byteCount(packed->getType()) - byteCount(attr.getType());
    OpBuilder builder = OpBuilder::atBlockBegin(user->getBlock());
    known = mpc::ConstantOp::create(builder, unpacked.getLoc(), *packed);
    return known;
  }

  std::map<std::tuple<const void *, bool, int64_t, int64_t, int64_t>, Value>
      packedConstants;
};

} // namespace
