//===- SetTarget.cpp - set a module's target ------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Exe/Transforms/Passes.h"

using namespace mlir;
using namespace mpc;

namespace mpc {
#define GEN_PASS_DEF_SETTARGETPASS
#include "mpc/Dialect/Exe/Transforms/Passes.h.inc"
} // namespace mpc

namespace {
struct SetTargetPass : mpc::impl::SetTargetPassBase<SetTargetPass> {
  using Base::Base;

  LogicalResult initialize(MLIRContext *context) override {
    info = TargetInfo::parse(target);
    if (!info)
      return emitError(UnknownLoc::get(context))
             << "target '" << target << "' "
             << TargetInfo::describeUnknown(target);
    return success();
  }

  void runOnOperation() override { exe::setTarget(getOperation(), *info); }

  std::optional<TargetInfo> info;
};
} // namespace
