//===- RoundingCasts.h - casts that always round ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_ROUNDINGCASTS_H
#define MPC_DIALECT_MPC_IR_ROUNDINGCASTS_H

#include "llvm/ADT/StringRef.h"

namespace mpc {

/// Attribute of casts between float types that the interpreter rounds in
/// float64, too, where other casts are exact: it then computes what a storage
/// format changes.
inline constexpr llvm::StringLiteral kRoundsAttr = "mpc.rounds";

} // namespace mpc

#endif // MPC_DIALECT_MPC_IR_ROUNDINGCASTS_H
