//===- RoundConstant.cpp - round constants to low precision --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RoundConstant.h"

#include "mpc/Analysis/OpNames.h"
#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Reference/Tensor.h"

#include <cmath>

using namespace mlir;
using namespace mpc;

std::string mpc::resourceName(ConstantOp op) {
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(op.getValue()))
    return resource.getRawHandle().getKey().str();
  return opName(op).str();
}

static StringRef suffixOf(FloatType type) {
  return isa<BFloat16Type>(type) ? "bf16" : "f16";
}

void RoundingErrorStats::note(double value, double rounded, int64_t times) {
  count += times;
  overflowed += std::isinf(rounded) && std::isfinite(value) ? times : 0;
  flushed += rounded == 0 && value != 0 ? times : 0;
  if (!std::isfinite(rounded) || !std::isfinite(value))
    return;
  double error = std::abs(rounded - value);
  largest = std::max(largest, error);
  errors += double(times) * error * error;
  values += double(times) * value * value;
  finite += times;
}

NarrowingAttr RoundingErrorStats::toAttr(MLIRContext *context) const {
  // Errors are relative to the root mean square of the values if it is nonzero.
  double scale = values > 0 ? std::sqrt(values / double(finite)) : 1;
  double rms = finite ? std::sqrt(errors / double(finite)) : 0;
  Builder builder(context);
  return NarrowingAttr::get(context, count, overflowed, flushed,
                            builder.getF64FloatAttr(largest / scale),
                            builder.getF64FloatAttr(rms / scale));
}

static void warn(ConstantOp op, FloatType type, StringRef name,
                 const RoundingErrorStats &losses) {
  if (losses.getOverflowed())
    op.emitWarning() << "constant '" << name << "' in " << type << ": "
                     << losses.getOverflowed() << " of " << losses.getCount()
                     << " values become infinite; override the op that reads "
                        "them with float32";
}

std::optional<RoundedConstant> mpc::roundConstantValue(ConstantOp op,
                                                       FloatType type) {
  auto narrow = cast<RankedTensorType>(op.getType()).clone(type);
  std::string name = resourceName(op);
  RoundingErrorStats losses;
  RoundedConstant result;
  // A splat stores one element.
  if (std::optional<double> splat = splatValue(op.getValue())) {
    double rounded = reference::roundTo(*splat, type);
    losses.note(*splat, rounded, elementCount(op.getResult()));
    result.value = makeSplat(narrow, rounded);
  } else {
    FailureOr<ConstantBytes> bytes = ConstantBytes::get(op.getValue());
    if (failed(bytes))
      return std::nullopt;
    reference::Tensor tensor(narrow);
    for (auto [value, out] :
         llvm::zip_equal(bytes->as<float>(), tensor.floats())) {
      out = reference::roundTo(value, type);
      losses.note(value, out);
    }
    result.value = tensor.toAttr((name + "." + suffixOf(type)).str());
  }
  warn(op, type, name, losses);
  result.losses = losses.toAttr(op.getContext());
  return result;
}
