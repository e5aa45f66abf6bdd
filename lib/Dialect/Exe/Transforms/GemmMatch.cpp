//===- GemmMatch.cpp - match kernels to cuBLASLt GEMMs --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GemmMatch.h"

#include "mpc/Analysis/Fusion/FusionPredicates.h"
#include "mpc/Analysis/OperandSums.h"
#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"

#include <cmath>

using namespace mlir;
using namespace mpc;

int64_t mpc::argumentOf(Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getInput();
  auto argument = dyn_cast<BlockArgument>(value);
  return argument ? static_cast<int64_t>(argument.getArgNumber()) : -1;
}

/// Returns the only matmul of a kernel; null if there are none or several.
static MatmulOp soleProduct(Block &kernel, bool &hasSecond) {
  MatmulOp product;
  for (auto op : kernel.getOps<MatmulOp>()) {
    hasSecond |= static_cast<bool>(product);
    product = op;
  }
  return hasSecond ? MatmulOp() : product;
}

/// Compute capability on which the library was measured to be slower
/// (docs/Reference/GpuPerformance.md, "Library or own").
static constexpr int kMeasuredCapability = 90;

LogicalResult GemmMatch::rejectIfSlower(const TargetInfo &target) {
  Type operand = getElementTypeOrSelf(kernel.getArgument(a).getType());
  if (target.facts().computeCapability == kMeasuredCapability &&
      operand.getIntOrFloatBitWidth() == 16 &&
      epilogue == exe::Epilogue::relu_gradient)
    return refuse("the generated kernel is faster with a mask select");
  return success();
}

GemmMatch::GemmMatch(Block &kernel, const TargetInfo &target)
    : kernel(kernel), resultTypes(kernel.getTerminator()->getOperandTypes()) {
  bool hasSecond = false;
  MatmulOp contraction = soleProduct(kernel, hasSecond);
  if (!contraction) {
    (void)refuse(hasSecond ? "it contains a second contraction"
                           : "it contains no contraction");
    return;
  }
  if (failed(matchProduct(contraction)) ||
      failed(matchOperandSum(contraction)) ||
      failed(matchResults(contraction)) || failed(rejectIfSlower(target)))
    return;
  numbers = {a, b};
  for (int64_t number : {bias, residual, auxiliary})
    if (number >= 0)
      numbers.push_back(number);
  exe::Compute compute = exe::Compute::native;
  if (contraction.getCompute() == ComputeMode::tf32)
    compute = exe::Compute::tf32;
  else if (contraction.getCompute() == ComputeMode::bf16x3 &&
           target.kernels().libraryEmulatesFloat32)
    compute = exe::Compute::bf16x9;
  found = exe::ProblemAttr::get(
      contraction.getContext(), m, n, k, batch,
      getElementTypeOrSelf(contraction.getLhs().getType()),
      /*operandBType=*/Type(), resultType, contraction.getTransposeLhs(),
      contraction.getTransposeRhs(), sharedA, sharedB, epilogue, bias >= 0,
      residual >= 0, keptResult >= 0, biasGradient, compute,
      /*scales=*/false, /*resultScale=*/false, /*amax=*/false);
}

/// Matches the epilogue of the accumulators, and that all results are covered.
LogicalResult GemmMatch::matchResults(MatmulOp contraction) {
  // Of two results, ignoring operand sums, the one that is not a mask.
  for (auto [number, type] : llvm::enumerate(resultTypes))
    if (static_cast<int64_t>(number) != sumResult &&
        isa<FloatType>(getElementTypeOrSelf(type)))
      resultType = getElementTypeOrSelf(type);
  if (!resultType)
    return refuse("it has no float result");
  if (failed(matchEpilogue(contraction.getResult())))
    return failure();
  for (int64_t number : {product, keptResult, sumResult})
    if (number >= 0)
      outputs.push_back(number);
  if (outputs.size() != resultTypes.size())
    return refuse("it has " + std::to_string(resultTypes.size()) + " results");
  if (sumResult >= 0 && hasEpilogue())
    return refuse("it sums an operand in addition to an epilogue");
  bool isGelu = (epilogue == exe::Epilogue::gelu_tanh && keptResult >= 0) ||
                epilogue == exe::Epilogue::gelu_tanh_gradient;
  if (isGelu && n % 8 != 0)
    return refuse("rows of " + std::to_string(n) +
                  " elements of its auxiliary output are not multiples of 8");
  return success();
}

/// Matches sums of an operand next to the GEMM: results of the same type.
LogicalResult GemmMatch::matchOperandSum(MatmulOp contraction) {
  for (auto sum : kernel.getOps<ReduceSumOp>()) {
    std::optional<OperandSum> of = operandSumOf(sum, contraction);
    int64_t number = resultOf(sum.getResult());
    if (!of || number < 0)
      return refuse("its epilogue contains mpc.reduce_sum");
    if (sumResult >= 0)
      return refuse("it has two reductions");
    if (of->begin != 0 || of->extent != (of->isLeft ? m : n))
      return refuse("it sums a part of an operand");
    sumResult = number;
    biasGradient = of->isLeft ? exe::BiasGradient::a : exe::BiasGradient::b;
    // The library accumulates in f32 and rounds to the GEMM's type.
    Value product = contraction.getResult();
    int64_t whole = resultOf(product);
    if (batch != 1 || whole < 0 ||
        resultTypes.size() <= static_cast<size_t>(whole) ||
        getElementTypeOrSelf(resultTypes[whole]) !=
            getElementTypeOrSelf(resultTypes[number]))
      return refuse("its operand sums do not have the result's type");
  }
  return success();
}

LogicalResult GemmMatch::matchProduct(MatmulOp product) {
  if (product.getPacked())
    return refuse("its constant is packed");
  Type operand = getElementTypeOrSelf(product.getLhs().getType());
  Type sum = getElementTypeOrSelf(product.getResult().getType());
  if (!isa<FloatType>(operand))
    return refuse("it multiplies integers");
  ComputeMode mode = product.getCompute();
  if (mode == ComputeMode::bf16x2)
    return refuse("it computes in " + stringifyComputeMode(mode).str());
  if (sum != (operand.isF64() ? operand : Float32Type::get(sum.getContext())))
    return refuse("its accumulators are rounded before the epilogue");
  a = argumentOf(product.getLhs());
  b = argumentOf(product.getRhs());
  if (a < 0 || b < 0)
    return refuse("it computes an operand in its prologue");

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
    // Equal batch counts may still broadcast against each other.
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
    return refuse("it reads its accumulators twice");
  // The library upcasts its addends.
  Value stored = other;
  if (auto cast = stored.getDefiningOp<CastOp>())
    stored = cast.getInput();
  int64_t argument = argumentOf(stored);
  if (argument < 0)
    return refuse("it computes an addend in its prologue");
  ArrayRef<int64_t> shape = shapeOf(other);
  int64_t count = elementCount(other);
  bool isRow = !shape.empty() && shape.back() == n && count == n;
  bool isWhole = shape == shapeOf(sums);
  // One row of accumulators: a vector either way, and a bias add is free.
  if (isRow && bias < 0 && epilogue == exe::Epilogue::none && residual < 0) {
    if (getElementTypeOrSelf(stored.getType()) != resultType)
      return refuse("its bias does not have the result's type");
    bias = argument;
    return success();
  }
  if (isWhole && residual < 0 && epilogue == exe::Epilogue::none) {
    if (getElementTypeOrSelf(stored.getType()) != resultType)
      return refuse("its residual does not have the result's type");
    residual = argument;
    return success();
  }
  return refuse("it adds a tensor that is neither a bias nor a residual");
}

LogicalResult GemmMatch::matchActivation(Operation *op) {
  if (epilogue != exe::Epilogue::none || residual >= 0)
    return refuse("its activation follows a residual or an activation");
  epilogue = isa<ReluOp>(op) ? exe::Epilogue::relu : exe::Epilogue::gelu_tanh;
  return success();
}

/// Returns true for ReLU and tanh GELU.
static bool isActivation(Operation *op) {
  auto gelu = dyn_cast<GeluOp>(op);
  return isa<ReluOp>(op) || (gelu && gelu.getForm() == GeluForm::tanh);
}

LogicalResult GemmMatch::matchEpilogue(Value sums) {
  while (true) {
    if (!sums.hasOneUse())
      return matchSavedActivation(sums);
    Operation *user = *sums.user_begin();
    if (isReturn(user)) {
      product = sums.use_begin()->getOperandNumber();
      return success();
    }
    if (!shapeOf(sums).empty() && shapeOf(sums).back() != n)
      return refuse("its epilogue computes in another shape");
    if (user->getNumResults() != 1)
      return refuse("its epilogue contains " +
                    user->getName().getStringRef().str());
    Value result = user->getResult(0);
    if (auto add = dyn_cast<AddOp>(user)) {
      if (failed(matchAdd(add, sums)))
        return failure();
      if (shapeOf(result) != shapeOf(sums))
        return refuse("its epilogue broadcasts its accumulators");
    } else if (isActivation(user)) {
      if (failed(matchActivation(user)))
        return failure();
    } else if (isa<SelectOp, MulOp>(user)) {
      if (failed(matchGradient(user, sums)))
        return failure();
    } else if (auto cast = dyn_cast<CastOp>(user)) {
      if (getElementTypeOrSelf(result.getType()) != resultType)
        return refuse("it rounds inside its epilogue");
      if (epilogue == exe::Epilogue::relu && !result.hasOneUse())
        return matchSavedMask(result);
      if (resultOf(result) < 0)
        return refuse("it rounds inside its epilogue");
    } else if (!isa<ReshapeOp>(user)) {
      return refuse("its epilogue contains " +
                    user->getName().getStringRef().str());
    }
    sums = result;
  }
}

//===----------------------------------------------------------------------===//
// Activations and their gradients
//
// Matches forward GEMMs that save values for the gradient of their activation
// (ReLU's mask; GELU's input or slope), and the GEMMs of those gradients.
//===----------------------------------------------------------------------===//

int64_t mpc::resultOf(Value value) {
  bool isRounded = false;
  while (value.hasOneUse()) {
    OpOperand &use = *value.use_begin();
    if (isReturn(use.getOwner()))
      return use.getOperandNumber();
    if (isa<CastOp>(use.getOwner())) {
      if (isRounded)
        return -1;
      isRounded = true;
    } else if (!isa<ReshapeOp>(use.getOwner())) {
      return -1;
    }
    value = use.getOwner()->getResult(0);
  }
  return -1;
}

static bool isF32(Value value) {
  return getElementTypeOrSelf(value.getType()).isF32();
}

//===----------------------------------------------------------------------===//
// GELU's slope
//===----------------------------------------------------------------------===//

namespace {
/// Evaluates a kernel's scalar expression at one input value.
class Evaluation {
public:
  Evaluation(Value input, double number) { known[input] = number; }

  /// Returns nullopt if `value` is not made of sums, differences, products and
  /// tanh of the input and constants in f32.
  std::optional<double> at(Value value) {
    if (auto found = known.find(value); found != known.end())
      return found->second;
    if (!isF32(value))
      return std::nullopt;
    std::optional<double> result = splatValue(value);
    if (!result)
      result = compute(value.getDefiningOp());
    known[value] = result;
    return result;
  }

private:
  std::optional<double> compute(Operation *op) {
    if (!isa_and_present<AddOp, SubOp, MulOp, TanhOp>(op))
      return std::nullopt;
    std::optional<double> left = at(op->getOperand(0));
    if (!left || isa<TanhOp>(op))
      return left ? std::optional(std::tanh(*left)) : std::nullopt;
    std::optional<double> right = at(op->getOperand(1));
    if (!right)
      return std::nullopt;
    if (isa<AddOp>(op))
      return *left + *right;
    return isa<SubOp>(op) ? *left - *right : *left * *right;
  }

  llvm::DenseMap<Value, std::optional<double>> known;
};
} // namespace

/// Compares at sample points instead of matching ops: the ops of a derivative
/// may be in any order, and no other function of so few ops agrees at so many
/// points. Constants are f32, so agreement is to f32 precision.
bool mpc::isGeluTanhSlope(Value slope, Value input) {
  constexpr double kScale = 0.79788456080286535588, kCubic = 0.044715;
  for (int i = -32; i <= 32; ++i) {
    double x = i / 8.0;
    double tanh = std::tanh(kScale * x * (1 + kCubic * x * x));
    double expected = (1 + tanh) / 2 + x / 2 * (1 - tanh * tanh) * kScale *
                                           (1 + 3 * kCubic * x * x);
    std::optional<double> found = Evaluation(input, x).at(slope);
    if (!found || !(std::abs(*found - expected) <= 0x1p-20))
      return false;
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Forward
//===----------------------------------------------------------------------===//

LogicalResult GemmMatch::matchSavedActivation(Value sums) {
  if (epilogue == exe::Epilogue::relu)
    return matchSavedMask(sums);
  GeluOp gelu;
  for (Operation *user : sums.getUsers())
    if (auto found = dyn_cast<GeluOp>(user); found && !gelu)
      gelu = found;
  if (gelu && gelu.getForm() == GeluForm::tanh)
    return matchSavedInput(sums, gelu);
  return refuse("its accumulators have two uses");
}

/// Matches a result and its not-positive mask. If the result is rounded, the
/// mask may use values before or after rounding: to the library a positive
/// value that rounds to 0 is positive.
LogicalResult GemmMatch::matchSavedMask(Value activated) {
  for (OpOperand &use : activated.getUses()) {
    Operation *user = use.getOwner();
    Value compared = activated;
    if (auto cast = dyn_cast<CastOp>(user);
        cast && isWidening(cast) && cast.getResult().hasOneUse()) {
      compared = cast.getResult();
      user = *compared.user_begin();
    }
    auto compare = dyn_cast<CompareOp>(user);
    if (isReturn(user) && compared == activated && product < 0) {
      product = use.getOperandNumber();
    } else if (compare && keptResult < 0 &&
               compare.getPredicate() == ComparePredicate::le &&
               compare.getLhs() == compared &&
               splatValue(compare.getRhs()) == 0.0) {
      keptResult = resultOf(compare.getResult());
    } else {
      return refuse("its accumulators have two uses");
    }
  }
  if (product < 0 || keptResult < 0)
    return refuse("its accumulators have two uses");
  // At least sixteen bytes per 128 bits.
  if (n < 16)
    return refuse("its mask of " + std::to_string(n) +
                  " columns is narrower than the library's");
  between = SavedForGradient::OtherThanLibrary;
  return success();
}

/// Matches GELU of `input`, and `input` or GELU's slope as second result.
LogicalResult GemmMatch::matchSavedInput(Value input, GeluOp gelu) {
  if (failed(matchActivation(gelu)))
    return failure();
  product = resultOf(gelu.getResult());
  if (product < 0)
    return refuse("its accumulators have two uses");
  if (resultTypes.size() != 2)
    return refuse("it has " + std::to_string(resultTypes.size()) + " results");
  keptResult = 1 - product;
  Value second =
      kernel.getTerminator()->getOperand(static_cast<unsigned>(keptResult));
  if (getElementTypeOrSelf(second.getType()) != resultType)
    return refuse("the auxiliary output for its gradient does not have the "
                  "result's type");
  while (auto reshape = second.getDefiningOp<ReshapeOp>())
    second = reshape.getInput();
  auto rounded = second.getDefiningOp<CastOp>();
  if (second == input || (rounded && rounded.getInput() == input)) {
    between = SavedForGradient::Input;
    return success();
  }
  if (!isGeluTanhSlope(second, input))
    return refuse(rounded ? "it rounds the slope of its activation"
                          : "its accumulators have two uses");
  between = SavedForGradient::OtherThanLibrary;
  return success();
}

//===----------------------------------------------------------------------===//
// Backward
//===----------------------------------------------------------------------===//

/// Matches `op` multiplying `sums` by a slope, or selecting them by a mask.
LogicalResult GemmMatch::matchGradient(Operation *op, Value sums) {
  auto refused = [&] {
    return refuse("its epilogue contains " +
                  op->getName().getStringRef().str());
  };
  Value result = op->getResult(0);
  if (hasEpilogue() || shapeOf(result) != shapeOf(sums))
    return refused();
  if (auto select = dyn_cast<SelectOp>(op)) {
    auxiliary = argumentOf(select.getCondition());
    if (auxiliary < 0 || select.getOnFalse() != sums ||
        splatValue(select.getOnTrue()) != 0.0 ||
        shapeOf(select.getCondition()) != shapeOf(sums))
      return refused();
    epilogue = exe::Epilogue::relu_gradient;
    between = SavedForGradient::OtherThanLibrary;
    return success();
  }
  Value slope = op->getOperand(op->getOperand(0) == sums ? 1 : 0);
  if (slope == sums || shapeOf(slope) != shapeOf(sums))
    return refused();
  epilogue = exe::Epilogue::gelu_tanh_gradient;
  // A slope saved by a forward kernel. The library reads an input of the
  // result's type instead.
  if (auxiliary = argumentOf(slope); auxiliary >= 0) {
    if (getElementTypeOrSelf(slope.getType()) != resultType)
      return refuse("it multiplies by a factor of another type than its "
                    "result's");
    between = SavedForGradient::OtherThanLibrary;
    return success();
  }
  // The slope at a saved input: search the arguments that are read whole, in
  // the result's type.
  for (BlockArgument argument : kernel.getArguments()) {
    if (getElementTypeOrSelf(argument.getType()) != resultType)
      continue;
    Value input = argument;
    while (input.hasOneUse() && isa<CastOp, ReshapeOp>(*input.user_begin()))
      input = input.user_begin()->getResult(0);
    if (shapeOf(input) != shapeOf(sums) || !isGeluTanhSlope(slope, input))
      continue;
    auxiliary = argument.getArgNumber();
    between = SavedForGradient::Input;
    return success();
  }
  return refused();
}
