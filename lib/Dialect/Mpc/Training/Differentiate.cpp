//===- Differentiate.cpp - the pass mpc-differentiate ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Algorithm: Differentiator.cpp. Runs after mpc-attach-loss, which adds the
// loss, and before mpc-attach-optimizer, which consumes the gradients.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/Training/Differentiate.h"

#include "mpc/Dialect/Mpc/Training/Passes.h"

namespace mpc {
#define GEN_PASS_DEF_DIFFERENTIATEPASS
#include "mpc/Dialect/Mpc/Training/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {

struct DifferentiatePass : mpc::impl::DifferentiatePassBase<DifferentiatePass> {
  using Base::Base;

  void runOnOperation() override {
    DifferentiationOptions options;
    options.splitRecurrent = splitRecurrent;
    options.gradients.assign(gradients.begin(), gradients.end());
    options.cotangent = cotangent;
    options.output = output;
    FailureOr<DifferentiationCounts> counts =
        differentiate(getOperation(), options);
    if (failed(counts))
      return signalPassFailure();
    numParameters += counts->parameters;
    numVjps += counts->vjps;
    numUnrolled += counts->unrolled;
    numSplit += counts->split;
  }
};

} // namespace
