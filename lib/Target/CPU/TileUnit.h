//===- TileUnit.h - registers that hold matrices ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// AMX, instruction by instruction. Which register holds what is the caller's
// choice, not that of a register allocator: a kernel that holds its sums in
// tiles for all of K leaves none to spare, and one function has blocks of
// several shapes, for which the allocator has one configuration. The same calls
// write the arithmetic that Intel's manual gives for each instruction, over
// registers in memory, where the unit is emulated.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CPU_TILEUNIT_H
#define MPC_LIB_TARGET_CPU_TILEUNIT_H

#include "../Kernel/IndexMath.h"
#include "MicroKernel.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <map>
#include <utility>

namespace mpc {

/// What a tile register holds.
struct TileShape {
  int64_t rows = 0, rowBytes = 0;
  auto operator<=>(const TileShape &) const = default;
};
/// Those of all registers, from number 0 on.
using TileShapes = std::vector<TileShape>;

/// Part of a one-dimensional memref: rows at a distance of `pitch` elements
/// from `offset` on.
struct TileMemory {
  mlir::Value memory, offset;
  int64_t pitch = 0;
};

/// What words of rows and columns hold, and what multiplies them.
enum class TileFactors {
  Bf16,             ///< two numbers; TDPBF16PS
  F16,              ///< TDPFP16PS
  SignedSigned,     ///< four bytes, both sides' with a sign; TDPBSSD
  SignedUnsigned,   ///< TDPBSUD
  UnsignedSigned,   ///< TDPBUSD
  UnsignedUnsigned, ///< TDPBUUD
};

class TileUnit {
public:
  static constexpr int64_t kRegisters = 8, kRows = 16, kRowBytes = 64;

  /// For code in `impl` that `builder` writes.
  TileUnit(mlir::OpBuilder &builder, mlir::func::FuncOp impl, bool isEmulated);

  /// Sets the shapes of registers, whose contents are lost (LDTILECFG).
  void configure(const TileShapes &shapes);
  /// TILEZERO.
  void zero(int64_t tile);
  /// TILELOADD or, of memory that is read once while other tiles stay near,
  /// TILELOADDT1.
  void load(int64_t tile, const TileMemory &from, bool isStreamed = false);
  /// TILESTORED.
  void store(int64_t tile, const TileMemory &to);
  /// Adds rows times columns to sums, which are f32 or, of bytes, i32.
  void multiply(TileFactors factors, int64_t sums, int64_t rows,
                int64_t columns);

  /// Writes what `configure` asked for, once for the whole function where all
  /// ask for the same, and gives the registers back behind it (TILERELEASE).
  /// After the last of the calls above.
  void finish();

private:
  void instruction(llvm::StringRef name, mlir::ValueRange operands);
  mlir::Value number(int64_t tile);
  mlir::Value address(mlir::Value memory, mlir::Value offset);
  mlir::Value bytesBetween(const TileMemory &part);
  mlir::Value configurationOf(const TileShapes &shapes);
  void loadConfiguration(const TileShapes &shapes);

  // Of the emulation.
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
  bool isEmulated;
  std::map<TileShapes, mlir::Value> configurations;
  /// In front of it, and behind the registers, stands what is done once.
  mlir::Operation *start;
  /// Where `configure` was called.
  std::vector<std::pair<mlir::Operation *, TileShapes>> marks;
  /// The emulation's registers, as words, and its configuration.
  mlir::Value registers, current;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_CPU_TILEUNIT_H
