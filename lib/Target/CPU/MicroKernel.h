//===- MicroKernel.h - the register block of products -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// rows x columns running sums in registers: one broadcast per row, one load per
// vector of columns, whole K in one pass. Matmul, convolution and attention all
// end here; they differ in where the rows stand and how K is walked. A step of
// K is what the unit multiplies at once: one position, a pair or four of them.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CPU_MICROKERNEL_H
#define MPC_LIB_TARGET_CPU_MICROKERNEL_H

#include "../Kernel/IndexMath.h"

#include "mpc/Target/CPU/CpuTarget.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>

namespace mpc {

/// What multiplies and adds a step.
enum class DotUnit {
  MultiplyAdd, ///< one position, in the type of the sums
  DotBf16,     ///< vdpbf16ps: two positions of bf16, f32 sums
  TileBf16,    ///< AMX: tiles of two positions of bf16 in a word, f32 sums
  DotInt8,     ///< vpdpbusd: four positions of ui8 rows by i8 columns, i32 sums
  PairsInt16,  ///< vpmaddwd: two positions of 8-bit integers, as i16
  PairsInt8,   ///< vpmaddwd twice: four of them, widened in registers
  TileInt8,    ///< AMX: tiles of four 8-bit integers in a word, i32 sums
  TileF16,     ///< AMX: tiles of two positions of f16 in a word, f32 sums
  PairsF16,    ///< two of them, widened in registers, by multiply-adds
  TileTerms,   ///< AMX: bf16 terms of wider factors in tiles, f32 sums
};

inline bool isTiled(DotUnit unit) {
  return unit == DotUnit::TileBf16 || unit == DotUnit::TileInt8 ||
         unit == DotUnit::TileF16 || unit == DotUnit::TileTerms;
}

/// Positions of K in a step.
inline int64_t stepDepth(DotUnit unit) {
  switch (unit) {
  case DotUnit::MultiplyAdd:
    return 1;
  case DotUnit::DotInt8:
  case DotUnit::PairsInt8:
  case DotUnit::TileInt8:
    return 4;
  default:
    return 2;
  }
}

/// Which operands are integers with a sign.
struct OperandSigns {
  bool rows = false, columns = true;
};

/// Factors as sums of bf16 numbers: each term is what the ones before it leave,
/// to 8 bits. In memory each stands in a plane of its own.
struct OperandTerms {
  int64_t count = 1;
  /// Whether the terms are the factor and all of their products count, which is
  /// exact; else those of the larger terms.
  bool areAll = false;
  /// Elements between planes, in the memory of rows and of panels.
  int64_t rowPlane = 0, panelPlane = 0;

  int64_t products() const {
    return areAll ? count * count : count * (count + 1) / 2;
  }
  bool hasProduct(int64_t row, int64_t column) const {
    return row < count && column < count && (areAll || row + column < count);
  }
};

/// How a panel stores its columns.
enum class PanelForm {
  Plain,     ///< in the type of the sums; of units words of a step
  Widened,   ///< in a narrower float type, columns in order
  PairsBf16, ///< #mpc.packed with interleave 2
  PairsF16,
  PairsInt8, ///< two positions of i8 in an element of i16, words once widened
  PairsUnsignedInt8,
  Integers, ///< of 8 or 16 bits, columns in order
  Nibbles,  ///< of 4 bits, two positions of a column in a byte
  Floats8,  ///< codes of 8-bit floats, columns in order
};

/// The panel that a block multiplies with, `[step][columns]`.
struct Panel {
  mlir::Value memory; ///< one-dimensional; of words i32
  mlir::Value offset; ///< of its first element
  mlir::Value number; ///< of those that lie in memory as constants
  int64_t columns = 0;
  int64_t pitch = 0; ///< elements between steps; 0: the columns
  PanelForm form = PanelForm::Plain;
  /// Whether it passes by while rows stay near, not the other way round.
  bool isStreamed = false;
  /// Of integers: whether they have a sign, and what stands for zero: one
  /// number, or those of each vector of columns.
  bool areSigned = false;
  int64_t commonZero = 0;
  llvm::SmallVector<mlir::Value> zeros;

  bool isScaled() const {
    return form == PanelForm::Integers || form == PanelForm::Nibbles ||
           form == PanelForm::Floats8;
  }
  /// Elements of memory between steps; half of those that two steps share.
  int64_t stepPitch() const {
    return pitch ? pitch : form == PanelForm::Nibbles ? columns / 2 : columns;
  }
};

/// One loop over a part of K, outermost first. The panel is walked in order.
struct KLoop {
  int64_t extent = 1;    ///< in steps
  int64_t rowStride = 1; ///< elements between steps in the rows' memory
  /// Positions that the last step lacks: the row's factors there are not read
  /// and count as zeros. Of the innermost loop.
  int64_t missing = 0;
  /// Steps of the panel between two of this loop; 0: those of the loops inside.
  int64_t panelSteps = 0;
  /// The steps [begin, end) that count where others would add nothing; null:
  /// all. Not of the innermost loop.
  mlir::Value begin = {}, end = {};
};

/// `value`, a vector of 16-bit floats, in `wide`. Of bf16 by its bits: LLVM
/// makes calls of shuffles of such vectors where the machine has no bf16.
mlir::Value extendHalves(mlir::OpBuilder &b, mlir::Location loc,
                         mlir::VectorType wide, mlir::Value value);

/// Runs `body` for each step of `loop` that counts.
void forEachStep(const IndexMath &math, const KLoop &loop,
                 llvm::function_ref<void(mlir::Value k)> body);

/// Steps of the panel between two of the first of `loops`.
int64_t panelSteps(llvm::ArrayRef<KLoop> loops);

/// K in parts that one running sum takes: all positions of the loops before
/// number `loop`, and of that one `size` at a time.
struct KParts {
  size_t loop;
  int64_t size;
};

/// The parts of at most `longest` steps; none where K is no longer than that.
std::optional<KParts> partsOf(llvm::ArrayRef<KLoop> loops, int64_t longest);

/// A block of sums.
struct SumBlock {
  mlir::Type type; ///< of sums
  DotUnit unit = DotUnit::MultiplyAdd;
  int64_t lanes = 0;
  /// Vectors of columns that are computed; the rest of the panel is padding.
  int64_t vectors = 0;
  /// Where each row begins, relative to the block's base.
  llvm::SmallVector<int64_t> rowOffsets;
  /// Sums in flight that hide the latency of a multiply-add.
  int64_t inFlight = 1;
  /// Whether the arithmetic that the unit documents stands for it.
  bool isEmulated = false;
  /// Of 8-bit integers.
  OperandSigns signs = {};
  OperandTerms terms = {};

  int64_t rows() const { return rowOffsets.size(); }
};

/// Vector length for sums of `type`.
int64_t vectorLanes(mlir::Type type, const CpuTarget &target);

/// Most rows of a block with `vectors` vectors per row that fit in registers.
int64_t maxBlockRows(int64_t vectors, const CpuTarget &target);

/// Memory that is wanted after the block.
struct RowsAhead {
  mlir::Value begin;  ///< the first element, of the rows' memory; or null
  int64_t stride = 0; ///< elements to go on by in each step of the last loop
};

/// Emits the products and returns the sums, row after row, columns in order.
/// `rows` is one-dimensional memory, `base` the block's offset: of
/// `block.type`, or for units of i32 words, or of the bits of factors where the
/// positions of a step are neighbours. `ahead` goes to the second-level cache;
/// it may end behind the memory's end.
llvm::SmallVector<mlir::Value>
emitMicroKernel(mlir::OpBuilder &builder, mlir::Location loc,
                const SumBlock &block, mlir::Value rows, mlir::Value base,
                const Panel &panel, llvm::ArrayRef<KLoop> loops,
                const RowsAhead &ahead = {});

/// Stores sums row after row at `tile[offset + row * pitch]`, or adds them to
/// what is there.
void storeSums(mlir::OpBuilder &builder, mlir::Location loc,
               const SumBlock &block, mlir::ValueRange sums, mlir::Value tile,
               int64_t pitch, mlir::Value offset, bool add = false);

/// Adds to each word of `sum` the products of four bytes: those of `x`, which
/// have no sign, and of `y`, which have one. `isEmulated`: by the arithmetic
/// that vpdpbusd documents.
mlir::Value addDotBytes(mlir::OpBuilder &builder, mlir::Location loc,
                        mlir::Value sum, mlir::Value x, mlir::Value y,
                        bool isEmulated);

class TileUnit;
struct TileMemory;

/// Both of them by a unit with tiles. Positions of the last loop are neighbours
/// in memory, which is of elements of the factors' size. The products of first
/// terms and the other ones have sums of their own, which meet behind the loops
/// in two blocks of the pitch of `to` from the start of `spare` on: so small
/// numbers are added to each other first, and a first sum that is no number,
/// as only factors make it, stands, whatever the rest of an infinity is.
void emitTileKernel(mlir::OpBuilder &builder, mlir::Location loc,
                    TileUnit &unit, const SumBlock &block, mlir::Value rows,
                    mlir::Value base, const Panel &panel,
                    llvm::ArrayRef<KLoop> loops, const TileMemory &to, bool add,
                    mlir::Value spare = {});

/// How `extent` rows are cut into blocks of at most `most` rows of almost equal
/// size: the first `larger` blocks have `rows + 1` rows, the others `rows`.
struct RowSplit {
  RowSplit(int64_t extent, int64_t most);
  int64_t blocks, rows, larger;
  int64_t largest() const { return rows + (larger ? 1 : 0); }
};

} // namespace mpc

#endif // MPC_LIB_TARGET_CPU_MICROKERNEL_H
