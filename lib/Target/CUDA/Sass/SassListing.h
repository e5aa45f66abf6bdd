//===- SassListing.h - machine code as nvdisasm prints it -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SASS_SASSLISTING_H
#define MPC_LIB_TARGET_CUDA_SASS_SASSLISTING_H

#include "llvm/ADT/StringRef.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace mpc {

/// What an instruction keeps busy, beside the slot that issues it.
enum class SassUnit {
  /// Multiplies matrices: HMMA, IMMA, DMMA, HGMMA.
  Tensor,
  /// Arithmetic of floats, comparisons and choices among them.
  Float,
  /// Integers, addresses, moves.
  Integer,
  /// Reciprocals, powers, conversions: MUFU, F2F, I2F.
  Special,
  /// Shared memory: LDS, LDSM, STS.
  Shared,
  /// Global memory, also on its way to shared memory (LDGSTS).
  Global,
  /// Local memory: what registers are spilled to.
  Local,
  /// Branches, barriers and everything else.
  Control,
};
inline constexpr size_t kSassUnits = 8;
llvm::StringRef nameOf(SassUnit unit);

/// One instruction.
struct SassInstruction {
  /// With its modifiers: "HMMA.16816.F32.BF16".
  std::string opcode;
  std::string operands;
  /// The part of a warp's lanes that comes here, one half on either side of a
  /// branch.
  double lanes = 1;

  llvm::StringRef base() const;
  bool has(llvm::StringRef modifier) const;
  SassUnit unit() const;
  /// Operations of a warp, as a product counts them: two for a multiply-add; 0
  /// where it does not multiply.
  int64_t flops() const;
  /// Columns of a product of 64 rows by 16 that four warps share; 0: it is
  /// none.
  int64_t warpgroupColumns() const;
  /// Bytes that a warp moves between registers (or, by LDGSTS, the global
  /// memory) and shared memory.
  int64_t sharedBytes() const;
  /// Bytes that a warp reads and writes through the second-level cache.
  int64_t loadedBytes() const;
  int64_t storedBytes() const;

private:
  bool isLoad() const;
  /// Bytes of one lane.
  int64_t laneBytes() const;
};

/// What a stretch of code consists of, each instruction counted once: a warp
/// whose lanes differ runs both sides of a branch. Bytes are those of the lanes
/// that come to an instruction.
struct SassMix {
  std::array<int64_t, kSassUnits> units = {};
  int64_t flops = 0, barriers = 0;
  double sharedBytes = 0, loadedBytes = 0, storedBytes = 0;
  /// Those of `loadedBytes` that go straight to shared memory.
  double copiedBytes = 0;

  int64_t &operator[](SassUnit unit) { return units[size_t(unit)]; }
  int64_t operator[](SassUnit unit) const { return units[size_t(unit)]; }
  int64_t instructions() const;
  void add(const SassInstruction &instruction);
};

/// A range of a kernel's instructions that ends in a branch to its begin.
struct SassLoop {
  size_t begin = 0, end = 0;
  /// The innermost loop around it; -1: none.
  int64_t parent = -1;
};

/// The code of one kernel. Subroutines, which stand behind the last EXIT, are
/// left out: a kernel of ours calls them for the rare operands of a division.
class SassKernel {
public:
  std::string name;
  std::vector<SassInstruction> instructions;
  /// Outer loops before the inner ones.
  std::vector<SassLoop> loops;

  /// The kernels of a listing (nvdisasm -c), in its order.
  static std::vector<SassKernel> parse(llvm::StringRef listing);

  /// What belongs to loop `loop`, and not to a loop inside it; -1: to none.
  SassMix mixOf(int64_t loop) const;
  /// The loop with the most multiplications of matrices, else of floats; -1
  /// where no loop has any.
  int64_t mainLoop() const;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_SASS_SASSLISTING_H
