//===- DecoderBindings.h - bindings of Decoder ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_BINDINGS_PYTHON_DECODERBINDINGS_H
#define MPC_LIB_BINDINGS_PYTHON_DECODERBINDINGS_H

#include <nanobind/nanobind.h>

namespace mpc::python {

/// Adds the C++ classes that mpc.Decoder uses: Decoder, Sequence and Sampler.
/// Their calls release the GIL.
void addDecoding(nanobind::module_ &module);

} // namespace mpc::python

#endif // MPC_LIB_BINDINGS_PYTHON_DECODERBINDINGS_H
