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
#include "mpc/Support/VectorClones.h"

#include "llvm/ADT/bit.h"

#include <array>
#include <cmath>
#include <cstring>

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

bool mpc::areFinite(ArrayRef<float> elements) {
  constexpr uint32_t kExponent = 0x7f800000;
  uint32_t others = 0;
  for (float element : elements)
    others |= (llvm::bit_cast<uint32_t>(element) & kExponent) == kExponent;
  return others == 0;
}

MPC_VECTOR_CLONES
bool mpc::areBFloats(ArrayRef<float> elements) {
  uint32_t others = 0;
  for (float element : elements)
    others |= llvm::bit_cast<uint32_t>(element);
  return (others & 0xffff) == 0;
}

MPC_VECTOR_CLONES
void RoundingErrorStats::note(ArrayRef<float> exact, ArrayRef<float> rounded) {
  size_t whole = 0;
  if (areFinite(exact) && areFinite(rounded)) {
    // Compilers vectorize no sums of floats: their order decides.
    constexpr size_t kLanes = 8;
    using Floats = float __attribute__((vector_size(4 * kLanes)));
    using Bits = int32_t __attribute__((vector_size(4 * kLanes)));
    using Doubles = double __attribute__((vector_size(8 * kLanes)));
    Doubles errorSums = {}, squareSums = {};
    Bits zero = {}, most = {};
    for (; whole + kLanes <= exact.size(); whole += kLanes) {
      Floats value, near;
      std::memcpy(&value, exact.data() + whole, sizeof(value));
      std::memcpy(&near, rounded.data() + whole, sizeof(near));
      // Exact: a multiple of the value's unit in the last place.
      Floats error = near - value;
      Doubles wideError = __builtin_convertvector(error, Doubles),
              wideValue = __builtin_convertvector(value, Doubles);
      errorSums += wideError * wideError;
      squareSums += wideValue * wideValue;
      zero -= (near == 0) & (value != 0);
      // Magnitudes are ordered as their bits.
      Bits magnitude = reinterpret_cast<Bits>(error) & 0x7fffffff;
      Bits isLarger = magnitude > most;
      most = (magnitude & isLarger) | (most & ~isLarger);
    }
    for (size_t lane = 0; lane < kLanes; ++lane) {
      flushed += zero[lane];
      largest = std::max<double>(largest, llvm::bit_cast<float>(most[lane]));
      errors += errorSums[lane];
      values += squareSums[lane];
    }
    count += int64_t(whole);
    finite += int64_t(whole);
  }
  for (size_t i = whole; i < exact.size(); ++i)
    note(exact[i], rounded[i]);
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

/// Rounds to the nearest bfloat16, ties to even; a NaN becomes quiet.
static uint16_t toBFloat16(float value) {
  uint32_t bits = llvm::bit_cast<uint32_t>(value);
  uint32_t nearest = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  return uint16_t(std::isnan(value) ? (bits >> 16) | 0x40 : nearest);
}

static float fromBFloat16(uint16_t bits) {
  return llvm::bit_cast<float>(uint32_t(bits) << 16);
}

/// Rounds to the nearest float16, ties to even; a NaN becomes the quiet one.
static uint16_t toFloat16(float value) {
  uint32_t bits = llvm::bit_cast<uint32_t>(value);
  uint32_t magnitude = bits & 0x7fffffff, sign = (bits ^ magnitude) >> 16;
  // 2^-14 is the least normal number, 2^16 rounds to infinity. The sum with 0.5
  // rounds to multiples of the least subnormal, 2^-24.
  uint32_t normal =
      (magnitude - (112u << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  uint32_t subnormal =
      llvm::bit_cast<uint32_t>(llvm::bit_cast<float>(magnitude) + 0.5f) -
      llvm::bit_cast<uint32_t>(0.5f);
  uint32_t large = magnitude > 0x7f800000 ? 0x7e00 : 0x7c00;
  return uint16_t(sign | (magnitude >= 0x47800000   ? large
                          : magnitude >= 0x38800000 ? normal
                                                    : subnormal));
}

static float fromFloat16(uint16_t bits) {
  uint32_t sign = uint32_t(bits & 0x8000) << 16, magnitude = bits & 0x7fff;
  float normal = llvm::bit_cast<float>((magnitude << 13) + (112u << 23));
  float subnormal = float(magnitude) * 0x1p-24f;
  uint32_t large = 0x7f800000 | (magnitude & 0x3ff) << 13;
  float found = magnitude >= 0x7c00  ? llvm::bit_cast<float>(large)
                : magnitude >= 0x400 ? normal
                                     : subnormal;
  return llvm::bit_cast<float>(llvm::bit_cast<uint32_t>(found) | sign);
}

void mpc::widenElements(ArrayRef<uint16_t> bits, Type element, float *target) {
  if (element.isBF16())
    llvm::transform(bits, target, fromBFloat16);
  else
    llvm::transform(bits, target, fromFloat16);
}

/// Returns the errors of rounding `exact`, in chunks that stay in the cache.
template <uint16_t (*encode)(float), float (*decode)(uint16_t)>
static RoundingErrorStats errorsOf(ArrayRef<float> exact) {
  constexpr size_t kChunk = 1024;
  std::array<float, kChunk> rounded;
  RoundingErrorStats losses;
  while (!exact.empty()) {
    ArrayRef<float> chunk = exact.take_front(kChunk);
    exact = exact.drop_front(chunk.size());
    for (size_t i = 0; i < chunk.size(); ++i)
      rounded[i] = decode(encode(chunk[i]));
    losses.note(chunk, ArrayRef(rounded).take_front(chunk.size()));
  }
  return losses;
}

static RoundingErrorStats errorsOf(ArrayRef<float> exact, FloatType type) {
  if (type.isBF16())
    return errorsOf<toBFloat16, fromBFloat16>(exact);
  if (type.isF16())
    return errorsOf<toFloat16, fromFloat16>(exact);
  RoundingErrorStats losses;
  losses.note(exact, exact);
  return losses;
}

MPC_VECTOR_CLONES
static void roundElements(ArrayRef<float> exact, FloatType type, char *target) {
  auto *halves = reinterpret_cast<uint16_t *>(target);
  if (type.isBF16())
    llvm::transform(exact, halves, toBFloat16);
  else if (type.isF16())
    llvm::transform(exact, halves, toFloat16);
  else
    llvm::copy(exact, reinterpret_cast<double *>(target));
}

/// Identifies the errors of rounding the elements of `attr`.
static ConstantRecipe errorsOfRounding(ElementsAttr attr) {
  return {"rounding errors", {attr}, {}};
}

/// Returns the errors of rounding the elements of `attr`, which the context's
/// store remembers; nullopt if the constant has no data.
static std::optional<RoundingErrorStats> errorsOf(ElementsAttr attr,
                                                  FloatType type) {
  auto compute = [&]() -> std::optional<RoundingErrorStats> {
    FailureOr<ConstantBytes> bytes = ConstantBytes::get(attr);
    if (failed(bytes))
      return std::nullopt;
    return errorsOf(bytes->as<float>(), type);
  };
  return rememberFact<RoundingErrorStats>(errorsOfRounding(attr), type,
                                          compute);
}

void mpc::rememberExact(ElementsAttr attr, FloatType type) {
  (void)rememberFact<RoundingErrorStats>(
      errorsOfRounding(attr), type, [&]() -> std::optional<RoundingErrorStats> {
        RoundingErrorStats none;
        none.noteExact(attr.getNumElements());
        return none;
      });
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
    std::optional<RoundingErrorStats> errors = errorsOf(op.getValue(), type);
    if (!errors)
      return std::nullopt;
    losses = *errors;
    auto fill = [value = op.getValue(),
                 type](MutableArrayRef<char> target) -> LogicalResult {
      FailureOr<ConstantBytes> bytes = ConstantBytes::get(value);
      if (succeeded(bytes))
        roundElements(bytes->as<float>(), type, target.data());
      return bytes;
    };
    FailureOr<ElementsAttr> rounded =
        deriveConstant(narrow, {"rounded", {op.getValue()}, std::move(fill)},
                       (name + "." + suffixOf(type)).str());
    if (failed(rounded))
      return std::nullopt;
    result.value = *rounded;
  }
  warn(op, type, name, losses);
  result.losses = losses.toAttr(op.getContext());
  return result;
}
