//===- ArrayConversion.h - Python arrays and buffers ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// NumPy, PyTorch, JAX and everything else with DLPack or the buffer protocol.
// Zero-copy in both directions if the array is contiguous.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_BINDINGS_PYTHON_ARRAYCONVERSION_H
#define MPC_LIB_BINDINGS_PYTHON_ARRAYCONVERSION_H

#include "mpc/Runtime/Buffer.h"

#include <nanobind/nanobind.h>

#include <memory>
#include <string>

namespace mpc::python {

/// Framework of a call's arrays. CuPy's are on a GPU only.
enum class Framework { NumPy, PyTorch, Jax, CuPy };

class Gpu;

/// A result whose memory arrays may share. Unique while no array, nor anything
/// derived from one, shares it.
struct SharedResult {
  std::shared_ptr<Buffer> buffer;
  /// GPU whose memory it is; null for host memory.
  std::shared_ptr<Gpu> gpu;

  bool isUnique() const { return buffer.use_count() == 1; }
};

/// Returns the framework of `object`; NumPy for all others.
Framework frameworkOf(nanobind::handle object);

/// Returns a PyTorch tensor that DLPack can export: detached from autograd,
/// with lazy operations resolved.
nanobind::object plainTensor(nanobind::object tensor);

/// Converts Python numbers and lists of them, which have no type of their own,
/// to an array of `element` if they fit; otherwise returns `object`, or its
/// array. Needs the GIL.
nanobind::object convertElements(nanobind::handle object, ElementType element,
                                 const std::string &input);

/// Returns a buffer with the elements of `object`: zero-copy, keeping it alive,
/// if they are contiguous and aligned to an element, else a copy; for a
/// SharedResult its buffer. `input` names it in errors. Refuses GPU arrays.
/// Needs the GIL.
Buffer toBuffer(nanobind::handle object, const std::string &input);

/// Returns an array of `framework` over the bytes of a host `buffer`, or of
/// `result`, which it keeps alive. Needs the GIL.
nanobind::object toArray(Buffer buffer, Framework framework);
nanobind::object toArray(const SharedResult &result, Framework framework);

} // namespace mpc::python

#endif // MPC_LIB_BINDINGS_PYTHON_ARRAYCONVERSION_H
