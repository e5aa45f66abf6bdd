//===- ElementConversion.h - access to elements of host buffers -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TRAINING_ELEMENTCONVERSION_H
#define MPC_LIB_TRAINING_ELEMENTCONVERSION_H

#include "mpc/Runtime/Buffer.h"

#include <limits>
#include <optional>

namespace mpc::training {

/// Calls `function` with a null pointer of the C++ type of `element`; returns
/// false if there is none (16-bit or 8-bit floats).
template <typename F> bool withElement(ElementType element, F function) {
  switch (element) {
  case ElementType::I1:
  case ElementType::UI8:
    return function(static_cast<const uint8_t *>(nullptr)), true;
  case ElementType::I8:
    return function(static_cast<const int8_t *>(nullptr)), true;
  case ElementType::I16:
    return function(static_cast<const int16_t *>(nullptr)), true;
  case ElementType::UI16:
    return function(static_cast<const uint16_t *>(nullptr)), true;
  case ElementType::I32:
    return function(static_cast<const int32_t *>(nullptr)), true;
  case ElementType::UI32:
    return function(static_cast<const uint32_t *>(nullptr)), true;
  case ElementType::I64:
    return function(static_cast<const int64_t *>(nullptr)), true;
  case ElementType::UI64:
    return function(static_cast<const uint64_t *>(nullptr)), true;
  case ElementType::F32:
    return function(static_cast<const float *>(nullptr)), true;
  case ElementType::F64:
    return function(static_cast<const double *>(nullptr)), true;
  case ElementType::F16:
  case ElementType::BF16:
  case ElementType::F8E4M3FN:
  case ElementType::F8E5M2:
    return false;
  }
  return false;
}

/// Calls `take` with each element in the `bytes` from `offset` on as a double;
/// not for 16-bit floats.
template <typename F>
void readElements(const Buffer &data, size_t offset, size_t bytes, F take) {
  withElement(data.type().element, [&](auto *null) {
    using T = std::remove_cvref_t<decltype(*null)>;
    const auto *at = reinterpret_cast<const T *>(
        static_cast<const char *>(data.data()) + offset);
    for (size_t i = 0; i < bytes / sizeof(T); ++i)
      take(static_cast<double>(at[i]));
  });
}

/// Returns the single number in a host buffer; NaN for types that
/// readElements() does not support.
inline double scalarOf(const Buffer &buffer) {
  double number = std::numeric_limits<double>::quiet_NaN();
  readElements(buffer, 0, buffer.size(), [&](double value) { number = value; });
  return number;
}

/// Fails, with the example's index, if one of the host `labels` is neither in
/// [0, classes) nor `ignored`.
Status checkClasses(const Buffer &labels, int64_t classes,
                    std::optional<int64_t> ignored);

} // namespace mpc::training

#endif // MPC_LIB_TRAINING_ELEMENTCONVERSION_H
