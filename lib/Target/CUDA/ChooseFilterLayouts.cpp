//===- ChooseFilterLayouts.cpp - filter layouts of GPU kernels ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implicit-GEMM kernels load runs of channels, so constant filters are stored
// channels-last, and depthwise filters outputs-last. The kernel sees the old
// shape through a transpose, which is folded into its addresses.
//
// A training step transforms a filter for the gradient of the image by a
// separate data movement kernel. That kernel instead stores `[window...,
// channels, outputs]`: contiguous outputs for the convolution, which are the
// channels of its gradient. Both read this copy, the gradient with the window
// reversed.
//
// Runs after mpc-fuse, so that fusion decisions do not depend on it.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcFusionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"
#include "mpc/Dialect/Mpc/Transforms/ConstantTransforms.h"
#include "mpc/Target/CUDA/Passes.h"

namespace mpc {
#define GEN_PASS_DEF_CHOOSEFILTERLAYOUTSPASS
#include "mpc/Target/CUDA/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

/// Returns the storage order of a filter's dimensions, `[outputs, channels,
/// window...]`; empty: unchanged.
static SmallVector<int64_t> storedOrder(ArrayRef<int64_t> shape) {
  int64_t rank = shape.size(), window = 1;
  SmallVector<int64_t> order;
  for (int64_t dim = 2; dim < rank; ++dim) {
    order.push_back(dim);
    window *= shape[dim];
  }
  if (window == 1)
    return {};
  if (shape[1] == 1) {
    order.append({1, 0});
    return order;
  }
  order.insert(order.begin(), 0);
  order.push_back(1);
  return order;
}

namespace {
struct ChooseFilterLayoutsPass
    : mpc::impl::ChooseFilterLayoutsPassBase<ChooseFilterLayoutsPass> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<ConvOp> convolutions;
    getOperation().walk([&](ConvOp op) { convolutions.push_back(op); });
    for (ConvOp op : convolutions)
      store(op);
    SmallVector<FusionOp> movers(getOperation().getOps<FusionOp>());
    for (FusionOp mover : movers)
      storeTurned(withWindow(mover));
  }

private:
  /// Returns the block argument of the fusion for `use`.
  static BlockArgument insideOf(OpOperand &use) {
    auto fusion = cast<FusionOp>(use.getOwner());
    return fusion.getBody().front().getArgument(use.getOperandNumber());
  }

  /// Returns the convolution whose filter is the only use of the fusion's (or
  /// nested fusion's) input `use`; else null.
  static ConvOp convolutionOf(OpOperand &use) {
    if (!isa<FusionOp>(use.getOwner()))
      return {};
    BlockArgument inside = insideOf(use);
    if (!inside.hasOneUse())
      return {};
    OpOperand &next = *inside.use_begin();
    if (isa<FusionOp>(next.getOwner()))
      return convolutionOf(next);
    auto op = dyn_cast<ConvOp>(next.getOwner());
    bool fits = op && op.getFilter() == inside && !op.getPacked() &&
                op.getLayout() == ImageLayout::channels_last;
    return fits ? op : ConvOp();
  }

  /// Makes the convolution at `use` read `stored`, which holds the filter in
  /// dimension order `order`, reversed along `reversed`.
  static void readStored(OpOperand &use, Value stored, ArrayRef<int64_t> order,
                         ArrayRef<int64_t> reversed) {
    ConvOp op = convolutionOf(use);
    auto argument = cast<BlockArgument>(op.getFilter());
    Type type = argument.getType();
    use.set(stored);
    for (OpOperand *at = &use; at->getOwner() != op;
         at = &*insideOf(*at).use_begin())
      insideOf(*at).setType(stored.getType());
    OpBuilder builder(op);
    Value filter = TransposeOp::create(builder, op.getLoc(), type, argument,
                                       builder.getDenseI64ArrayAttr(order));
    if (!reversed.empty())
      filter = ReverseOp::create(builder, op.getLoc(), type, filter,
                                 builder.getDenseI64ArrayAttr(reversed));
    op.getFilterMutable().assign(filter);
  }

  /// Gradients use a grouped filter with a flattened window. If `mover`
  /// transforms `[1, outputs, channels, window]` between two reshapes, returns
  /// an equivalent fusion on the unflattened filter.
  static FusionOp withWindow(FusionOp mover) {
    if (mover.getInputs().size() != 1 || mover.getNumResults() != 1)
      return mover;
    Block &body = mover.getBody().front();
    auto reverse =
        body.getTerminator()->getOperand(0).getDefiningOp<ReverseOp>();
    auto swap = reverse ? reverse.getInput().getDefiningOp<TransposeOp>()
                        : TransposeOp();
    auto grouped = mover.getInputs().front().getDefiningOp<ReshapeOp>();
    if (!swap || !grouped || swap.getInput() != body.getArgument(0) ||
        body.getOperations().size() != 3 ||
        swap.getPermutation() != ArrayRef<int64_t>({0, 2, 1, 3}) ||
        reverse.getAxes() != ArrayRef<int64_t>({3}))
      return mover;
    auto type = cast<RankedTensorType>(grouped.getInput().getType());
    auto groupedType = cast<RankedTensorType>(grouped.getType());
    int64_t rank = type.getRank();
    if (rank < 3 || groupedType.getDimSize(0) != 1 ||
        groupedType.getDimSize(1) != type.getDimSize(0) ||
        groupedType.getDimSize(2) != type.getDimSize(1))
      return mover;
    SmallVector<int64_t> extents(type.getShape()), order = {1, 0}, window;
    std::swap(extents[0], extents[1]);
    for (int64_t dim = 2; dim < rank; ++dim) {
      order.push_back(dim);
      window.push_back(dim);
    }
    auto turnedType = RankedTensorType::get(extents, type.getElementType());
    Value turned = mover.getResult(0);
    for (Operation *user : turned.getUsers())
      if (!isa<ReshapeOp>(user) || user->getResult(0).getType() != turnedType)
        return mover;

    OpBuilder builder(swap);
    BlockArgument filter = body.getArgument(0);
    filter.setType(type);
    Value swapped =
        TransposeOp::create(builder, swap.getLoc(), turnedType, filter,
                            builder.getDenseI64ArrayAttr(order));
    Value reversed =
        ReverseOp::create(builder, reverse.getLoc(), turnedType, swapped,
                          builder.getDenseI64ArrayAttr(window));
    body.getTerminator()->setOperand(0, reversed);
    reverse.erase();
    swap.erase();
    mover->setOperand(0, grouped.getInput());
    turned.setType(turnedType);
    for (Operation *user : llvm::make_early_inc_range(turned.getUsers())) {
      user->getResult(0).replaceAllUsesWith(turned);
      user->erase();
    }
    if (grouped->use_empty())
      grouped.erase();
    return mover;
  }

  /// Changes the storage order of the result of `mover` if it swaps the
  /// channels of a filter and reverses its window.
  void storeTurned(FusionOp mover) {
    if (mover.getInputs().size() != 1 || mover.getNumResults() != 1)
      return;
    Block &body = mover.getBody().front();
    auto reverse =
        body.getTerminator()->getOperand(0).getDefiningOp<ReverseOp>();
    auto swap = reverse ? reverse.getInput().getDefiningOp<TransposeOp>()
                        : TransposeOp();
    Value filter = mover.getInputs().front(), turned = mover.getResult(0);
    auto type = cast<RankedTensorType>(filter.getType());
    int64_t rank = type.getRank();
    if (!swap || swap.getInput() != body.getArgument(0) || rank < 3 ||
        body.getOperations().size() != 3)
      return;
    SmallVector<int64_t> swapped = {1, 0}, order;
    for (int64_t dim = 2; dim < rank; ++dim) {
      swapped.push_back(dim);
      order.push_back(dim);
    }
    SmallVector<int64_t> reversed(reverse.getAxes());
    llvm::sort(reversed);
    SmallVector<int64_t> window(order);
    if (swap.getPermutation() != ArrayRef<int64_t>(swapped) ||
        reversed != window || turned.use_empty() ||
        !llvm::all_of(turned.getUses(),
                      [](OpOperand &use) { return bool(convolutionOf(use)); }))
      return;
    // [window..., channels, outputs].
    order.append({1, 0});
    SmallVector<int64_t> extents;
    for (int64_t dim : order)
      extents.push_back(type.getDimSize(dim));
    auto storedType = RankedTensorType::get(extents, type.getElementType());
    SmallVector<int64_t> plain = {rank - 1, rank - 2},
                         turnedOrder = {rank - 2, rank - 1};
    for (int64_t dim = 0; dim + 2 < rank; ++dim) {
      plain.push_back(dim);
      turnedOrder.push_back(dim);
    }

    OpBuilder builder(swap);
    Value stored = TransposeOp::create(builder, swap.getLoc(), storedType,
                                       body.getArgument(0),
                                       builder.getDenseI64ArrayAttr(order));
    body.getTerminator()->setOperand(0, stored);
    reverse.erase();
    swap.erase();
    turned.setType(storedType);
    for (OpOperand &use : llvm::make_early_inc_range(turned.getUses()))
      readStored(use, turned, turnedOrder, window);
    for (OpOperand &use : llvm::make_early_inc_range(filter.getUses())) {
      Operation *user = use.getOwner();
      if (user != mover && user->getBlock() == mover->getBlock() &&
          mover->isBeforeInBlock(user) && convolutionOf(use))
        readStored(use, turned, plain, {});
    }
    ++numStored;
  }

  void store(ConvOp op) {
    auto fusion = op->getParentOfType<FusionOp>();
    auto argument = dyn_cast<BlockArgument>(op.getFilter());
    if (!fusion || !argument || !argument.hasOneUse() || op.getPacked() ||
        op.getLayout() != ImageLayout::channels_last)
      return;
    Value outside = fusion.getInputs()[argument.getArgNumber()];
    auto constant = outside.getDefiningOp<ConstantOp>();
    if (!constant)
      return;
    auto type = cast<RankedTensorType>(outside.getType());
    SmallVector<int64_t> order = storedOrder(type.getShape());
    if (order.empty())
      return;
    FailureOr<ElementsAttr> stored =
        transposeConstant(constant.getValue(), order);
    if (failed(stored))
      return;
    OpBuilder builder(constant);
    auto copy = mpc::ConstantOp::create(builder, constant.getLoc(), *stored);
    copy->setDiscardableAttrs(constant->getDiscardableAttrDictionary());
    fusion->setOperand(argument.getArgNumber(), copy);
    if (constant->use_empty())
      constant.erase();
    argument.setType(copy.getType());
    SmallVector<int64_t> back(order.size());
    for (auto [to, from] : llvm::enumerate(order))
      back[from] = to;
    builder.setInsertionPoint(op);
    Value filter = TransposeOp::create(builder, op.getLoc(), type, argument,
                                       builder.getDenseI64ArrayAttr(back));
    op.getFilterMutable().assign(filter);
    ++numStored;
  }
};
} // namespace
