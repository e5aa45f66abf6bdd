//===- ArrayTypes.cpp - element types of arrays and buffers ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ArrayTypes.h"

#include "Errors.h"

#include <nanobind/stl/string.h>

#include <string>

namespace nb = nanobind;
using namespace mpc;
using namespace mpc::python;

namespace {

struct DType {
  ElementType element;
  nb::dlpack::dtype_code code;
  uint8_t bits;
  const char *name;
};

} // namespace

static constexpr DType kTypes[] = {
    {ElementType::I1, nb::dlpack::dtype_code::Bool, 8, "bool"},
    {ElementType::I8, nb::dlpack::dtype_code::Int, 8, "int8"},
    {ElementType::I16, nb::dlpack::dtype_code::Int, 16, "int16"},
    {ElementType::I32, nb::dlpack::dtype_code::Int, 32, "int32"},
    {ElementType::I64, nb::dlpack::dtype_code::Int, 64, "int64"},
    {ElementType::UI8, nb::dlpack::dtype_code::UInt, 8, "uint8"},
    {ElementType::UI16, nb::dlpack::dtype_code::UInt, 16, "uint16"},
    {ElementType::UI32, nb::dlpack::dtype_code::UInt, 32, "uint32"},
    {ElementType::UI64, nb::dlpack::dtype_code::UInt, 64, "uint64"},
    {ElementType::F16, nb::dlpack::dtype_code::Float, 16, "float16"},
    {ElementType::BF16, nb::dlpack::dtype_code::Bfloat, 16, "bfloat16"},
    {ElementType::F32, nb::dlpack::dtype_code::Float, 32, "float32"},
    {ElementType::F64, nb::dlpack::dtype_code::Float, 64, "float64"},
};

std::optional<ElementType> python::elementOf(nb::dlpack::dtype type) {
  for (const DType &known : kTypes)
    if (uint8_t(known.code) == type.code && known.bits == type.bits &&
        type.lanes == 1)
      return known.element;
  return std::nullopt;
}

std::optional<ElementType> python::elementNamed(std::string_view name) {
  for (const DType &known : kTypes)
    if (known.name == name)
      return known.element;
  return std::nullopt;
}

static const DType &typeOf(ElementType element) {
  for (const DType &known : kTypes)
    if (known.element == element)
      return known;
  throw StatusError(Status(StatusCode::Unavailable, "result",
                           "has the type " +
                               std::string(elementTypeName(element)) +
                               ", which arrays do not support; cast it to "
                               "another type in the model"));
}

nb::dlpack::dtype python::dlpackType(ElementType element) {
  const DType &known = typeOf(element);
  return {uint8_t(known.code), known.bits, 1};
}

const char *python::arrayTypeName(ElementType element) {
  return typeOf(element).name;
}

nb::object python::numpyType(ElementType element) {
  nb::object type =
      element == ElementType::BF16
          ? nb::module_::import_("ml_dtypes").attr("bfloat16")
          : nb::object(nb::cast(std::string(arrayTypeName(element))));
  return nb::module_::import_("numpy").attr("dtype")(type);
}

bool python::isContiguous(const nb::ndarray<nb::ro> &array) {
  int64_t wanted = 1;
  for (size_t axis = array.ndim(); axis-- > 0;) {
    if (array.shape(axis) != 1 && array.stride(axis) != wanted)
      return array.size() == 0;
    wanted *= int64_t(array.shape(axis));
  }
  return true;
}
