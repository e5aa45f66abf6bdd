//===- TargetFacts.h - what is known of a target ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The one description of a machine that cost models, passes and kernels share:
// its units, memories and rates, and how kernels are made for it. Each folder
// of lib/Target describes its own.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TARGET_TARGETFACTS_H
#define MPC_TARGET_TARGETFACTS_H

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string>
#include <vector>

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

/// Registers of a unit that hold matrices; a count of 0: there are none.
struct TileRegisters {
  int64_t count = 0, rows = 0, rowBytes = 0;
};

/// A matrix unit: what multiplies a type faster than it would be as f32.
struct MathUnit {
  MathType type;
  /// What every extent of a contraction should be a multiple of.
  int64_t multiple = 1;
  /// Dense rate of a large contraction, in 1e12 operations per second; 0: not
  /// known.
  double rate = 0;
  /// As people call it: "tensor cores".
  llvm::StringLiteral name = "";
  /// Positions along the contracted extent that one lane multiplies at once.
  int64_t depth = 1;
  /// Whether subnormal operands, sums and results count as zeros.
  bool flushesSubnormals = false;
  TileRegisters tiles = {};
  /// Terms of bf16 that an operand is the sum of, where the unit multiplies
  /// those, all with all; 1: operands as they are.
  int64_t terms = 1;
};

/// How kernels of a target are made, as far as it concerns the passes before
/// code generation.
struct KernelModel {
  /// Whether a kernel may compute a scalar anew wherever it needs it: one more
  /// launch costs more.
  bool repeatsScalars = false;
  /// Whether products and convolutions load operands through movements (slices,
  /// transposes, one-hot rows, concatenations) and narrow inputs of the program
  /// as they load them. Else operands are packed first.
  bool mapsOperands = false;
  /// Whether products and convolutions of 8-bit integers have kernels; else
  /// they are multiplied as floats.
  bool multipliesIntegers = false;
  /// Whether kernels store through reshapes, slices and, of convolutions,
  /// transposes.
  bool mapsResults = false;
  /// Whether kernels of products make whole rows of their first operand, as
  /// norms have them, before they multiply.
  bool makesRows = false;
  /// Whether kernels that read the same, or write to the same sums, become one
  /// launch.
  bool joinsSiblings = false;
  /// Whether a kernel walks all steps of a recurrent layer (RecurrencePlan).
  bool keepsStates = false;
  /// Values of a kernel's shape that may be alive at once, in the registers of
  /// a thread; 0: they have memory.
  int64_t liveValues = 0;
  /// Composites that have kernels, without "mpc."; the fuser takes them whole.
  std::vector<llvm::StringLiteral> composites;
  /// Of those, the ones that are taken apart inside their kernel.
  std::vector<llvm::StringLiteral> openComposites;
  /// Whether the op of this name ("mpc.attention_gradient") is one of
  /// `composites`.
  bool takesWhole(llvm::StringRef opName) const;
  /// Columns of the panels in which products read constants; 0: they read rows.
  int64_t panelColumns = 0;
  /// Whether parameters that lie apart are read as one matrix at no cost.
  bool joinsParameters = false;
  /// Whether constant filters are stored in the order of their loads.
  bool storesFilters = false;
  /// Whether an update stores its scalars when nothing reads them any more.
  bool storesScalarsLast = false;
  /// Whether kernels mask what an extent lacks to a multiple and lose nothing
  /// else; padding then gains nothing.
  bool masksEdges = true;
  /// Whether a product that may round its f32 operands to tf32 does so.
  bool roundsToTensorFloat32 = false;
  /// The fewest bf16 terms of f32 operands that products may be permitted to
  /// multiply; what computes f32 then is at least as exact. 0: such a mode is
  /// an error.
  int64_t fewestBFloat16Terms = 0;
  /// Whether such products multiply terms where a unit makes that the faster
  /// way (TargetInfo::hasFastPath); else they compute f32.
  bool splitsIntoBFloat16 = false;
  /// Whether a library takes products: `--gemm library`.
  bool hasLibrary = false;
  /// Whether that library multiplies f32 as bf16 terms faster than f32 itself.
  bool emulatesFloat32 = false;
};

/// A level of a CPU or an architecture of a GPU. Rates are dense, in 1e12
/// operations and 1e9 bytes per second; 0: not known.
struct TargetFacts {
  /// As `--target` takes it: "cpu:avx512", "cuda:sm_80".
  std::string name;
  /// Whether kernels are generated for it; else it can be planned for.
  bool isGenerated = false;
  /// Whether arithmetic stands for its units, so that kernels for them are
  /// tested on any machine. No list of targets names it, and no one gets it
  /// without asking.
  bool emulatesUnits = false;
  /// Ten times the compute capability of a GPU (80 for 8.0), else 0.
  int computeCapability = 0;
  /// Of f32 and f64 on the vector units.
  double float32Rate = 0, float64Rate = 0;
  std::vector<MathUnit> units;
  /// Of a large copy.
  double bandwidth = 0;
  /// What is left of rates and bandwidth where rows start at addresses that the
  /// unit does not want.
  double unalignedPart = 1;
  /// What one more kernel costs inside a program.
  double launchSeconds = 0;
  /// 32-bit lanes of a vector register, and registers of a core; of a CPU.
  int64_t lanes = 0, registers = 0;
  /// Second-level cache of a core, and multiply-adds that it has in flight; of
  /// a CPU.
  int64_t cacheBytes = 0, multiplyAddsInFlight = 0;
  /// What a core has of the last-level cache, and the rate at which it reads
  /// there, in GB/s; 0 where that is as slow as memory.
  int64_t farCacheBytes = 0;
  double farCacheBandwidth = 0;
  /// Extent that contractions of a type without a unit want.
  int64_t plainMultiple = 1;
  /// Multiprocessors of the largest product, to fill a GPU with blocks.
  int64_t multiprocessors = 0;
  /// Shared memory that one block may have.
  int64_t sharedBytesPerBlock = 0;
  KernelModel kernels;
  /// Multiprocessors of the smallest product: as many blocks surely run at
  /// once.
  int64_t fewestMultiprocessors = 0;
};

} // namespace mpc

#endif // MPC_TARGET_TARGETFACTS_H
