//===- TargetInfo.h - facts about targets -----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a target has, as data: types with units of their own, extents that they
// want, ceilings. Passes, lint and the tools ask it; it decides nothing.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TARGET_TARGETINFO_H
#define MPC_TARGET_TARGETINFO_H

#include "mpc/Policy/Policy.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>

namespace mpc {

/// Operand types that a matrix unit can have, int8 included, which no policy
/// names.
enum class MathType {
  Float64,
  Float32,
  TensorFloat32,
  BFloat16,
  Float16,
  Float8,
  Int8,
};

/// The unit's type that multiplies in a policy's type: the compute modes of
/// several bf16 products use bf16.
MathType mathTypeOf(PolicyType type);

/// A target that code may be planned for. A value; cheap to copy.
struct TargetInfo {
  enum class Kind { Cpu, Cuda };

  Kind kind = Kind::Cpu;
  /// As `--target` takes it: "cpu:avx512", "cuda:sm_80".
  std::string name;
  /// Ten times the compute capability (80 for 8.0); 0 on a CPU.
  int computeCapability = 0;

  /// Parses "cpu", "cpu:native", "cpu:LEVEL" (amx, avx512bf16, avx512, avx2)
  /// and "cuda:sm_XX", XX from 60 to 121 with or without a letter behind it;
  /// nullopt where the target is unknown. "cpu" and "cpu:native" are the best
  /// level of this machine.
  static std::optional<TargetInfo> parse(llvm::StringRef text);

  /// The names of all CPU levels and architectures, weakest first.
  static llvm::SmallVector<llvm::StringRef> names();

  /// Whether contractions of this type run faster than those of float32, which
  /// itself counts as fast. Double precision counts where it runs at half the
  /// rate of float32 or better.
  bool hasFastPath(PolicyType type) const;
  /// The policy types with a fast path, widest first.
  llvm::SmallVector<PolicyType> fastTypes() const;

  /// What every extent of a contraction should be a multiple of; 1 where any
  /// extent does as well.
  int64_t multiple(PolicyType type) const;
  int64_t multiple(MathType type) const;

  /// Whether the ceilings below are known; where not, they are all 0.
  bool hasCeilings() const;
  /// Rate of a large contraction, one core of a CPU. Not `aligned`: with an
  /// extent that is no multiple.
  double flopsPerSecond(PolicyType type, bool aligned) const;
  double flopsPerSecond(MathType type, bool aligned) const;
  /// Rate of a large copy; not `aligned` as above.
  double bytesPerSecond(bool aligned = true) const;
  /// What one more kernel costs inside a program.
  double launchSeconds() const;
};

} // namespace mpc

#endif // MPC_TARGET_TARGETINFO_H
