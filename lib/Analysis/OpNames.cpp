//===- OpNames.cpp - names and layers of ops ------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/OpNames.h"

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mpc;

SmallVector<StringRef> mpc::opNames(Operation *op) {
  llvm::SmallSetVector<StringRef, 4> names;
  // A work list, since locations from text may nest deeply.
  SmallVector<Location> pending = {op->getLoc()};
  while (!pending.empty()) {
    Location loc = pending.pop_back_val();
    if (auto name = dyn_cast<NameLoc>(loc)) {
      names.insert(name.getName().getValue());
    } else if (auto fused = dyn_cast<FusedLoc>(loc)) {
      for (Location part : llvm::reverse(fused.getLocations()))
        pending.push_back(part);
    } else if (auto call = dyn_cast<CallSiteLoc>(loc)) {
      pending.push_back(call.getCallee());
    }
  }
  return names.takeVector();
}

StringRef mpc::opName(Operation *op) {
  SmallVector<StringRef> names = opNames(op);
  return names.empty() ? op->getName().stripDialect() : names.front();
}

StringRef mpc::layerPath(Operation *op) {
  auto layer = op->getAttrOfType<StringAttr>(MpcDialect::kLayerAttr);
  return layer ? layer.getValue() : StringRef();
}

Location mpc::fuseLocations(ArrayRef<Operation *> ops) {
  SmallVector<Location> locations;
  for (Operation *op : ops)
    locations.push_back(op->getLoc());
  return FusedLoc::get(ops.front()->getContext(), locations);
}
