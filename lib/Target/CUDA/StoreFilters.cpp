//===- StoreFilters.cpp - filters as GPU kernels read them ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A product of matrices reads runs of channels, so constant filters are stored
// with channels last, filters of one channel with outputs last. The kernel sees
// the old shape through a transpose, which its addresses take in. After
// mpc-fuse, so that no decision of the fuser depends on it.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcOps.h"
#include "mpc/Dialect/Mpc/Transforms/ConstantTransforms.h"
#include "mpc/Target/CUDA/Passes.h"

namespace mpc {
#define GEN_PASS_DEF_STOREFILTERSPASS
#include "mpc/Target/CUDA/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

/// The order in which the dimensions of a filter, `[outputs, channels,
/// window...]`, are stored; empty where it stays.
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
struct StoreFiltersPass : mpc::impl::StoreFiltersPassBase<StoreFiltersPass> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<ConvOp> convolutions;
    getOperation().walk([&](ConvOp op) { convolutions.push_back(op); });
    for (ConvOp op : convolutions)
      store(op);
  }

private:
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
