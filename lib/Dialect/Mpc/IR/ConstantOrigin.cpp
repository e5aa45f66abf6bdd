//===- ConstantOrigin.cpp - origin of a model's constants -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/ConstantOrigin.h"

#include "mlir/IR/Builders.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mpc;

static StringRef kindName(ConstantOrigin::Kind kind) {
  switch (kind) {
  case ConstantOrigin::Kind::Node:
    return "node";
  case ConstantOrigin::Kind::Initializer:
    return "initializer";
  case ConstantOrigin::Kind::Parameter:
    return "parameter";
  case ConstantOrigin::Kind::Buffer:
    return "buffer";
  }
  return {};
}

Location ConstantOrigin::mark(Location location) const {
  Builder builder(location.getContext());
  SmallVector<NamedAttribute> fields = {builder.getNamedAttr(
      "mpc.origin", builder.getStringAttr(kindName(kind)))};
  if (!of.empty())
    fields.push_back(builder.getNamedAttr("mpc.of", builder.getStringAttr(of)));
  if (isUnrecorded)
    fields.push_back(
        builder.getNamedAttr("mpc.unrecorded", builder.getUnitAttr()));
  return FusedLoc::get(location.getContext(), {location},
                       builder.getDictionaryAttr(fields));
}

std::optional<ConstantOrigin> ConstantOrigin::get(Operation *op) {
  std::optional<ConstantOrigin> found;
  op->getLoc()->walk([&](Location location) {
    auto fused = dyn_cast<FusedLoc>(location);
    auto fields = fused
                      ? dyn_cast_if_present<DictionaryAttr>(fused.getMetadata())
                      : DictionaryAttr();
    auto kind = fields ? fields.getAs<StringAttr>("mpc.origin") : StringAttr();
    if (!kind)
      return WalkResult::advance();
    auto of = fields.getAs<StringAttr>("mpc.of");
    found = {llvm::StringSwitch<Kind>(kind.getValue())
                 .Case("node", Kind::Node)
                 .Case("parameter", Kind::Parameter)
                 .Case("buffer", Kind::Buffer)
                 .Default(Kind::Initializer),
             of ? of.str() : "", fields.contains("mpc.unrecorded")};
    return WalkResult::interrupt();
  });
  return found;
}
