//===- MpcIndexChecks.cpp - checks at run time ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/IndexChecks.h"

#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mpc;

static constexpr llvm::StringLiteral kOp = "op", kExtent = "extent",
                                     kArgument = "argument", kLength = "length";

RankedTensorType mpc::indexChecksType(MLIRContext *context,
                                      ArrayRef<IndexCheck> checks) {
  Builder b(context);
  SmallVector<Attribute> entries;
  for (const IndexCheck &check : checks) {
    SmallVector<NamedAttribute> fields = {
        b.getNamedAttr(kOp, b.getStringAttr(check.op)),
        b.getNamedAttr(kExtent, b.getI64IntegerAttr(check.extent)),
        b.getNamedAttr(kArgument, b.getI64IntegerAttr(check.argument))};
    if (check.isLength)
      fields.push_back(b.getNamedAttr(kLength, b.getUnitAttr()));
    entries.push_back(b.getDictionaryAttr(fields));
  }
  return RankedTensorType::get({int64_t(checks.size())}, b.getI64Type(),
                               b.getArrayAttr(entries));
}

std::optional<SmallVector<IndexCheck>> mpc::indexChecksOf(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  auto entries =
      tensor ? dyn_cast_or_null<ArrayAttr>(tensor.getEncoding()) : ArrayAttr();
  if (!entries || tensor.getNumElements() != int64_t(entries.size()))
    return std::nullopt;
  SmallVector<IndexCheck> checks;
  for (Attribute entry : entries) {
    auto fields = dyn_cast<DictionaryAttr>(entry);
    auto op = fields ? fields.getAs<StringAttr>(kOp) : StringAttr();
    auto extent = op ? fields.getAs<IntegerAttr>(kExtent) : IntegerAttr();
    auto argument =
        extent ? fields.getAs<IntegerAttr>(kArgument) : IntegerAttr();
    if (!argument)
      return std::nullopt;
    checks.push_back({op.getValue(), extent.getInt(), argument.getInt(),
                      fields.contains(kLength)});
  }
  return checks;
}

BlockArgument mpc::indexChecksArgument(Block &block) {
  for (BlockArgument argument : llvm::reverse(block.getArguments()))
    if (indexChecksOf(argument.getType()))
      return argument;
  return {};
}

bool mpc::checksLengths(Operation *op) {
  auto kind = op->getAttrOfType<StringAttr>(kCheckedIndicesAttr);
  return kind && kind.getValue() == kLengths;
}

SmallVector<int64_t> mpc::indexedExtents(Operation *op) {
  auto shape = [&] {
    return cast<RankedTensorType>(op->getOperand(0).getType()).getShape();
  };
  /// Dimensions that an index tuple addresses, from `first` on.
  auto tuple = [&](int64_t first) {
    auto indices = cast<RankedTensorType>(op->getOperand(1).getType());
    return SmallVector<int64_t>(
        shape().slice(first, indices.getShape().back()));
  };
  return llvm::TypeSwitch<Operation *, SmallVector<int64_t>>(op)
      .Case<GatherOp, GatherElementsOp, ScatterElementsOp>([&](auto indexing) {
        return SmallVector<int64_t>{shape()[indexing.getAxis()]};
      })
      .Case([&](GatherNdOp gather) { return tuple(gather.getBatchDims()); })
      .Case([&](ScatterNdOp) { return tuple(0); })
      .Default(SmallVector<int64_t>());
}
