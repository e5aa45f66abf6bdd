//===- TargetInfo.h - a target as a value -----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TARGET_TARGETINFO_H
#define MPC_TARGET_TARGETINFO_H

#include "mpc/Policy/Policy.h"
#include "mpc/Target/TargetFacts.h"

#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>

namespace mpc {

/// The unit's type that multiplies in a policy's type: the compute modes of
/// several bf16 products use bf16.
MathType mathTypeOf(PolicyType type);

/// A target that code is planned and, where there is a generator for it, made
/// for. A value that is parsed once; cheap to copy; its facts live as long as
/// the program. Answers questions and decides nothing.
class TargetInfo {
public:
  /// "cpu:avx512", which documents and tests show.
  TargetInfo();

  /// Parses "cpu:LEVEL" (amxfp16, amx, avx512bf16, avx512vnni, avx512, avxvnni,
  /// avx2), "cuda:sm_XX", XX from 60 to 121 with or without a letter behind it,
  /// and "cpu" or "cpu:native" for `native`; nullopt where the target is
  /// unknown.
  static std::optional<TargetInfo> parse(llvm::StringRef text);
  /// "is none of cpu:avx2, ...", to go behind a target that is unknown: those
  /// of its family, where that is known.
  static std::string describeUnknown(llvm::StringRef text);
  /// The names of all CPU levels and architectures, weakest first.
  static llvm::SmallVector<llvm::StringRef> names();
  /// The best level of this machine that code is generated for; nullopt where
  /// it lacks what every level needs.
  static std::optional<TargetInfo> native();
  /// The levels that this machine runs and code is generated for, weakest
  /// first.
  static std::vector<TargetInfo> runnable();

  /// Whether this machine has what code of a CPU's level uses.
  bool runsHere() const;

  /// As `--target` takes it, with the letter that an architecture was given
  /// with: "cuda:sm_90a".
  const std::string &name() const { return spelling; }
  /// What stands before the colon: "cpu", "cuda".
  llvm::StringRef family() const;
  /// What stands behind it: "avx512", "sm_90a".
  llvm::StringRef member() const;
  bool isGpu() const { return described->computeCapability != 0; }
  const TargetFacts &facts() const { return *described; }
  const KernelModel &kernels() const { return described->kernels; }

  /// The unit that multiplies a type; null where it is widened to f32.
  const MathUnit *unit(MathType type) const;
  const MathUnit *unit(PolicyType type) const { return unit(mathTypeOf(type)); }
  /// Whether contractions of this type run faster than those of float32, which
  /// itself counts as fast. Double precision counts where it runs at half the
  /// rate of float32 or better.
  bool hasFastPath(PolicyType type) const;
  /// The policy types with a fast path, widest first.
  llvm::SmallVector<PolicyType> fastTypes() const;

  /// What every extent of a contraction should be a multiple of; 1 where any
  /// extent does as well.
  int64_t multiple(PolicyType type) const { return multiple(mathTypeOf(type)); }
  int64_t multiple(MathType type) const;

  /// Whether the ceilings below are known; where not, they are all 0.
  bool hasCeilings() const { return described->bandwidth > 0; }
  /// Rate of a large contraction in operations per second, one core of a CPU.
  /// Not `aligned`: with an extent that is no multiple.
  double flopsPerSecond(PolicyType type, bool aligned) const;
  double flopsPerSecond(MathType type, bool aligned) const;
  /// Rate of a large copy; not `aligned` as above.
  double bytesPerSecond(bool aligned = true) const;
  /// What one more kernel costs inside a program.
  double launchSeconds() const { return described->launchSeconds; }

  bool operator==(const TargetInfo &other) const {
    return spelling == other.spelling;
  }
  friend llvm::hash_code hash_value(const TargetInfo &target) {
    return llvm::hash_value(target.spelling);
  }

private:
  TargetInfo(const TargetFacts &facts, std::string spelling)
      : described(&facts), spelling(std::move(spelling)) {}

  const TargetFacts *described;
  std::string spelling;
};

} // namespace mpc

#endif // MPC_TARGET_TARGETINFO_H
