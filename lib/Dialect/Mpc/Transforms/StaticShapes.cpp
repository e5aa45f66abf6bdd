//===- StaticShapes.cpp - check for static shapes -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes rely on static shapes; the first one reports dynamic extents.
//
//===----------------------------------------------------------------------===//

#include "StaticShapes.h"

using namespace mlir;

static bool isStatic(Value value) {
  auto shaped = dyn_cast<ShapedType>(value.getType());
  return !shaped || shaped.hasStaticShape();
}

LogicalResult mpc::checkStaticShapes(func::FuncOp func) {
  for (BlockArgument argument : func.getArguments())
    if (!isStatic(argument))
      return emitError(argument.getLoc())
             << "argument " << argument.getArgNumber() << " of '"
             << func.getName() << "' has the type " << argument.getType()
             << "; bind its dimensions first";
  for (Operation &op : func.getBody().getOps())
    for (Value result : op.getResults())
      if (!isStatic(result))
        return op.emitOpError() << "has the result type " << result.getType()
                                << "; bind its dimensions first";
  return success();
}
