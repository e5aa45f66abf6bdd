//===- FiniteResultChecks.cpp - results checked for non-finite values -----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Compiler.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/IndexChecks.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Target/CPU/Codegen.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

#include <map>

using namespace mlir;
using namespace mpc;
using namespace mpc::cpu;

static constexpr uint8_t kInfinities =
    NonFinite::kPositiveInfinity | NonFinite::kNegativeInfinity;

/// Returns the NonFinite values among `bits` of IEEE numbers whose exponent is
/// `exponent`.
template <typename Bits>
static uint8_t valuesAmong(ArrayRef<Bits> bits, Bits exponent) {
  constexpr Bits kSign = Bits(1) << (8 * sizeof(Bits) - 1);
  // Nearly all constants are finite; this loop is vectorized.
  bool isFinite = true;
  for (Bits element : bits)
    isFinite &= (element & exponent) != exponent;
  if (isFinite)
    return 0;
  uint8_t values = 0;
  for (Bits element : bits) {
    if ((element & exponent) != exponent)
      continue;
    values |= Bits(element & ~kSign) != exponent ? NonFinite::kNan
              : (element & kSign) != 0           ? NonFinite::kNegativeInfinity
                                                 : NonFinite::kPositiveInfinity;
  }
  return values;
}

static uint8_t valuesAmong(const ConstantBytes &bytes, FloatType type) {
  if (type.isF64())
    return valuesAmong<uint64_t>(bytes.as<uint64_t>(), 0x7FF0000000000000);
  if (type.isF32())
    return valuesAmong<uint32_t>(bytes.as<uint32_t>(), 0x7F800000);
  if (type.isF16())
    return valuesAmong<uint16_t>(bytes.as<uint16_t>(), 0x7C00);
  if (type.isBF16())
    return valuesAmong<uint16_t>(bytes.as<uint16_t>(), 0x7F80);
  return 0;
}

/// Returns the NonFinite values of a float constant.
static uint8_t valuesOf(mpc::ConstantOp constant) {
  auto type =
      dyn_cast<FloatType>(getElementTypeOrSelf(constant.getResult().getType()));
  if (!type)
    return 0;
  if (std::optional<double> splat = splatValue(constant.getValue()))
    return valuesAmong<uint64_t>(llvm::bit_cast<uint64_t>(*splat),
                                 0x7FF0000000000000);
  auto compute = [&]() -> std::optional<uint8_t> {
    FailureOr<ConstantBytes> bytes = ConstantBytes::get(constant.getValue());
    if (failed(bytes))
      return std::nullopt;
    return valuesAmong(*bytes, type);
  };
  ConstantRecipe recipe{"non-finite values", {constant.getValue()}, {}};
  return rememberFact<uint8_t>(recipe, type, compute).value_or(0);
}

/// Returns true if `op` normally yields finite results from infinite operands,
/// as softmax does from a mask.
static bool endsInfinities(Operation *op) {
  return isa<SoftmaxOp>(op) ||
         llvm::is_contained({FusionClass::Contraction, FusionClass::Convolution,
                             FusionClass::Attention, FusionClass::Recurrent},
                            fusionClassOf(op));
}

/// Returns the NonFinite values that `op` may pass on if operand `index` has
/// `values`. An infinity keeps its sign in sums, extrema and movements.
static uint8_t passedOn(Operation *op, unsigned index, uint8_t values) {
  // A bound of a clamp yields only the infinity that it cuts off.
  if (isa<ClampOp>(op) && index > 0)
    values &= ~(index == 1 ? NonFinite::kNegativeInfinity
                           : NonFinite::kPositiveInfinity);
  uint8_t infinities = values & kInfinities;
  if (infinities == 0 || infinities == kInfinities)
    return values;
  if (auto monotone = dyn_cast<MonotoneOpInterface>(op))
    return monotone.isIncreasingIn(index) ? values : values ^ kInfinities;
  bool keepsSign =
      isa<CastOp, SelectOp>(op) ||
      (fusionClassOf(op) != FusionClass::Elementwise && !isa<ReduceProdOp>(op));
  return keepsSign ? values : values | kInfinities;
}

/// Returns the infinity that `op` yields only from an infinity in another
/// operand: an upper bound of +inf, a lower bound of -inf.
static uint8_t unreachedBound(Operation *op,
                              const llvm::DenseMap<Value, uint8_t> &valuesIn) {
  auto unless = [&](uint8_t infinity) -> uint8_t {
    return llvm::all_of(op->getOperands(),
                        [&](Value operand) {
                          return (valuesIn.lookup(operand) & infinity) != 0;
                        })
               ? 0
               : infinity;
  };
  if (isa<MinOp>(op))
    return unless(NonFinite::kPositiveInfinity);
  if (isa<MaxOp>(op))
    return unless(NonFinite::kNegativeInfinity);
  return 0;
}

void mpc::markExemptValues(func::FuncOp function) {
  llvm::DenseMap<Value, uint8_t> valuesIn;
  for (Operation &op : function.getBody().front().without_terminator()) {
    uint8_t values = 0;
    if (auto constant = dyn_cast<mpc::ConstantOp>(op))
      values = valuesOf(constant);
    else if (!endsInfinities(&op))
      for (OpOperand &operand : op.getOpOperands())
        values |= passedOn(&op, operand.getOperandNumber(),
                           valuesIn.lookup(operand.get()));
    values &= ~unreachedBound(&op, valuesIn);
    if (values != 0)
      for (Value result : op.getResults())
        if (isa<FloatType>(getElementTypeOrSelf(result.getType())))
          valuesIn[result] = values;
  }
  Builder builder(function.getContext());
  for (OpOperand &result :
       function.getBody().front().getTerminator()->getOpOperands())
    if (uint8_t values = valuesIn.lookup(result.get()))
      function.setResultAttr(result.getOperandNumber(), kExemptAttr,
                             builder.getI64IntegerAttr(values));
}

uint8_t mpc::exemptValues(exe::ResultOp result) {
  auto values = result->getAttrOfType<IntegerAttr>(kExemptAttr);
  return values ? uint8_t(values.getInt()) & NonFinite::kAll : 0;
}

SmallVector<exe::ResultOp> mpc::watchedResults(exe::ProgramOp program) {
  auto isOf = [](auto port, std::initializer_list<RoleKind> kinds) {
    RoleAttr role = port.getRoleAttr();
    return role && llvm::is_contained(kinds, role.getKind());
  };
  SmallVector<exe::ResultOp> watched;
  auto arguments = program.getProgramArguments();
  auto results = program.getProgramResults();
  // The trainer checks its losses and gradients itself.
  bool trains =
      llvm::any_of(arguments,
                   [&](exe::ArgumentOp argument) {
                     return isOf(argument,
                                 {RoleKind::parameter, RoleKind::parameter_copy,
                                  RoleKind::optimizer_state});
                   }) ||
      llvm::any_of(results, [&](exe::ResultOp result) {
        return isOf(result, {RoleKind::loss});
      });
  if (trains)
    return watched;
  for (exe::ResultOp result : results) {
    auto element = dyn_cast<FloatType>(result.getTensorType().getElementType());
    if (element && element.getWidth() >= 16 && !result.getAlias() &&
        exemptValues(result) != NonFinite::kAll &&
        isOf(result, {RoleKind::output}))
      watched.push_back(result);
  }
  return watched;
}

void mpc::enableFiniteResultChecks(ModuleOp planned, ModuleOp kernels) {
  if (!CpuTarget::of(exe::targetOf(planned)))
    return;
  for (auto program : planned.getOps<exe::ProgramOp>()) {
    llvm::StringMap<uint8_t> exempt;
    for (exe::ResultOp result : watchedResults(program))
      exempt[result.getSymName()] = exemptValues(result);
    if (exempt.empty())
      continue;
    // Per kernel and result. A kernel checks for all values that one of its
    // launches is not exempt from.
    llvm::MapVector<StringAttr, std::map<int64_t, int64_t>> watched;
    for (exe::LaunchOp launch : program.getLaunches())
      for (auto [number, output] : llvm::enumerate(launch.getOutputs())) {
        auto part = dyn_cast<exe::PartAttr>(output);
        auto symbol =
            part ? part.getWhole() : dyn_cast<FlatSymbolRefAttr>(output);
        auto found = symbol ? exempt.find(symbol.getValue()) : exempt.end();
        if (found == exempt.end())
          continue;
        int64_t values = found->second;
        auto [entry, isNew] =
            watched[launch.getKernelAttr().getAttr()].try_emplace(
                int64_t(number), values);
        if (!isNew)
          entry->second &= values;
      }
    for (auto &[name, results] : watched)
      if (auto kernel = kernels.lookupSymbol<func::FuncOp>(name)) {
        auto setAttr = [&](StringRef attr, auto values) {
          kernel->setAttr(attr, DenseI64ArrayAttr::get(
                                    kernel.getContext(),
                                    llvm::to_vector_of<int64_t>(values)));
        };
        setAttr(kCheckedResultsAttr, llvm::make_first_range(results));
        setAttr(kExemptValuesAttr, llvm::make_second_range(results));
      }
  }
}
