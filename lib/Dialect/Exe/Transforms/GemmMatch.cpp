//===- GemmMatch.cpp - kernels that the library computes ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GemmMatch.h"

using namespace mlir;
using namespace mpc;

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

/// The number of the kernel's argument that `value` is, at most reshaped; -1
/// where it is computed.
static int64_t argumentOf(Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getInput();
  auto argument = dyn_cast<BlockArgument>(value);
  return argument ? static_cast<int64_t>(argument.getArgNumber()) : -1;
}

GemmMatch::GemmMatch(func::FuncOp kernel) {
  MatmulOp product;
  for (auto op : kernel.getOps<MatmulOp>()) {
    if (product) {
      (void)refuse("it holds a second product");
      return;
    }
    product = op;
  }
  if (!product) {
    (void)refuse("it holds no product");
    return;
  }
  if (kernel.getNumResults() != 1) {
    (void)refuse("it has " + std::to_string(kernel.getNumResults()) +
                 " results");
    return;
  }
  resultType = getElementTypeOrSelf(kernel.getResultTypes().front());
  if (failed(matchProduct(product)) ||
      failed(matchEpilogue(product.getResult())))
    return;
  numbers = {a, b};
  if (bias >= 0)
    numbers.push_back(bias);
  if (residual >= 0)
    numbers.push_back(residual);
  found = exe::ProblemAttr::get(
      kernel.getContext(), m, n, k, batch,
      getElementTypeOrSelf(product.getLhs().getType()), resultType,
      product.getTransposeLhs(), product.getTransposeRhs(), sharedA, sharedB,
      epilogue, bias >= 0, residual >= 0,
      product.getCompute() == ComputeMode::tf32);
}

LogicalResult GemmMatch::matchProduct(MatmulOp product) {
  if (product.getPacked())
    return refuse("its constant is packed");
  Type operand = getElementTypeOrSelf(product.getLhs().getType());
  Type sum = getElementTypeOrSelf(product.getResult().getType());
  if (!isa<FloatType>(operand))
    return refuse("it multiplies integers");
  ComputeMode mode = product.getCompute();
  if (mode != ComputeMode::native && mode != ComputeMode::tf32)
    return refuse("it computes in " + stringifyComputeMode(mode).str());
  if (sum != (operand.isF64() ? operand : Float32Type::get(sum.getContext())))
    return refuse("its sums are rounded before the epilogue");
  a = argumentOf(product.getLhs());
  b = argumentOf(product.getRhs());
  if (a < 0 || b < 0)
    return refuse("it computes an operand");

  ArrayRef<int64_t> lhs = shapeOf(product.getLhs()),
                    rhs = shapeOf(product.getRhs());
  bool transposeA = product.getTransposeLhs(),
       transposeB = product.getTransposeRhs();
  m = lhs[lhs.size() - (transposeA ? 1 : 2)];
  k = lhs[lhs.size() - (transposeA ? 2 : 1)];
  n = rhs[rhs.size() - (transposeB ? 2 : 1)];
  int64_t batchA = productOf(lhs.drop_back(2)),
          batchB = productOf(rhs.drop_back(2));
  if (batchB == 1 && !transposeA) {
    // One matrix of all rows.
    m *= batchA;
  } else if (batchA == batchB || batchA == 1 || batchB == 1) {
    batch = std::max(batchA, batchB);
    sharedA = batchA == 1 && batch > 1;
    sharedB = batchB == 1 && batch > 1;
    // Equal numbers of matrices may still broadcast against each other.
    if (!sharedA && !sharedB && lhs.drop_back(2) != rhs.drop_back(2) &&
        batch > 1)
      return refuse("its batches broadcast in both directions");
  } else {
    return refuse("its batches broadcast in both directions");
  }
  if (m * n * k * batch == 0)
    return refuse("it has an extent of 0");
  return success();
}

LogicalResult GemmMatch::matchAdd(AddOp add, Value sums) {
  Value other = add.getLhs() == sums ? add.getRhs() : add.getLhs();
  if (other == sums)
    return refuse("it doubles its sums");
  // The library widens what it adds.
  Value stored = other;
  if (auto cast = stored.getDefiningOp<CastOp>())
    stored = cast.getInput();
  int64_t argument = argumentOf(stored);
  if (argument < 0)
    return refuse("it computes what it adds");
  ArrayRef<int64_t> shape = shapeOf(other);
  int64_t count = elementCount(other);
  bool isRow = !shape.empty() && shape.back() == n && count == n;
  bool isWhole = shape == shapeOf(sums);
  // One row of sums: a vector either way, and adding it as a bias is free.
  if (isRow && bias < 0 && epilogue == exe::Epilogue::none && residual < 0) {
    if (getElementTypeOrSelf(stored.getType()) != resultType)
      return refuse("its bias is not of the result's type");
    bias = argument;
    return success();
  }
  if (isWhole && residual < 0 && epilogue == exe::Epilogue::none) {
    if (getElementTypeOrSelf(stored.getType()) != resultType)
      return refuse("its residual is not of the result's type");
    residual = argument;
    return success();
  }
  return refuse("it adds a tensor that is neither a bias nor a residual");
}

LogicalResult GemmMatch::matchEpilogue(Value sums) {
  while (true) {
    if (!sums.hasOneUse())
      return refuse("its sums are read twice");
    Operation *user = *sums.user_begin();
    if (isa<func::ReturnOp>(user))
      return success();
    if (!shapeOf(sums).empty() && shapeOf(sums).back() != n)
      return refuse("its epilogue computes in another shape");
    if (user->getNumResults() != 1)
      return refuse("its epilogue holds " +
                    user->getName().getStringRef().str());
    Value result = user->getResult(0);
    bool isActivation = isa<ReluOp>(user);
    if (auto gelu = dyn_cast<GeluOp>(user))
      isActivation = gelu.getForm() == GeluForm::tanh;
    if (auto add = dyn_cast<AddOp>(user)) {
      if (failed(matchAdd(add, sums)))
        return failure();
      if (shapeOf(result) != shapeOf(sums))
        return refuse("its epilogue broadcasts its sums");
    } else if (isActivation) {
      if (epilogue != exe::Epilogue::none || residual >= 0)
        return refuse("its activation follows a residual or an activation");
      epilogue =
          isa<ReluOp>(user) ? exe::Epilogue::relu : exe::Epilogue::gelu_tanh;
    } else if (auto cast = dyn_cast<CastOp>(user)) {
      Operation *next =
          cast.getResult().hasOneUse() ? *cast->user_begin() : nullptr;
      while (isa_and_present<ReshapeOp>(next))
        next = next->getResult(0).hasOneUse() ? *next->user_begin() : nullptr;
      if (!isa_and_present<func::ReturnOp>(next) ||
          getElementTypeOrSelf(result.getType()) != resultType)
        return refuse("it rounds inside its epilogue");
    } else if (!isa<ReshapeOp>(user)) {
      return refuse("its epilogue holds " +
                    user->getName().getStringRef().str());
    }
    sums = result;
  }
}
