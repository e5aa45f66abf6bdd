//===- AmxTiles.h - AMX tile instructions -----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// AMX, instruction by instruction, with explicit tile registers instead of
// register allocation: a kernel with accumulators in tiles for all of K leaves
// no spare tile, and a function has blocks of several shapes, whereas the
// allocator supports one configuration. Where the unit is emulated, the same
// calls emit the arithmetic of Intel's manual on registers in memory.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CPU_AMXTILES_H
#define MPC_LIB_TARGET_CPU_AMXTILES_H

#include "../Kernel/MathExpansion.h"
#include "MicroKernel.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <map>
#include <utility>

namespace mpc::cpu {

/// Shape of a tile register.
struct TileShape {
  int64_t rows = 0, rowBytes = 0;
  auto operator<=>(const TileShape &) const = default;
};
/// Shapes of all registers, from register 0 on.
using TileShapes = std::vector<TileShape>;

/// Part of a one-dimensional memref: rows at a pitch of `pitch` elements from
/// `offset` on.
struct TileMemory {
  mlir::Value memory, offset;
  int64_t pitch = 0;
};

/// Types of the row and column words, and the instruction.
enum class AmxOperandTypes {
  Bf16,             ///< two bf16; TDPBF16PS
  F16,              ///< TDPFP16PS
  SignedSigned,     ///< four bytes, both signed; TDPBSSD
  SignedUnsigned,   ///< TDPBSUD
  UnsignedSigned,   ///< TDPBUSD
  UnsignedUnsigned, ///< TDPBUUD
};

class AmxTiles {
public:
  static constexpr int64_t kRegisters = 8, kRows = 16, kRowBytes = 64;

  /// Emits code into `impl` with `builder`.
  AmxTiles(mlir::OpBuilder &builder, mlir::func::FuncOp impl, bool isEmulated);

  /// Sets the shapes of registers, which clears them (LDTILECFG).
  void configure(const TileShapes &shapes);
  /// TILEZERO.
  void zero(int64_t tile);
  /// TILELOADD or, for streamed memory that should not displace other tiles,
  /// TILELOADDT1.
  void load(int64_t tile, const TileMemory &from, bool isStreamed = false);
  /// TILESTORED.
  void store(int64_t tile, const TileMemory &to);
  /// Adds rows times columns to the accumulators, f32 or, for bytes, i32.
  void multiply(AmxOperandTypes factors, int64_t sums, int64_t rows,
                int64_t columns);

  /// Emits the configurations requested by `configure`, once per function if
  /// all are equal, and releases the registers afterwards (TILERELEASE). Call
  /// after all of the above.
  void finish();

private:
  void instruction(llvm::StringRef name, mlir::ValueRange operands);
  mlir::Value number(int64_t tile);
  mlir::Value address(mlir::Value memory, mlir::Value offset);
  mlir::Value bytesBetween(const TileMemory &part);
  mlir::Value configurationOf(const TileShapes &shapes);
  void loadConfiguration(const TileShapes &shapes);

  // Emulation.
  void multiplyFloats(bool isF16, int64_t sums, int64_t rows, int64_t columns);
  void multiplyBytes(OperandSigns signs, int64_t sums, int64_t rows,
                     int64_t columns);
  std::pair<mlir::Value, mlir::Value> factorsAt(int64_t rows, mlir::Value row,
                                                int64_t columns, mlir::Value k);
  mlir::Value configured(int64_t at, int64_t bytes);
  mlir::Value rowsOf(int64_t tile);
  mlir::Value wordsOf(int64_t tile);
  mlir::Value word(int64_t tile, mlir::Value row, mlir::Value column);
  mlir::Value wordAddress(const TileMemory &part, mlir::Value row,
                          mlir::Value column);
  void
  forWords(int64_t tile,
           llvm::function_ref<void(mlir::Value row, mlir::Value column)> body);

  mlir::OpBuilder &b;
  mlir::Location loc;
  mlir::func::FuncOp impl;
  IndexMath math;
  ValueMath values;
  bool isEmulated;
  std::map<TileShapes, mlir::Value> configurations;
  /// Insertion point of one-time code, after the registers.
  mlir::Operation *start;
  /// Positions of the `configure` calls.
  std::vector<std::pair<mlir::Operation *, TileShapes>> marks;
  /// The emulation's registers, as words, and its configuration.
  mlir::Value registers, current;
};

} // namespace mpc::cpu

#endif // MPC_LIB_TARGET_CPU_AMXTILES_H
