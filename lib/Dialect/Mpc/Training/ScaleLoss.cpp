//===- ScaleLoss.cpp - mpc-scale-loss -------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Chooses one preset per module and rewrites every function that is part of a
// training step. Runs after precision: gradients are checked in the compute
// type that optimizers read.
//
//===----------------------------------------------------------------------===//

#include "LossScaling.h"

#include "mpc/Dialect/Mpc/Training/Passes.h"

using namespace mlir;
using namespace mpc;

namespace mpc {
#define GEN_PASS_DEF_SCALELOSSPASS
#include "mpc/Dialect/Mpc/Training/Passes.h.inc"
} // namespace mpc

namespace {

/// Returns true if an op result has the float type.
template <typename FloatTy> bool hasValueOf(func::FuncOp function) {
  return function
      .walk([](Operation *op) {
        return llvm::any_of(op->getResultTypes(),
                            [](Type type) {
                              return isa<FloatTy>(getElementTypeOrSelf(type));
                            })
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Warns about scales that do not fit the types.
void warnOfTypes(func::FuncOp function, const LossScalePreset &preset) {
  if (!preset.scales() && hasValueOf<Float16Type>(function))
    function.emitWarning()
        << "has f16 values and no loss scale: gradients below 2^-24 become 0; "
           "the loss scale 'dynamic' keeps them";
  else if (preset.scales() && !hasValueOf<Float16Type>(function) &&
           hasValueOf<BFloat16Type>(function))
    function.emitWarning()
        << "has the loss scale '" << preset.name
        << "' and no f16 value: bf16 has the range of f32 and needs none";
}

struct ScaleLossPass : mpc::impl::ScaleLossPassBase<ScaleLossPass> {
  using Base::Base;

  void runOnOperation() override {
    std::vector<func::FuncOp> parts;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (function.getBody().hasOneBlock() &&
          LossScaling(function, LossScalePreset(), {}).applies())
        parts.push_back(function);
    std::optional<LossScalePreset> preset = choosePreset(parts);
    if (!preset)
      return signalPassFailure();
    if (parts.empty())
      return markAllAnalysesPreserved();
    GradientOptions gradients;
    gradients.accumulate = accumulate;
    if (clipNorm != 0)
      gradients.clipNorm = clipNorm;
    if (clipValue != 0)
      gradients.clipValue = clipValue;
    for (func::FuncOp function : parts) {
      LossScaling scaling(function, *preset, gradients);
      if (scaling.seedCount() > 0)
        warnOfTypes(function, *preset);
      if (failed(scaling.run()))
        return signalPassFailure();
      numSeeds += scaling.seedCount();
      numUpdates += scaling.updateCount();
    }
  }

private:
  /// Chooses the preset of the whole step: the function that scales the loss
  /// and the one that unscales must agree, and only the former need have f16
  /// values.
  std::optional<LossScalePreset> choosePreset(ArrayRef<func::FuncOp> parts) {
    std::string text = lossScale;
    if (text.empty())
      text = llvm::any_of(parts, hasValueOf<Float16Type>) ? "torch" : "none";
    std::string error;
    std::optional<LossScalePreset> preset = LossScalePreset::parse(text, error);
    if (!preset)
      getOperation().emitError() << error;
    return preset;
  }
};

} // namespace
