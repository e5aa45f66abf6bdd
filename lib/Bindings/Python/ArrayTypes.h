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

/// The element type of a buffer that has DLPack's `type`; none where models
/// take none.
std::optional<ElementType> elementOf(nanobind::dlpack::dtype type);
/// The same by the name that NumPy, PyTorch, CuPy and JAX have for it:
/// "float32".
std::optional<ElementType> elementNamed(std::string_view name);

/// The inverses. They throw for what arrays lack.
nanobind::dlpack::dtype dlpackType(ElementType element);
const char *arrayTypeName(ElementType element);
/// A numpy.dtype; that of ml_dtypes for bfloat16.
nanobind::object numpyType(ElementType element);

/// Whether elements lie in the order of their indices without gaps.
bool isContiguous(const nanobind::ndarray<nanobind::ro> &array);

} // namespace mpc::python

#endif // MPC_LIB_BINDINGS_PYTHON_ARRAYTYPES_H
