//===- SassListing.h - parser of nvdisasm listings --------------*- C++ -*-===//
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

namespace mpc::cuda {

/// Execution unit of an instruction, besides its issue slot.
enum class SassUnit {
  /// Tensor cores: HMMA, IMMA, DMMA, HGMMA, QGMMA.
  Tensor,
  /// Floating-point arithmetic, comparisons and selects.
  Float,
  /// Integers, addresses, moves.
  Integer,
  /// Special function unit and conversions: MUFU, F2F, I2F.
  Special,
  /// Shared memory: LDS, LDSM, STS.
  Shared,
  /// Global memory, including copies to shared memory (LDGSTS).
  Global,
  /// Local memory: register spills.
  Local,
  /// Branches, barriers and everything else.
  Control,
};
inline constexpr size_t kSassUnits = 8;
llvm::StringRef nameOf(SassUnit unit);

/// One SASS instruction.
struct SassInstruction {
  /// Opcode with modifiers: "HMMA.16816.F32.BF16".
  std::string opcode;
  std::string operands;
  /// Fraction of a warp's active lanes; one half in each branch of an if-else.
  double lanes = 1;

  llvm::StringRef base() const;
  bool has(llvm::StringRef modifier) const;
  SassUnit unit() const;
  /// Operations per warp, two per multiply-add; 0 if not a multiplication.
  int64_t flops() const;
  /// K of a wgmma: 16, or 32 for 8-bit floats (QGMMA).
  int64_t warpgroupDepth() const { return base() == "QGMMA" ? 32 : 16; }
  /// N of a wgmma m64nN; 0 if not a wgmma.
  int64_t warpgroupColumns() const;
  /// Bytes per warp between registers (or, for LDGSTS, global memory) and
  /// shared memory.
  int64_t sharedBytes() const;
  /// Bytes per warp that are read and written through L2.
  int64_t loadedBytes() const;
  int64_t storedBytes() const;

private:
  bool isLoad() const;
  /// Bytes per lane.
  int64_t laneBytes() const;
};

/// Instruction mix of a code range, each instruction counted once: a divergent
/// warp executes both branches. Bytes are those of active lanes.
struct SassMix {
  std::array<int64_t, kSassUnits> units = {};
  int64_t flops = 0, barriers = 0;
  double sharedBytes = 0, loadedBytes = 0, storedBytes = 0;
  /// The part of `loadedBytes` that is copied directly to shared memory.
  double copiedBytes = 0;

  int64_t &operator[](SassUnit unit) { return units[size_t(unit)]; }
  int64_t operator[](SassUnit unit) const { return units[size_t(unit)]; }
  int64_t instructions() const;
  void add(const SassInstruction &instruction);
};

/// A range of instructions that ends with a branch to its start.
struct SassLoop {
  size_t begin = 0, end = 0;
  /// Innermost enclosing loop; -1: none.
  int64_t parent = -1;
};

/// The code of one kernel, without the subroutines after the last EXIT:
/// generated kernels call them only for rare operands of a division.
class SassKernel {
public:
  std::string name;
  std::vector<SassInstruction> instructions;
  /// Loops, outer before inner ones.
  std::vector<SassLoop> loops;

  /// Parses the kernels of a listing (nvdisasm -c), in order.
  static std::vector<SassKernel> parse(llvm::StringRef listing);

  /// Returns the mix of loop `loop` without nested loops; -1: outside loops.
  SassMix mixOf(int64_t loop) const;
  /// Returns the loop with the most matrix, else float, multiplications; -1 if
  /// no loop has any.
  int64_t mainLoop() const;
};

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_SASS_SASSLISTING_H
