//===- EraseArgument.cpp - remove an argument of a step -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EraseArgument.h"

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace mpc;

void mpc::eraseArgument(func::FuncOp function, unsigned number) {
  LogicalResult erased = function.eraseArgument(number);
  assert(succeeded(erased) && "the argument has no uses left");
  (void)erased;
  Builder builder(function.getContext());
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (auto alias = function.getResultAttrOfType<IntegerAttr>(
            i, MpcDialect::kAliasAttr);
        alias && alias.getInt() > int64_t(number))
      function.setResultAttr(i, MpcDialect::kAliasAttr,
                             builder.getI64IntegerAttr(alias.getInt() - 1));
}
