//===- FiniteResultChecks.cpp - results checked for non-finite values -----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Compiler.h"

#include "mpc/Dialect/Mpc/IR/IndexChecks.h"
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

/// Returns the NonFinite values of a float constant. Large constants are
/// weights and not searched.
static uint8_t valuesOf(mpc::ConstantOp constant) {
  constexpr int64_t kMostElements = 1 << 20;
  auto elements = dyn_cast<DenseElementsAttr>(constant.getValue());
  if (!elements || !isa<FloatType>(elements.getElementType()))
    return 0;
  auto valueOf = [](const llvm::APFloat &element) -> uint8_t {
    return element.isFinite()     ? 0
           : element.isNaN()      ? NonFinite::kNan
           : element.isNegative() ? NonFinite::kNegativeInfinity
                                  : NonFinite::kPositiveInfinity;
  };
  if (elements.isSplat())
    return valueOf(elements.getSplatValue<llvm::APFloat>());
  uint8_t values = 0;
  if (elements.getNumElements() <= kMostElements)
    for (const llvm::APFloat &element : elements.getValues<llvm::APFloat>())
      values |= valueOf(element);
  return values;
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
