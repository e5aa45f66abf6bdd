//===- ArrayTypes.h - element types of arrays and buffers -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_BINDINGS_PYTHON_ARRAYTYPES_H
#define MPC_LIB_BINDINGS_PYTHON_ARRAYTYPES_H

#include "mpc/Runtime/TensorType.h"

#include <nanobind/ndarray.h>

#include <optional>
#include <string_view>

namespace mpc::python {

/// Returns the element type for a DLPack type; nullopt if unsupported.
std::optional<ElementType> elementOf(nanobind::dlpack::dtype type);
/// Returns the element type for its name in NumPy, PyTorch, CuPy and JAX:
/// "float32".
std::optional<ElementType> elementNamed(std::string_view name);

/// The inverses. They throw for types that arrays do not have.
nanobind::dlpack::dtype dlpackType(ElementType element);
const char *arrayTypeName(ElementType element);
/// Returns a numpy.dtype; ml_dtypes' for bfloat16.
nanobind::object numpyType(ElementType element);

/// Returns true if the array is row-major without gaps.
bool isContiguous(const nanobind::ndarray<nanobind::ro> &array);

} // namespace mpc::python

#endif // MPC_LIB_BINDINGS_PYTHON_ARRAYTYPES_H
