//===- ContractionEmitter.h - what kernels of products share ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel around one contraction: operands brought into the form that the
// micro-kernel reads, sums that wait in memory where the depth is cut, and sums
// carried through the epilogue to the outputs. The schedule says how; emitters
// decide nothing.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CPU_CONTRACTIONEMITTER_H
#define MPC_LIB_TARGET_CPU_CONTRACTIONEMITTER_H

#include "../Kernel/ElementEmitter.h"
#include "../Kernel/StoredResults.h"
#include "ContractionShape.h"
#include "KernelEmitters.h"
#include "TileUnit.h"

#include "mpc/Dialect/Tile/IR/TileOps.h"

namespace mpc {

/// The rows of one block of a RowSplit whose number is known at run time.
class BlockRows {
public:
  BlockRows(const IndexMath &math, const RowSplit &split, mlir::Value block);

  mlir::Value first() const { return firstRow; }
  mlir::Value count() const { return choose(split.rows + 1, split.rows); }
  /// `ofLarge` where the block has a row more, else `ofOthers`.
  mlir::Value choose(int64_t ofLarge, int64_t ofOthers) const;
  /// Runs `body` with the number of rows, in a branch where sizes differ.
  void with(llvm::function_ref<void(int64_t rows)> body) const;

private:
  IndexMath math;
  RowSplit split;
  mlir::Value firstRow;
  /// Whether the block has a row more; null where all are alike.
  mlir::Value isLarge;
};

/// A kernel, the function to fill and what is known of the contraction;
/// `blocks` has passed checkBlocks.
struct ContractionKernel {
  mlir::func::FuncOp kernel, impl;
  Contraction contraction;
  tile::BlocksAttr blocks;
};

/// The kernel that is written, open to its parts. Failures are remembered in
/// `status`; values that could not be emitted are zeros.
class ContractionEmitter {
public:
  explicit ContractionEmitter(const ContractionKernel &kernel);
  virtual ~ContractionEmitter() = default;

  mlir::FailureOr<int64_t> run();

  /// Sets up memory, and says `items` and `cyclesPerItem`.
  virtual void prepare() = 0;
  virtual void emitItem(mlir::Value item) = 0;
  /// One of `laterItems`, which begin when all others have ended.
  virtual void emitLaterItem(mlir::Value item) {}

  //===--------------------------------------------------------------------===//
  // Values and memory
  //===--------------------------------------------------------------------===//

  /// The memref in which `tensor` lies: a kernel argument or a reshape of one;
  /// null for computed tensors. Reshapes keep the argument's memref type.
  mlir::Value memoryOf(mlir::Value tensor) const;
  /// An emitter that knows the kernel's arguments.
  ElementEmitter makeEmitter();
  /// `value`, of type `element` and carried as by ElementEmitter, converted to
  /// the type of sums.
  mlir::Value toSumType(mlir::Value value, mlir::Type element);
  /// `lanes` elements of `tensor` at `indices` in the type of sums, the term
  /// that is packed of them (forTerms).
  mlir::Value load(mlir::Value tensor, mlir::ValueRange indices, int64_t lanes);
  /// The same of whole factors.
  mlir::Value loadWhole(mlir::Value tensor, mlir::ValueRange indices,
                        int64_t lanes);
  /// The term that is packed of factors in the type of sums: themselves where
  /// they have no terms.
  mlir::Value termOf(mlir::Value factors);
  /// Runs `body` for each term of factors, with what lies between its plane and
  /// the first one where planes have `plane` elements.
  void forTerms(int64_t plane,
                llvm::function_ref<void(mlir::Value offset)> body);
  /// The bits of factors in the type of sums that are bf16 numbers, or narrow
  /// integers.
  mlir::Value patternsOf(mlir::Value values);
  /// What lanes multiply in the step that begins at position `k`, of factors in
  /// the type of sums: themselves, or words with those of the next positions
  /// above, zeros behind `count` of them.
  mlir::Value wordsOf(mlir::Value k, int64_t count,
                      llvm::function_ref<mlir::Value(mlir::Value k)> factors);
  /// Stores a value of the type of sums, scalar or vector, as it is or, in
  /// memory of narrower integers, as bit patterns; words in memory of i32.
  void store(mlir::Value value, mlir::Value memory, mlir::Value at);
  void storeZeros(mlir::Value memory, mlir::Value at, int64_t lanes) {
    storeNumbers(0, memory, at, lanes);
  }
  /// An integer in integer memory, else zero, `lanes` times.
  void storeNumbers(int64_t number, mlir::Value memory, mlir::Value at,
                    int64_t lanes);
  /// Copies `lanes` elements at `indices` to `memory[at]`.
  void copyRun(mlir::Value tensor, mlir::ValueRange indices, int64_t lanes,
               mlir::Value memory, mlir::Value at) {
    store(load(tensor, indices, lanes), memory, at);
  }
  /// Runs `body` at `count` positions: a loop over vectors of `most` lanes,
  /// then the rest in powers of two, since nothing may be written behind it.
  void forRuns(int64_t count, int64_t most,
               llvm::function_ref<void(mlir::Value at, int64_t lanes)> body);
  /// The rest alone, unrolled, of less than `most` or more.
  void forPowers(int64_t count, int64_t most,
                 llvm::function_ref<void(int64_t at, int64_t lanes)> body);

  /// The next elements of scratch memory.
  mlir::Value area(int64_t elements, mlir::Type type);
  /// Elements in the type of sums that all calls share; asked for once.
  mlir::Value sharedArea(int64_t elements);
  /// Elements in the type of sums on the stack.
  mlir::Value stack(int64_t elements);
  /// An operand that is read where it lies, one-dimensional, in `type`, which
  /// is its own or stands for bits of it.
  mlir::Value inPlace(mlir::Value tensor, mlir::Type type) {
    return asBits(memoryOf(tensor), type);
  }
  /// The same of memory.
  mlir::Value asBits(mlir::Value memory, mlir::Type type);

  //===--------------------------------------------------------------------===//
  // Panels
  //===--------------------------------------------------------------------===//

  /// Positions [begin, end) of group number `group` of `each`, of `all`.
  struct Range {
    mlir::Value begin, end;
  };
  Range groupOf(mlir::Value group, int64_t each, int64_t all);
  /// What an item has where the schedule says `each` (0: all) of `all`.
  static int64_t perItem(int64_t each, int64_t all) {
    return each ? std::min(each, all) : all;
  }
  /// The group that panel `number` is of, and its first column of the result.
  mlir::Value groupOfPanel(mlir::Value number) const {
    return math.div(number, panelsOfGroup);
  }
  mlir::Value firstColumn(mlir::Value number) const;
  /// Runs `body` with the columns that panel `number` has, in a branch where
  /// the last of a group has fewer than others.
  void withColumns(mlir::Value number,
                   llvm::function_ref<void(int64_t used)> body) const;
  /// The same where `extent` columns lie in panels of `columns`.
  void withColumns(mlir::Value number, int64_t extent, int64_t columns,
                   llvm::function_ref<void(int64_t used)> body) const;

  /// Leading indices of a tensor for a row.
  using Indices =
      llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value row)>;
  /// Copies `rowCount` rows of `extent` elements, from `first` on, along the
  /// last dimension of `tensor` to `memory[offset + row * pitch]`.
  void packRows(mlir::Value tensor, Indices indices, mlir::Value rowCount,
                mlir::Value first, int64_t extent, mlir::Value memory,
                mlir::Value offset, int64_t pitch);
  /// Copies `rowCount` rows of `extent` elements that are neighbours across
  /// rows to `memory[offset + row * pitch]`: `values(row, k, lanes)` gives
  /// those of position k of so many rows.
  void
  packRowsAcross(int64_t rowCount, int64_t extent, mlir::Value memory,
                 mlir::Value offset, int64_t pitch,
                 llvm::function_ref<mlir::Value(mlir::Value row, mlir::Value k,
                                                int64_t lanes)>
                     values);
  /// Runs `body` for each step of `count` positions, `first` the step's first
  /// one of `positions`.
  void forSteps(int64_t count,
                llvm::function_ref<void(mlir::Value step, mlir::Value first,
                                        int64_t positions)>
                    body);
  /// Packs panel number `number` of the last two dimensions of `tensor`, `[K,
  /// N]` or with `transposed` `[N, K]`, to `memory[offset + step * columns]`,
  /// for `count` k from `first` on. `leading` are the indices of the other
  /// dimensions.
  void packPanel(mlir::Value tensor, mlir::ValueRange leading, bool transposed,
                 mlir::Value number, int64_t columns, mlir::Value first,
                 int64_t count, mlir::Value memory, mlir::Value offset);
  /// Packs `count` k from `first` on of all `numbers` panels: panel after panel
  /// of `steps` steps, from `offset` on. `inOrder`: what a line of an operand
  /// that is not transposed has goes to all of them before the next is read.
  void packPanels(mlir::Value tensor, mlir::ValueRange leading, Range numbers,
                  mlir::Value first, int64_t count, mlir::Value memory,
                  mlir::Value offset, int64_t steps, bool inOrder);
  /// Packs columns whose elements along k are neighbours, into words of steps
  /// of `depth`: `values(n, k, lanes)` gives those of column n, one by
  /// one if not `asVectors`, and `place(step)` is where a step stands.
  void packColumns(int64_t columns, int64_t count, int64_t depth,
                   bool asVectors, mlir::Value memory, mlir::Value offset,
                   llvm::function_ref<mlir::Value(mlir::Value n, mlir::Value k,
                                                  int64_t lanes)>
                       values,
                   llvm::function_ref<mlir::Value(mlir::Value step)> place);

  /// Packs the terms of `count` positions of panel `number` of the constant
  /// right side, which lies in panels of whole factors, to `panel.memory[offset
  /// + step * columns]`. `first` is the first of all positions that a panel of
  /// the constant has, with those that its last steps lack.
  void packStoredPanel(mlir::Value number, mlir::Value first, int64_t count,
                       mlir::Value offset);
  /// Interleaves: vectors[i][j] becomes result[j][i]. As many vectors as lanes,
  /// a power of two.
  llvm::SmallVector<mlir::Value> transposed(mlir::ValueRange vectors);

  //===--------------------------------------------------------------------===//
  // Sums
  //===--------------------------------------------------------------------===//

  /// Whether sums wait in scratch memory while the depth is gone through.
  bool keepsSums() const { return blocks.getChunk() != 0; }
  /// Sets up memory for one tile of sums on the stack or, where they wait,
  /// `tiles` in scratch.
  void prepareSums(int64_t elements, int64_t tiles);
  void clearSums();
  /// Sums that wait, from `at` on.
  mlir::Value loadSums(mlir::Value at, mlir::VectorType type);
  /// The memory of the kernel's one output where sums go there as they are;
  /// else null.
  mlir::Value plainResult() const;
  /// A block whose rows begin at `offsets`.
  SumBlock blockOf(llvm::ArrayRef<int64_t> offsets, int64_t vectors) const {
    return {sumType,
            contraction.unit,
            lanes,
            vectors,
            llvm::SmallVector<int64_t>(offsets),
            contraction.multiplyAddsInFlight,
            contraction.target.emulatesUnits(),
            contraction.signs,
            terms};
  }
  /// Multiplies a block of rows in `memory` with the panel and puts the sums
  /// into the tile `offset`, or adds them to it. A long K of f32 factors
  /// is summed in parts, which is more exact.
  void multiply(llvm::ArrayRef<int64_t> rowOffsets, int64_t vectors,
                mlir::Value memory, mlir::Value base,
                llvm::ArrayRef<KLoop> loops, mlir::Value offset,
                const RowsAhead &ahead = {});
  /// The parts of K that have running sums of their own; none where all of it
  /// is one.
  std::optional<KParts> partsOfDepth(const SumBlock &block,
                                     llvm::ArrayRef<KLoop> loops) const;
  /// What `tensor`, which has a line for each group of positions, has for each
  /// vector of columns of the narrow panel, as numbers of `type`.
  llvm::SmallVector<mlir::Value> loadOfGroup(mlir::Value tensor,
                                             mlir::Value group, int64_t vectors,
                                             mlir::Type type);
  /// The position `k` as the number of its group.
  mlir::Value narrowGroupOf(mlir::Value k) const;
  /// Memory of the tile of sums that do not wait.
  mlir::Value sumsOfTile() const { return sums; }
  /// The same in parts of K, each with running sums of its own.
  void multiplyParts(const SumBlock &block, mlir::Value memory,
                     mlir::Value base, llvm::ArrayRef<KLoop> loops,
                     KParts parts, mlir::Value offset, const RowsAhead &ahead);
  /// Of a line of the processor's caches.
  static constexpr int64_t kLineBytes = 64;
  /// The cache that memory is asked into, as the locality hint of
  /// memref.prefetch. Of the first, processors wait for some two dozen lines at
  /// once (24 on Zen 4), which is half of what a core's share of memory gives.
  enum class Cache : unsigned { Second = 2, First = 3 };
  /// Asks for the lines of `elements` from `at` on.
  void fetch(mlir::Value memory, mlir::ValueRange at, int64_t elements,
             Cache into = Cache::First);
  /// Asks for `elements` from `first` on of `lines` lines that are wanted some
  /// steps after `line`, of a tensor that lies in memory.
  void fetchLines(mlir::Value tensor, mlir::ValueRange leading,
                  mlir::Value line, int64_t lines, mlir::Value first,
                  int64_t elements);
  /// Asks for what the epilogue will read for `storeSums` of residuals, where
  /// the schedule says so.
  void fetchResiduals(mlir::Value rowCount, Indices indices, mlir::Value column,
                      int64_t used);
  /// Takes `used` columns of each of `rowCount` rows of the tile `offset`
  /// through the epilogue to the outputs. `indices` gives the result's indices
  /// for a row, without the column dimension `columnDim`; columns begin at
  /// `column`.
  void storeSums(mlir::Value offset, mlir::Value rowCount, Indices indices,
                 unsigned columnDim, mlir::Value column, int64_t used);
  /// Sums of a row's products with the numbers of a narrow panel are scaled
  /// when they are complete, and may have become infinite before. Computes
  /// those anew, from weights that are scaled first, of the `used` sums from
  /// `tile[first]` on, of which `positionOf` gives the result's indices.
  void mendOverflow(mlir::Value tile, mlir::Value first, int64_t used,
                    Indices positionOf);
  /// The same from `memory[row * pitch]`.
  void storeTile(mlir::Value memory, int64_t pitch, mlir::Value rowCount,
                 Indices indices, unsigned columnDim, mlir::Value column,
                 int64_t used);

  const Contraction contraction;
  tile::BlocksAttr blocks;
  mlir::Location loc;
  mlir::OpBuilder b;
  IndexMath math;
  ImplArguments arguments;
  mlir::LogicalResult status = mlir::success();

  mlir::Type sumType;
  const int64_t lanes, columns;
  /// Panels of a group of the contraction, of all groups, and of an item.
  const int64_t panelsOfGroup, panels, panelsPerItem, panelGroups;
  Panel panel; // memory is set once, offset per panel
  /// Of factors; planes are set once.
  OperandTerms terms;
  int64_t items = 1, laterItems = 0;
  double cyclesPerItem = 1;
  /// Cycles per item of `flops` of products in all.
  double cyclesOf(double flops) const {
    return flops / (4.0 * lanes * contraction.speedup()) / items;
  }

private:
  mlir::func::FuncOp kernel, impl;
  StoredResults stored;
  std::optional<TileUnit> tiles;
  int64_t scratchBytes = 0, sumsStart = 0, tileElements = 0, sumElements = 0;
  mlir::Value sums;
  /// Two blocks for the sums of terms before they meet.
  mlir::Value spare;
  /// The number of the term that is packed.
  int64_t term = 0;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_CPU_CONTRACTIONEMITTER_H
