//===- MicroKernel.h - GEMM micro-kernel ------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Register block of a GEMM (GotoBLAS/BLIS): rows x columns accumulators in
// registers, one broadcast per row and one load per vector of columns, over all
// of K. Shared by matmul, convolution and attention, which differ in the rows'
// addresses and the loops over K. A step of K is what the unit multiplies at
// once: one, two or four positions.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CPU_MICROKERNEL_H
#define MPC_LIB_TARGET_CPU_MICROKERNEL_H

#include "../Kernel/IndexMath.h"

#include "mpc/Target/CPU/CpuTarget.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>

namespace mpc::cpu {

/// Arithmetic unit of a step.
enum class ArithmeticUnit {
  MultiplyAdd, ///< one position, in the accumulator type
  DotBf16,     ///< vdpbf16ps: two positions of bf16, f32 accumulators
  TileBf16,    ///< AMX: tiles of bf16 pairs, f32 accumulators
  DotInt8,     ///< vpdpbusd: four positions, ui8 rows by i8 columns, i32
               ///< accumulators
  PairsInt16,  ///< vpmaddwd: two positions of 8-bit integers, as i16
  PairsInt8,   ///< vpmaddwd twice: four of them, widened in registers
  TileInt8,    ///< AMX: tiles of four 8-bit integers per word, i32 accumulators
  TileF16,     ///< AMX: tiles of f16 pairs, f32 accumulators
  PairsF16,    ///< f16 pairs, upconverted in registers, by multiply-adds
  TileTerms,   ///< AMX: bf16 split of wider operands, f32 accumulators
};

inline bool isTiled(ArithmeticUnit unit) {
  return unit == ArithmeticUnit::TileBf16 || unit == ArithmeticUnit::TileInt8 ||
         unit == ArithmeticUnit::TileF16 || unit == ArithmeticUnit::TileTerms;
}

/// Positions of K in a step.
inline int64_t stepDepth(ArithmeticUnit unit) {
  switch (unit) {
  case ArithmeticUnit::MultiplyAdd:
    return 1;
  case ArithmeticUnit::DotInt8:
  case ArithmeticUnit::PairsInt8:
  case ArithmeticUnit::TileInt8:
    return 4;
  default:
    return 2;
  }
}

/// Signedness of integer operands.
struct OperandSigns {
  bool rows = false, columns = true;
};

/// Split of operands into sums of bf16 (bf16x2, bf16x3): each term is the
/// remainder of the previous ones, rounded to 8 bits, in a plane of its own.
struct Bf16SplitTerms {
  int64_t count = 1;
  /// Whether the terms are exact and all of their products are computed;
  /// otherwise only those of the larger terms.
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

/// Storage of a panel's columns.
enum class PanelForm {
  Plain,     ///< in the accumulator type; for units, words of a step
  Widened,   ///< in a narrower float type, columns in order
  PairsBf16, ///< #mpc.packed with interleave 2
  PairsF16,
  PairsInt8, ///< two positions of i8 in an element of i16, words once widened
  PairsUnsignedInt8,
  Integers, ///< of 8 or 16 bits, columns in order
  Nibbles,  ///< int4, two positions of a column per byte
  Floats8,  ///< codes of 8-bit floats, columns in order
};

/// A packed panel of the right-hand side, `[step][columns]`.
struct Panel {
  mlir::Value memory; ///< one-dimensional; i32 for words
  mlir::Value offset; ///< index of its first element
  mlir::Value number; ///< index among constant panels
  int64_t columns = 0;
  int64_t pitch = 0; ///< elements between steps; 0: the columns
  PanelForm form = PanelForm::Plain;
  /// Whether the panel is streamed while rows stay in cache, or vice versa.
  bool isStreamed = false;
  /// Integers: signedness, and the zero point, common or per vector of columns.
  bool areSigned = false;
  int64_t commonZero = 0;
  llvm::SmallVector<mlir::Value> zeros;
  /// Integers with offsets: `integer * scale + offset`, per vector of columns.
  /// Without offsets the accumulators are scaled instead.
  llvm::SmallVector<mlir::Value> scales, offsets;

  bool isScaled() const {
    return form == PanelForm::Integers || form == PanelForm::Nibbles ||
           form == PanelForm::Floats8;
  }
  /// Elements of memory between steps; half if two steps share them.
  int64_t stepPitch() const {
    return pitch ? pitch : form == PanelForm::Nibbles ? columns / 2 : columns;
  }
};

/// One loop over K, outermost first. The panel is read in order.
struct KLoop {
  int64_t extent = 1;    ///< in steps
  int64_t rowStride = 1; ///< elements between steps in the rows' memory
  /// Positions missing in the last step of the innermost loop: the row's
  /// operands are not read and count as zeros.
  int64_t missing = 0;
  /// Panel steps between iterations of this loop; 0: those of the inner loops.
  int64_t panelSteps = 0;
  /// Iterations [begin, end) that contribute; null: all. Not for the innermost
  /// loop.
  mlir::Value begin = {}, end = {};
};

/// Upconverts `value`, a vector of 16-bit floats, to `wide`; bf16 by its bits:
/// LLVM lowers shuffles of bf16 vectors to calls on machines without bf16.
mlir::Value extendHalves(mlir::OpBuilder &b, mlir::Location loc,
                         mlir::VectorType wide, mlir::Value value);

/// Emits `body` for each contributing step of `loop`.
void forEachStep(const IndexMath &math, const KLoop &loop,
                 llvm::function_ref<void(mlir::Value k)> body);

/// Panel steps between iterations of the first of `loops`.
int64_t panelSteps(llvm::ArrayRef<KLoop> loops);

/// Split of K per accumulator: all positions of the loops after loop `loop`,
/// and `size` iterations of that one.
struct DepthSplits {
  size_t loop;
  int64_t size;
};

/// Steps of K per f32 accumulator: its error grows with them. Of a canonical
/// sum, each segment but the last has as many, if the loops permit.
inline constexpr int64_t kSegmentSteps = 512;

/// Returns splits of at most `longest` steps; nullopt if K is no longer than
/// that. Unless they are `canonical`, they may be shorter for equal lengths.
std::optional<DepthSplits> partsOf(llvm::ArrayRef<KLoop> loops, int64_t longest,
                                   bool canonical);

/// A block of accumulators.
struct RegisterBlock {
  mlir::Type type; ///< accumulator type
  ArithmeticUnit unit = ArithmeticUnit::MultiplyAdd;
  int64_t lanes = 0;
  /// Vectors of columns to compute; the rest of the panel is padding.
  int64_t vectors = 0;
  /// Offset of each row relative to the block's base.
  llvm::SmallVector<int64_t> rowOffsets;
  /// Number of accumulators that hides the latency of a multiply-add.
  int64_t inFlight = 1;
  /// Whether the unit is emulated by its documented arithmetic.
  bool isEmulated = false;
  /// Signs of 8-bit integers.
  OperandSigns signs = {};
  Bf16SplitTerms terms = {};

  int64_t rows() const { return rowOffsets.size(); }
};

/// Vector length for accumulators of `type`.
int64_t vectorLanes(mlir::Type type, const CpuTarget &target);

/// Maximum rows of a block with `vectors` vectors per row that fit in
/// registers.
int64_t maxBlockRows(int64_t vectors, const CpuTarget &target);

/// Memory to prefetch during the block.
struct RowPrefetch {
  mlir::Value begin;  ///< first element, in the rows' memory; or null
  int64_t stride = 0; ///< elements prefetched per step of the last loop
};

/// Emits the products and returns the accumulators, row by row, columns in
/// order. `rows` is one-dimensional memory, `base` the block's offset: of
/// `block.type`, of i32 words for units, or of the operands' bits if the
/// positions of a step are adjacent. `ahead` is prefetched into L2; it may
/// extend past the memory's end.
llvm::SmallVector<mlir::Value>
emitMicroKernel(mlir::OpBuilder &builder, mlir::Location loc,
                const RegisterBlock &block, mlir::Value rows, mlir::Value base,
                const Panel &panel, llvm::ArrayRef<KLoop> loops,
                const RowPrefetch &ahead = {});

/// Stores accumulators row by row at `tile[offset + row * pitch]`, or adds them
/// to the stored values.
void storeSums(mlir::OpBuilder &builder, mlir::Location loc,
               const RegisterBlock &block, mlir::ValueRange sums,
               mlir::Value tile, int64_t pitch, mlir::Value offset,
               bool add = false);

/// Adds to each word of `sum` the dot product of four bytes: unsigned ones of
/// `x` and signed ones of `y`. `isEmulated`: by the documented arithmetic of
/// vpdpbusd.
mlir::Value addDotBytes(mlir::OpBuilder &builder, mlir::Location loc,
                        mlir::Value sum, mlir::Value x, mlir::Value y,
                        bool isEmulated);

class AmxTiles;
struct TileMemory;

/// Both for a unit with tiles. Positions of the last loop are contiguous in
/// memory, in elements of the operands' size. Products of first terms and the
/// others have separate accumulators, which are added after the loops, in two
/// blocks of the pitch of `to` from the start of `spare` on: small numbers are
/// summed first, and a non-finite first sum, which only operands cause, is kept
/// whatever the remainder of an infinity is.
void emitTileKernel(mlir::OpBuilder &builder, mlir::Location loc,
                    AmxTiles &unit, const RegisterBlock &block,
                    mlir::Value rows, mlir::Value base, const Panel &panel,
                    llvm::ArrayRef<KLoop> loops, const TileMemory &to, bool add,
                    mlir::Value spare = {});

/// Splits `extent` rows into blocks of at most `most` rows of almost equal
/// size: the first `larger` blocks have `rows + 1` rows, the others `rows`.
struct RowSplit {
  RowSplit(int64_t extent, int64_t most);
  int64_t blocks, rows, larger;
  int64_t largest() const { return rows + (larger ? 1 : 0); }
};

} // namespace mpc::cpu

#endif // MPC_LIB_TARGET_CPU_MICROKERNEL_H
