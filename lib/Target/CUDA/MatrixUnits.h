//===- MatrixUnits.h - table of matrix units --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// All that code generation knows of the instructions that multiply matrices.
// A new instruction is a row of the table, a function of the prelude and its
// emulation on the host.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_MATRIXUNITS_H
#define MPC_LIB_TARGET_CUDA_MATRIXUNITS_H

#include "Layout.h"
#include "MultiprocessorModel.h"

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"
#include "mpc/Target/CUDA/CudaTarget.h"

namespace mpc::cuda {

/// f32 fused multiply-adds; mma.sync of a warp; wgmma of four warps from shared
/// memory, with the accumulators of mma.sync.
enum class MatrixInstruction { Fma, Mma, Wgmma };

/// Tile of a block, and warps in each direction.
struct BlockTile {
  int64_t m, n, warpsM, warpsN;
};

/// Row and column (k of an operand) of a warp's matrix by lane (two modes) and
/// slot: an element of a word, then a word, then the next matrix.
struct FragmentLayout {
  Layout row, column;
};

/// One row of the table.
struct MatrixUnit {
  llvm::StringLiteral name;
  MatrixInstruction instruction;
  /// Operand type, in the machine description and in the instruction.
  MathType type;
  mlir::Type (*elementType)(mlir::MLIRContext *);
  /// Rows of a warp, and depth of an instruction; columns of a block of
  /// accumulators.
  int64_t m, n, k;
  /// Registers of an instruction's operands, per lane.
  int64_t leftWords, rightWords;
  /// Prelude function, its template argument, and the prelude function that
  /// packs values (f32; elements of 8 bits) into a word.
  llvm::StringLiteral function, argument, pack;
  /// Operations per cycle of a multiprocessor.
  double (MultiprocessorModel::*flops)(MathType) const;
  /// Tiles of a block.
  llvm::ArrayRef<BlockTile> tiles;
  /// Padding of lines across the depth in shared memory against bank conflicts,
  /// in bytes.
  int64_t paddingAcross;
  /// Maximum pipeline stages.
  int64_t stages;

  bool isWgmma() const { return instruction == MatrixInstruction::Wgmma; }
  bool isFma() const { return instruction == MatrixInstruction::Fma; }
  /// Warps of an instruction.
  int64_t warps() const { return isWgmma() ? 4 : 1; }
  /// Operand elements per register of mma.sync.
  int64_t perWord() const { return k / 8; }
  bool isFloat8() const { return type == MathType::Float8; }
  FragmentLayout left() const;
  /// With the next block of columns as the last mode.
  FragmentLayout right() const;
  /// Accumulators of 16 x 8 blocks, of all mma.sync and wgmma.
  static FragmentLayout sums();
};

/// Returns the unit with this instruction and operand type; null if none has.
const MatrixUnit *findMatrixUnit(MatrixInstruction instruction,
                                 mlir::Type type);
/// Returns the mma.sync unit for operands of type `element`, of f32 only if
/// `compute` allows tf32; null if the target has none.
const MatrixUnit *mmaUnit(mlir::Type element, ComputeMode compute,
                          const CudaTarget &target);
const MatrixUnit &fmaUnit();

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_MATRIXUNITS_H
