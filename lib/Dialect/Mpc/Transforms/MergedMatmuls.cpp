//===- MergedMatmuls.cpp - attributes of merged matmuls ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MergedMatmuls.h"

#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"

using namespace mlir;
using namespace mpc;

/// Index of N in the extents of `#mpc.padding`.
static constexpr size_t kColumns = 2;

StringAttr mpc::commonLayer(ArrayRef<MatmulOp> products) {
  StringRef common;
  for (auto [index, product] : llvm::enumerate(products)) {
    auto layer = dyn_cast_if_present<StringAttr>(
        product->getDiscardableAttr(MpcDialect::kLayerAttr));
    if (!layer)
      return {};
    StringRef path = layer.getValue();
    if (index == 0)
      common = path;
    // A path without a slash has no shorter prefix.
    while (!common.empty() && common != path &&
           !path.starts_with((common + "/").str()))
      common = common.contains('/') ? common.rsplit('/').first : StringRef();
    if (common.empty())
      return {};
  }
  return StringAttr::get(MatmulOp(products.front()).getContext(), common);
}

/// Combined padding of the matmuls; null if one of them is not padded.
static PaddingAttr joinPadding(ArrayRef<MatmulOp> products) {
  SmallVector<int64_t> from, to;
  int64_t extra = 0;
  for (MatmulOp product : products) {
    auto padding = dyn_cast_if_present<PaddingAttr>(
        product->getDiscardableAttr(MpcDialect::kPaddingAttr));
    if (!padding)
      return {};
    if (from.empty()) {
      from.assign(padding.getFrom().begin(), padding.getFrom().end());
      to.assign(padding.getTo().begin(), padding.getTo().end());
    } else {
      from[kColumns] += padding.getFrom()[kColumns];
      to[kColumns] += padding.getTo()[kColumns];
    }
    extra += padding.getExtraFlops();
  }
  return PaddingAttr::get(MatmulOp(products.front()).getContext(), from, to,
                          extra);
}

void mpc::setMergedAttributes(MatmulOp joint, ArrayRef<MatmulOp> products) {
  auto set = [&](StringRef name, Attribute attr) {
    joint->removeDiscardableAttr(name);
    if (attr)
      joint->setDiscardableAttr(name, attr);
  };
  set(MpcDialect::kPaddingAttr, joinPadding(products));
  set(MpcDialect::kLayerAttr, commonLayer(products));
}
