//===- Arrays.h - arrays of Python and buffers ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// NumPy, PyTorch, JAX and whatever else speaks DLPack or the buffer protocol.
// Bytes are shared in both directions where they lie in order.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_BINDINGS_PYTHON_ARRAYS_H
#define MPC_LIB_BINDINGS_PYTHON_ARRAYS_H

#include "mpc/Runtime/Buffer.h"

#include <nanobind/nanobind.h>

#include <memory>
#include <string>

namespace mpc::python {

/// Whose arrays a call gets and gives. CuPy's lie on a GPU alone.
enum class Framework { NumPy, PyTorch, Jax, CuPy };

class Gpu;

/// A result whose memory arrays share. It is unique while none does, nor what
/// was made of one.
struct SharedResult {
  std::shared_ptr<Buffer> buffer;
  /// The GPU on which it lies; null for host memory.
  std::shared_ptr<Gpu> gpu;

  bool isUnique() const { return buffer.use_count() == 1; }
};

/// The framework of `object`; NumPy for all that are none of the others.
Framework frameworkOf(nanobind::handle object);

/// A tensor of PyTorch as DLPack may have it: without a graph of gradients, its
/// values those that lie in its memory.
nanobind::object plainTensor(nanobind::object tensor);

/// Of numbers of Python and lists of them, which have no type of their own, an
/// array of `element`, where that holds such numbers; else `object`, or its
/// array. With the interpreter's lock.
nanobind::object numbersAs(nanobind::handle object, ElementType element,
                           const std::string &input);

/// A buffer with the elements of `object`: its own bytes, which it is kept
/// alive for, where they are contiguous and aligned to an element, else a copy;
/// of a SharedResult its buffer.
/// `input` names it in errors. An array on a GPU is refused. With the
/// interpreter's lock.
Buffer toBuffer(nanobind::handle object, const std::string &input);

/// An array of `framework` over the bytes of `buffer`, in host memory, or of
/// `result`, which it keeps alive. With the interpreter's lock.
nanobind::object toArray(Buffer buffer, Framework framework);
nanobind::object toArray(const SharedResult &result, Framework framework);

} // namespace mpc::python

#endif // MPC_LIB_BINDINGS_PYTHON_ARRAYS_H
