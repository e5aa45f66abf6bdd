//===- StepNames.h - names derived from a parameter -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_SUPPORT_STEPNAMES_H
#define MPC_SUPPORT_STEPNAMES_H

namespace mpc {

/// Suffix of a parameter's gradient, in the IR and in executables.
inline constexpr char kGradientSuffix[] = ".gradient";

/// Suffix of its 16-bit copy.
inline constexpr char kCopySuffix[] = ".copy";

/// Suffix of the unsharded copy in the parameter's own type, on every rank, if
/// the optimizer is sharded.
inline constexpr char kWholeSuffix[] = ".whole";

} // namespace mpc

#endif // MPC_SUPPORT_STEPNAMES_H
