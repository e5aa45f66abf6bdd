//===- FiniteResultChecks.cpp - results checked for non-finite values -----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Compiler.h"

#include "mpc/Dialect/Mpc/IR/IndexChecks.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"
#include "mpc/Target/CPU/Codegen.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cpu;

/// Returns true if a float constant contains infinities or NaNs. Large
/// constants are weights and not searched.
static bool hasInfinities(mpc::ConstantOp constant) {
  constexpr int64_t kMostElements = 1 << 20;
  auto values = dyn_cast<DenseElementsAttr>(constant.getValue());
  if (!values || !isa<FloatType>(values.getElementType()))
    return false;
  if (values.isSplat())
    return !values.getSplatValue<llvm::APFloat>().isFinite();
  return values.getNumElements() <= kMostElements &&
         llvm::any_of(
             values.getValues<llvm::APFloat>(),
             [](const llvm::APFloat &value) { return !value.isFinite(); });
}

/// Returns true if `op` normally yields finite results from infinite operands,
/// as softmax does from a mask.
static bool endsInfinities(Operation *op) {
  return isa<SoftmaxOp, AttentionOp>(op) ||
         llvm::is_contained(
             {FusionClass::Contraction, FusionClass::Convolution},
             fusionClassOf(op));
}

void mpc::markInfiniteResults(func::FuncOp function) {
  for (OpOperand &result :
       function.getBody().front().getTerminator()->getOpOperands()) {
    llvm::SetVector<Value> values;
    values.insert(result.get());
    bool isInfinite = false;
    for (size_t i = 0; i < values.size() && !isInfinite; ++i) {
      Operation *op = values[i].getDefiningOp();
      if (!op || endsInfinities(op))
        continue;
      if (auto constant = dyn_cast<mpc::ConstantOp>(op))
        isInfinite = hasInfinities(constant);
      for (Value operand : op->getOperands())
        if (isa<FloatType>(getElementTypeOrSelf(operand.getType())))
          values.insert(operand);
    }
    if (isInfinite)
      function.setResultAttr(result.getOperandNumber(), kInfiniteAttr,
                             UnitAttr::get(function.getContext()));
  }
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
        !result->hasAttr(kInfiniteAttr) && isOf(result, {RoleKind::output}))
      watched.push_back(result);
  }
  return watched;
}

void mpc::enableFiniteResultChecks(ModuleOp planned, ModuleOp kernels) {
  if (!CpuTarget::of(exe::targetOf(planned)))
    return;
  for (auto program : planned.getOps<exe::ProgramOp>()) {
    llvm::StringSet<> names;
    for (exe::ResultOp result : watchedResults(program))
      names.insert(result.getSymName());
    if (names.empty())
      continue;
    llvm::MapVector<StringAttr, llvm::SetVector<int64_t>> watched;
    for (exe::LaunchOp launch : program.getLaunches())
      for (auto [number, output] : llvm::enumerate(launch.getOutputs())) {
        auto part = dyn_cast<exe::PartAttr>(output);
        auto symbol =
            part ? part.getWhole() : dyn_cast<FlatSymbolRefAttr>(output);
        if (symbol && names.contains(symbol.getValue()))
          watched[launch.getKernelAttr().getAttr()].insert(int64_t(number));
      }
    for (auto &[name, numbers] : watched)
      if (auto kernel = kernels.lookupSymbol<func::FuncOp>(name)) {
        SmallVector<int64_t> sorted = numbers.takeVector();
        llvm::sort(sorted);
        kernel->setAttr(kCheckedResultsAttr,
                        DenseI64ArrayAttr::get(kernel.getContext(), sorted));
      }
  }
}
