//===- MachineDescription.h - machine description of a target ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The machine description shared by cost models, passes and kernels: units,
// memories, rates, and the capabilities of a target's kernels. Each folder of
// lib/Target defines its own.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TARGET_MACHINEDESCRIPTION_H
#define MPC_TARGET_MACHINEDESCRIPTION_H

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string>
#include <vector>

namespace mpc {

/// Operand types of matrix units, including int8, which is no policy type.
enum class MathType {
  Float64,
  Float32,
  TensorFloat32,
  BFloat16,
  Float16,
  Float8,
  Int8,
};

/// Tile registers of a unit (AMX); a count of 0: none.
struct TileRegisters {
  int64_t count = 0, rows = 0, rowBytes = 0;
};

/// A matrix unit: multiplies a type faster than f32 on the vector units.
struct MathUnit {
  MathType type;
  /// Alignment of every extent of a contraction, in elements.
  int64_t multiple = 1;
  /// Dense rate of a large contraction, in 1e12 operations per second; 0:
  /// unknown.
  double rate = 0;
  /// Display name: "tensor cores".
  llvm::StringLiteral name = "";
  /// Reduction-dimension elements that one lane multiplies at once.
  int64_t depth = 1;
  /// Whether subnormal operands, accumulators and results are flushed to zero.
  bool flushesSubnormals = false;
  TileRegisters tiles = {};
  /// Number of bf16 values that an operand is split into (bf16x2, bf16x3),
  /// where the unit multiplies all pairs of them; 1: no split.
  int64_t terms = 1;
};

/// Capabilities of a target's kernels, as seen by the passes before code
/// generation.
struct KernelCapabilities {
  /// Whether kernels may recompute a scalar instead of loading it, because
  /// another launch costs more.
  bool recomputesScalars = false;
  /// Whether GEMM and convolution kernels load operands through data movement
  /// ops (slices, transposes, one-hot rows, concatenations) and convert program
  /// inputs to low precision on load. Else operands are packed first.
  bool fusesOperandMovement = false;
  /// Whether int8 GEMM and convolution kernels exist; else int8 operands are
  /// multiplied as floats.
  bool multipliesIntegers = false;
  /// Whether kernels store through reshapes, slices and, for convolutions,
  /// transposes.
  bool fusesResultMovement = false;
  /// Whether GEMM kernels can compute whole rows of their left-hand side
  /// (norms) as a prologue.
  bool hasRowPrologue = false;
  /// Whether kernels with a common input, or a common accumulator, are fused
  /// horizontally.
  bool fusesSiblings = false;
  /// Whether one kernel runs all time steps of a recurrent layer
  /// (PersistentRnnPlan).
  bool hasPersistentRecurrence = false;
  /// Live values of a kernel's shape that fit into a thread's registers; 0:
  /// values are stored in memory.
  int64_t liveValues = 0;
  /// Composite ops with kernels, without "mpc."; fused as a whole.
  std::vector<llvm::StringLiteral> composites;
  /// The subset of `composites` that is decomposed inside its kernel.
  std::vector<llvm::StringLiteral> decomposedComposites;
  /// Returns true if the op of this name ("mpc.attention_gradient") is in
  /// `composites`.
  bool hasCompositeKernel(llvm::StringRef opName) const;
  /// Columns per panel of packed constants in GEMM; 0: constants are not
  /// packed.
  int64_t panelColumns = 0;
  /// Whether separately stored parameters are read as one matrix at no cost.
  bool concatenatesParameters = false;
  /// Whether constant filters are stored in the order of their loads.
  bool choosesFilterLayouts = false;
  /// Whether an update stores its scalars after their last read.
  bool writesScalarsLast = false;
  /// Whether kernels mask remainders at no other cost; padding then does not
  /// help.
  bool masksRemainders = true;
  /// Whether a GEMM that may round f32 operands to tf32 does so.
  bool roundsToTensorFloat32 = false;
  /// Minimum number of bf16 values per f32 operand in a permitted bf16 split;
  /// where f32 is computed instead, it is at least as accurate. 0: such a mode
  /// is an error.
  int64_t minBFloat16SplitValues = 0;
  /// Whether such GEMMs split operands into bf16 values where a unit makes that
  /// faster (TargetInfo::hasFastPath); else they compute f32.
  bool splitsIntoBFloat16 = false;
  /// Whether a library can run GEMMs: `--gemm library`.
  bool hasLibrary = false;
  /// Whether the library's bf16-split f32 GEMM is faster than its f32 GEMM.
  bool libraryEmulatesFloat32 = false;
};

/// A CPU level or GPU architecture. Rates are dense, in 1e12 operations or 1e9
/// bytes per second; 0: unknown.
struct MachineDescription {
  /// Name in `--target` syntax: "cpu:avx512", "cuda:sm_80".
  std::string name;
  /// Whether kernels are generated for it; else only planning is supported.
  bool isGenerated = false;
  /// Whether units are emulated, to test their kernels on any machine. Such
  /// targets are not listed and are never chosen by default.
  bool emulatesUnits = false;
  /// Whether results are reproducible: everything that decides a sum's order or
  /// a rounding is equal to that of all targets of its bit class. Such targets
  /// are not listed either; a policy selects them (TargetInfo::reproducible).
  bool isReproducible = false;
  /// Ten times the compute capability of a GPU (80 for 8.0), else 0.
  int computeCapability = 0;
  /// f32 and f64 rates of the vector units.
  double float32Rate = 0, float64Rate = 0;
  std::vector<MathUnit> units;
  /// Bandwidth of a large copy.
  double bandwidth = 0;
  /// Fraction of rates and bandwidth with misaligned rows.
  double misalignedRateFraction = 1;
  /// Cost of one more kernel in a program, in seconds.
  double launchSeconds = 0;
  /// 32-bit lanes of a vector register, and registers of a core; CPUs only.
  int64_t lanes = 0, registers = 0;
  /// L2 cache per core, in bytes, and multiply-adds in flight per core; CPUs
  /// only.
  int64_t cacheBytes = 0, multiplyAddsInFlight = 0;
  /// Share of a core in the last-level cache, in bytes, and its read bandwidth,
  /// in GB/s; 0 if it is as slow as memory.
  int64_t lastLevelCacheBytes = 0;
  double lastLevelCacheBandwidth = 0;
  /// Alignment of contraction extents for types without a unit, in elements.
  int64_t plainMultiple = 1;
  /// Multiprocessors of the architecture's largest GPU.
  int64_t multiprocessors = 0;
  /// Maximum shared memory per block, in bytes.
  int64_t sharedBytesPerBlock = 0;
  KernelCapabilities kernels;
  /// Multiprocessors of the architecture's smallest GPU: a lower bound on
  /// concurrent blocks.
  int64_t minMultiprocessors = 0;
};

} // namespace mpc

#endif // MPC_TARGET_MACHINEDESCRIPTION_H
