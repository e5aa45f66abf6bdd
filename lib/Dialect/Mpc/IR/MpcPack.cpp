//===- MpcPack.cpp - ops that targets put in ------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MpcShapes.h"

#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::shapes;

#define GET_OP_CLASSES
#include "mpc/Dialect/Mpc/IR/MpcPackOps.cpp.inc"

namespace mpc {
void registerPackOps(MpcDialect *dialect) {
  RegisteredOperationName::insert<PackOp>(*dialect);
}
} // namespace mpc

LogicalResult PackOp::inferReturnTypes(MLIRContext *,
                                       std::optional<Location> loc,
                                       Adaptor adaptor,
                                       SmallVectorImpl<Type> &types) {
  StringRef name = getOperationName();
  if (failed(requireStatic(loc, name, adaptor.getOperands())))
    return failure();
  RankedTensorType input = tensor(adaptor.getInput());
  if (input.getRank() != 2) // C1
    return fail(loc, name, "needs a matrix, found ", input);
  PackedAttr packed = adaptor.getPacked();
  int64_t depth = input.getDimSize(adaptor.getTranspose()),
          width = input.getDimSize(!adaptor.getTranspose());
  types.push_back(RankedTensorType::get(
      {int64_t(llvm::divideCeil(width, packed.getColumns())),
       packed.getSteps(depth, depth), packed.getStepElements()},
      input.getElementType()));
  return success();
}
