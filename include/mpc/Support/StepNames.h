//===- StepNames.h - names of what belongs to a parameter -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_SUPPORT_STEPNAMES_H
#define MPC_SUPPORT_STEPNAMES_H

namespace mpc {

/// A parameter's gradient has the parameter's name and this behind it, in the
/// IR as in an executable.
inline constexpr char kGradientSuffix[] = ".gradient";

/// Likewise its 16-bit copy.
inline constexpr char kCopySuffix[] = ".copy";

/// Likewise the copy in the parameter's own type that every rank has where each
/// updates a piece of the parameter.
inline constexpr char kWholeSuffix[] = ".whole";

} // namespace mpc

#endif // MPC_SUPPORT_STEPNAMES_H
