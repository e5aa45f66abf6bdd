//===- TargetInfo.h - compilation target ------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TARGET_TARGETINFO_H
#define MPC_TARGET_TARGETINFO_H

#include "mpc/Policy/Policy.h"
#include "mpc/Target/MachineDescription.h"

#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>

namespace mpc {

/// Returns the unit type that multiplies a policy type: bf16 for the bf16-split
/// modes.
MathType mathTypeOf(PolicyType type);

/// A compilation target: an immutable value, parsed once, cheap to copy, with a
/// machine description of static lifetime. Holds no policy.
class TargetInfo {
public:
  /// "cpu:avx512", the default in documentation and tests.
  TargetInfo();

  /// Parses "cpu:LEVEL" (amxfp16, amx, avx512bf16, avx512vnni, avx512, avxvnni,
  /// avx2), "cuda:sm_XX", XX from 60 to 121 with an optional letter suffix, and
  /// "cpu" or "cpu:native" for `native`; returns nullopt if unknown.
  static std::optional<TargetInfo> parse(llvm::StringRef text);
  /// Returns "is none of cpu:avx2, ..." to follow an unknown target in a
  /// diagnostic; lists only the family's targets if the family is known.
  static std::string describeUnknown(llvm::StringRef text);
  /// Names of all CPU levels and GPU architectures, weakest first.
  static llvm::SmallVector<llvm::StringRef> names();
  /// Returns the best level of this machine with code generation, or nullopt if
  /// no level is supported.
  static std::optional<TargetInfo> native();
  /// Levels with code generation that this machine can run, weakest first.
  static std::vector<TargetInfo> runnable();

  /// Returns true if this machine can run code for this CPU level.
  bool runsHere() const;
  /// Returns this target with reproducible results, "cpu:avx2-reproducible";
  /// nullopt if its kernels have no canonical order of sums.
  std::optional<TargetInfo> reproducible() const;

  /// Name in `--target` syntax, with the architecture suffix: "cuda:sm_90a".
  const std::string &name() const { return spelling; }
  /// Part before the colon: "cpu", "cuda".
  llvm::StringRef family() const;
  /// Part after the colon: "avx512", "sm_90a".
  llvm::StringRef member() const;
  bool isGpu() const { return described->computeCapability != 0; }
  const MachineDescription &facts() const { return *described; }
  const KernelCapabilities &kernels() const { return described->kernels; }

  /// Unit that multiplies a type; null if it is upconverted to f32.
  const MathUnit *unit(MathType type) const;
  const MathUnit *unit(PolicyType type) const { return unit(mathTypeOf(type)); }
  /// Returns true if contractions of this type are faster than float32, or are
  /// float32. Float64 counts if it has at least half the rate of float32.
  bool hasFastPath(PolicyType type) const;
  /// Policy types with a fast path, widest first.
  llvm::SmallVector<PolicyType> fastTypes() const;

  /// Preferred alignment of contraction extents, in elements; 1: none.
  int64_t multiple(PolicyType type) const { return multiple(mathTypeOf(type)); }
  int64_t multiple(MathType type) const;

  /// Whether the rates below are known; else they are all 0.
  bool hasCeilings() const { return described->bandwidth > 0; }
  /// Rate of a large contraction, in operations per second, per core of a CPU.
  /// Not `aligned`: an extent is not a multiple of `multiple`.
  double flopsPerSecond(PolicyType type, bool aligned) const;
  double flopsPerSecond(MathType type, bool aligned) const;
  /// Bandwidth of a large copy, in bytes per second; `aligned` as above.
  double bytesPerSecond(bool aligned = true) const;
  /// Cost of one more kernel in a program, in seconds.
  double launchSeconds() const { return described->launchSeconds; }

  bool operator==(const TargetInfo &other) const {
    return spelling == other.spelling;
  }
  friend llvm::hash_code hash_value(const TargetInfo &target) {
    return llvm::hash_value(target.spelling);
  }

private:
  TargetInfo(const MachineDescription &facts, std::string spelling)
      : described(&facts), spelling(std::move(spelling)) {}

  const MachineDescription *described;
  std::string spelling;
};

} // namespace mpc

#endif // MPC_TARGET_TARGETINFO_H
