//===- CastFusion.cpp - casts that are fused into kernels -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One decision per fusion class, so that the stages that place casts and that
// fuse them agree.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/CastFusion.h"

#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"

using namespace mlir;
using namespace mpc;

/// Returns the fusion class; ops unknown to the fuser have their own kernel.
static FusionClass classOfProducer(Operation *op) {
  return op ? fusionClassOf(op) : FusionClass::Opaque;
}

bool mpc::fusesOperandCast(Operation *op, unsigned index,
                           const CastFusionTarget &target) {
  switch (classOfProducer(op)) {
  case FusionClass::Elementwise:
  case FusionClass::IndexMap:
  case FusionClass::Gather:
  case FusionClass::Reduction:
  case FusionClass::RowWise:
  case FusionClass::Pool:
    return true;
  case FusionClass::Contraction:
  case FusionClass::Convolution:
  case FusionClass::Attention: {
    // Only the multiplied operands are streamed through the micro-kernel; a
    // mask is loaded element by element.
    auto precision = dyn_cast<PrecisionOpInterface>(op);
    bool streamed = !precision || precision.isPrecisionOperand(index);
    return !streamed || target.narrowsContractionOperands;
  }
  case FusionClass::Constant:
  case FusionClass::Source:
  case FusionClass::View:
  case FusionClass::Scan:
  case FusionClass::Recurrent:
  case FusionClass::Opaque:
    return false;
  }
  return false;
}

bool mpc::fusesResultCast(Operation *op, const CastFusionTarget &target) {
  // Partial sums of a filter's gradient are reduced in memory, in f32.
  if (isa<ConvFilterGradientOp>(op))
    return false;
  switch (classOfProducer(op)) {
  case FusionClass::Source:
  case FusionClass::Elementwise:
  case FusionClass::IndexMap:
  case FusionClass::Gather:
  case FusionClass::Reduction:
  case FusionClass::RowWise:
  case FusionClass::Pool:
  case FusionClass::Contraction:
  case FusionClass::Convolution:
  case FusionClass::Attention:
    return true;
  case FusionClass::Constant:
  case FusionClass::View:
  case FusionClass::Scan:
  case FusionClass::Recurrent:
  case FusionClass::Opaque:
    return false;
  }
  return false;
}
