//===- Decoding.h - decoders of a model -------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_BINDINGS_PYTHON_DECODING_H
#define MPC_LIB_BINDINGS_PYTHON_DECODING_H

#include <nanobind/nanobind.h>

namespace mpc::python {

/// Adds what mpc.Decoder stands on: Decoder, Sequence and Sampler of the C++
/// API. Their calls run without the interpreter's lock.
void addDecoding(nanobind::module_ &module);

} // namespace mpc::python

#endif // MPC_LIB_BINDINGS_PYTHON_DECODING_H
