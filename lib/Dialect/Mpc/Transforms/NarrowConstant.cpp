//===- NarrowConstant.cpp - constants in a narrower type ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NarrowConstant.h"

#include "mpc/Analysis/OpNames.h"
#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Reference/Tensor.h"

#include <cmath>

using namespace mlir;
using namespace mpc;

/// What a constant's resource is called, or the op's name.
static std::string resourceName(ConstantOp op) {
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(op.getValue()))
    return resource.getRawHandle().getKey().str();
  return opName(op).str();
}

static StringRef suffixOf(FloatType type) {
  return isa<BFloat16Type>(type) ? "bf16" : "f16";
}

namespace {
/// What rounding did to a constant.
struct Losses {
  int64_t overflows = 0, flushes = 0;
  void note(double value, double rounded, int64_t count = 1) {
    overflows += std::isinf(rounded) && std::isfinite(value) ? count : 0;
    flushes += rounded == 0 && value != 0 ? count : 0;
  }
};
} // namespace

static void warn(ConstantOp op, FloatType type, StringRef name,
                 const Losses &losses) {
  if (!losses.overflows && !losses.flushes)
    return;
  int64_t count = elementCount(op.getResult());
  InFlightDiagnostic diag = op.emitWarning()
                            << "constant '" << name << "' in " << type << ": ";
  if (losses.overflows)
    diag << losses.overflows << " of " << count << " values become infinite";
  if (losses.overflows && losses.flushes)
    diag << " and ";
  if (losses.flushes)
    diag << losses.flushes << " of " << count << " values become zero";
  diag << "; an override float32 for the op that reads it keeps them";
}

std::optional<ElementsAttr> mpc::narrowConstantValue(ConstantOp op,
                                                     FloatType type) {
  auto narrow = cast<RankedTensorType>(op.getType()).clone(type);
  std::string name = resourceName(op);
  Losses losses;
  // A splat stores one element, however many it stands for.
  if (std::optional<double> splat = splatValue(op.getValue())) {
    double rounded = reference::roundTo(*splat, type);
    losses.note(*splat, rounded, elementCount(op.getResult()));
    warn(op, type, name, losses);
    return makeSplat(narrow, rounded);
  }
  FailureOr<ConstantBytes> bytes = ConstantBytes::get(op.getValue());
  if (failed(bytes))
    return std::nullopt;
  reference::Tensor tensor(narrow);
  for (auto [value, out] :
       llvm::zip_equal(bytes->as<float>(), tensor.floats())) {
    out = reference::roundTo(value, type);
    losses.note(value, out);
  }
  warn(op, type, name, losses);
  return tensor.toAttr((name + "." + suffixOf(type)).str());
}
