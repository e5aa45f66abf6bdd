//===- InitialState.cpp - initial state of a training step ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "InitialState.h"

#include "mpc/Support/StepNames.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

using namespace mpc;
using namespace mpc::tool;

// Round to odd in f32, so that the second rounding is correct.
uint16_t tool::roundToOddBFloat16(double value) {
  auto single = static_cast<float>(value);
  uint32_t bits = std::bit_cast<uint32_t>(single);
  if (single != value) {
    if (std::fabs(single) > std::fabs(value))
      --bits;
    bits |= 1;
  }
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

bool tool::isSelfInitialized(const ProgramValue &value) {
  if (value.role == "parameter" || value.role == "statistics")
    return value.initial != nullptr;
  // Computed by another part.
  if (value.name.ends_with(kGradientSuffix))
    return false;
  return value.role == "parameter_copy" || value.role == "optimizer_state" ||
         value.role == "optimizer_step" || value.role == "loss_scale_state" ||
         value.role == "scaling_state" || value.role == "rng_state";
}

/// Fills the 16-bit `copy` of a parameter in `bound`.
static Status copyParameter(std::span<const ProgramValue> values,
                            const std::vector<Buffer> &bound,
                            const ProgramValue &copy, Buffer &buffer) {
  // The copy's name is the parameter's plus ".copy".
  std::string master(copy.name, 0, copy.name.rfind(kCopySuffix));
  auto found = std::find_if(
      values.begin(), values.end(),
      [&](const ProgramValue &value) { return value.name == master; });
  const Buffer *source =
      found == values.end() ? nullptr : &bound[size_t(found - values.begin())];
  bool half = copy.type.element == ElementType::F16;
  if (!source || !*source || found->type.element != ElementType::F32 ||
      found->type.shape != copy.type.shape ||
      !(half || copy.type.element == ElementType::BF16))
    return Status(
        StatusCode::InvalidArgument, "input '" + copy.name + "'",
        "has no parameter of its shape to copy; give an array for it");
  std::span<const float> from = source->as<float>();
  std::span<uint16_t> to = buffer.as<uint16_t>();
  for (size_t i = 0; i < to.size(); ++i)
    to[i] = half ? std::bit_cast<uint16_t>(static_cast<_Float16>(from[i]))
                 : roundToOddBFloat16(from[i]);
  return {};
}

Status tool::makeInitialState(std::span<const ProgramValue> values,
                              std::vector<Buffer> &bound) {
  // Parameters before their copies.
  for (bool copies : {false, true})
    for (size_t i = 0; i < values.size(); ++i) {
      if (bound[i] || !isSelfInitialized(values[i]) ||
          (values[i].role == "parameter_copy") != copies)
        continue;
      Result<Buffer> buffer = Buffer::allocate(values[i].type);
      if (!buffer.ok())
        return buffer.status();
      if (copies) {
        if (Status status = copyParameter(values, bound, values[i], *buffer);
            !status.ok())
          return status;
      } else if (values[i].initial && buffer->size() > 0) {
        std::memcpy(buffer->data(), values[i].initial.get(), buffer->size());
      }
      bound[i] = std::move(*buffer);
    }
  return {};
}
