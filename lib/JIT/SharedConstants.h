//===- SharedConstants.h - constants of several programs --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The specializations of a model have equal packed weights: interning keeps
// them in memory once.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_JIT_SHAREDCONSTANTS_H
#define MPC_LIB_JIT_SHAREDCONSTANTS_H

#include "llvm/ADT/ArrayRef.h"

#include <memory>

namespace mpc {

/// Returns immutable memory with these bytes, aligned as buffers are: that of
/// an earlier call as long as it is in use, else a copy; null if allocation
/// fails. Thread-safe.
std::shared_ptr<const void> shareConstant(llvm::ArrayRef<char> bytes);

} // namespace mpc

#endif // MPC_LIB_JIT_SHAREDCONSTANTS_H
