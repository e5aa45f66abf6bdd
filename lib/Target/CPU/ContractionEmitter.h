//===- ContractionEmitter.h - base class of GEMM-like emitters --*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel around one contraction: operands packed for the micro-kernel,
// accumulators in memory if the depth is blocked, and an epilogue that stores
// the outputs. All decisions are in the schedule.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CPU_CONTRACTIONEMITTER_H
#define MPC_LIB_TARGET_CPU_CONTRACTIONEMITTER_H

#include "../Kernel/ContractionEpilogue.h"
#include "../Kernel/ElementEmitter.h"
#include "AmxTiles.h"
#include "ContractionShape.h"
#include "KernelEmitters.h"

#include "mpc/Dialect/Tile/IR/TileOps.h"

namespace mpc::cpu {

/// The rows of one block of a RowSplit, with a block index known at run time.
class BlockRows {
public:
  BlockRows(const IndexMath &math, const RowSplit &split, mlir::Value block);

  mlir::Value first() const { return firstRow; }
  mlir::Value count() const { return choose(split.rows + 1, split.rows); }
  /// Returns `ofLarge` if the block has an additional row, else `ofOthers`.
  mlir::Value choose(int64_t ofLarge, int64_t ofOthers) const;
  /// Emits `body` with the number of rows, per branch if sizes differ.
  void with(llvm::function_ref<void(int64_t rows)> body) const;

private:
  IndexMath math;
  RowSplit split;
  mlir::Value firstRow;
  /// Whether the block has an additional row; null if all sizes are equal.
  mlir::Value isLarge;
};

/// A kernel, the function to fill and the properties of the contraction;
/// `blocks` has passed checkBlocks.
struct ContractionKernel {
  mlir::func::FuncOp kernel, impl;
  Contraction contraction;
  tile::BlocksAttr blocks;
};

/// The kernel under construction. Failures are recorded in `status`; values
/// that could not be emitted are zeros.
class ContractionEmitter {
public:
  explicit ContractionEmitter(const ContractionKernel &kernel);
  virtual ~ContractionEmitter() = default;

  mlir::FailureOr<int64_t> run();

  /// Sets up memory, and sets `items` and `cyclesPerItem`.
  virtual void prepare() = 0;
  virtual void emitItem(mlir::Value item) = 0;
  /// Emits one of `laterItems`, which run after all others.
  virtual void emitLaterItem(mlir::Value item) {}

  //===--------------------------------------------------------------------===//
  // Values and memory
  //===--------------------------------------------------------------------===//

  /// Returns the memref of `tensor`: a kernel argument or a reshape of one;
  /// null for computed tensors. Reshapes keep the argument's memref type.
  mlir::Value memoryOf(mlir::Value tensor) const;
  /// Creates an emitter with the kernel's arguments.
  ElementEmitter makeEmitter();
  /// Emits elements of `tensor` as they are carried.
  mlir::Value elementsOf(mlir::Value tensor, mlir::ValueRange indices,
                         int64_t lanes, mlir::Value mask = {});
  /// Converts `value`, of type `element` as ElementEmitter represents it, to
  /// the accumulator type.
  mlir::Value toSumType(mlir::Value value, mlir::Type element);
  /// Loads `lanes` elements of `tensor` at `indices` in the accumulator type:
  /// the bf16 term being packed (forTerms).
  mlir::Value load(mlir::Value tensor, mlir::ValueRange indices, int64_t lanes);
  /// The same without splitting into terms.
  mlir::Value loadWhole(mlir::Value tensor, mlir::ValueRange indices,
                        int64_t lanes);
  /// Returns the bf16 term being packed of operands in the accumulator type;
  /// the operands themselves if they are not split.
  mlir::Value termOf(mlir::Value factors);
  /// Emits `body` for each bf16 term of the operands, with the offset of its
  /// plane if planes have `plane` elements.
  void forTerms(int64_t plane,
                llvm::function_ref<void(mlir::Value offset)> body);
  /// Returns the bits of values in the accumulator type that are exact bf16, or
  /// narrow integers.
  mlir::Value patternsOf(mlir::Value factors);
  /// Returns the lanes' operands for the step that starts at position `k`, in
  /// the accumulator type: the values themselves, or words that combine them
  /// with those of the next positions, with zeros after `count` positions.
  mlir::Value wordsOf(mlir::Value k, int64_t count,
                      llvm::function_ref<mlir::Value(mlir::Value k)> factors);
  /// Returns words of two f32 operands that are exact in bf16, `second` in the
  /// upper halves; null is zero.
  mlir::Value pairOf(mlir::Value first, mlir::Value second);
  /// Stores a value of the accumulator type, scalar or vector: as it is, as bit
  /// patterns in memory of narrower integers, or words in memory of i32.
  void store(mlir::Value value, mlir::Value memory, mlir::Value at);
  void storeZeros(mlir::Value memory, mlir::Value at, int64_t lanes) {
    storeNumbers(0, memory, at, lanes);
  }
  /// Stores an integer in integer memory, else zero, `lanes` times.
  void storeNumbers(int64_t number, mlir::Value memory, mlir::Value at,
                    int64_t lanes);
  /// Clears elements [from, to) after `memory[at]`, `most` at a time.
  void clear(mlir::Value memory, mlir::Value at, int64_t from, int64_t to,
             int64_t most) {
    forPowers(to - from, most, [&](int64_t n, int64_t run) {
      storeZeros(memory, math.add(at, from + n), run);
    });
  }
  /// Copies `lanes` elements at `indices` to `memory[at]`.
  void copyRun(mlir::Value tensor, mlir::ValueRange indices, int64_t lanes,
               mlir::Value memory, mlir::Value at) {
    store(load(tensor, indices, lanes), memory, at);
  }
  /// Emits `body` for `count` positions: a loop over vectors of `most` lanes,
  /// then the remainder in powers of two, without writing past the end.
  void forRuns(int64_t count, int64_t most,
               llvm::function_ref<void(mlir::Value at, int64_t lanes)> body);
  /// Only the remainder, unrolled.
  void forPowers(int64_t count, int64_t most,
                 llvm::function_ref<void(int64_t at, int64_t lanes)> body);

  /// Allocates the next elements of scratch memory.
  mlir::Value area(int64_t elements, mlir::Type type);
  /// Allocates elements of the accumulator type shared by all calls; at most
  /// once.
  mlir::Value sharedArea(int64_t elements);
  /// Allocates elements of the accumulator type on the stack.
  mlir::Value stack(int64_t elements);
  /// Returns an operand that is read in place, flattened, in `type`, its own or
  /// one of the same bits.
  mlir::Value inPlace(mlir::Value tensor, mlir::Type type) {
    return asBits(memoryOf(tensor), type);
  }
  /// The same for memory.
  mlir::Value asBits(mlir::Value memory, mlir::Type type);

  //===--------------------------------------------------------------------===//
  // Panels
  //===--------------------------------------------------------------------===//

  /// Positions [begin, end) of group `group` of `each`, of `all`.
  struct Range {
    mlir::Value begin, end;
  };
  Range groupOf(mlir::Value group, int64_t each, int64_t all);
  /// Returns the number per item for a schedule of `each` (0: all) of `all`.
  static int64_t perItem(int64_t each, int64_t all) {
    return each ? std::min(each, all) : all;
  }
  /// Returns the group of panel `number`, and its first column of the result.
  mlir::Value groupOfPanel(mlir::Value number) const {
    return math.div(number, panelsOfGroup);
  }
  mlir::Value firstColumn(mlir::Value number) const;
  /// Emits `body` with the number of columns of panel `number`, per branch if
  /// the last panel of a group has fewer.
  void withColumns(mlir::Value number,
                   llvm::function_ref<void(int64_t used)> body) const;
  /// The same for `extent` columns in panels of `columns`.
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
  /// Copies `rowCount` rows of `extent` elements that are contiguous across
  /// rows to `memory[offset + row * pitch]`: `elements(row, k, lanes)` returns
  /// those of position k for `lanes` rows.
  void
  packRowsAcross(int64_t rowCount, int64_t extent, mlir::Value memory,
                 mlir::Value offset, int64_t pitch,
                 llvm::function_ref<mlir::Value(mlir::Value row, mlir::Value k,
                                                int64_t lanes)>
                     elements);
  /// Emits `body` for each step of `count` positions, with the step's first
  /// position and its number of `positions`.
  void forSteps(int64_t count,
                llvm::function_ref<void(mlir::Value step, mlir::Value first,
                                        int64_t positions)>
                    body);
  /// Sets up the memory of panels: packed here, with `terms.panelPlane` set, or
  /// the constant's.
  void preparePanels() {
    panel.memory =
        blocks.packsRight()
            ? area(terms.count * terms.panelPlane, contraction.wordType())
            : inPlace(contraction.stored(), contraction.panelType());
  }
  /// Packs panel `number` of the last two dimensions of `tensor`, `[K, N]` or
  /// with `transposed` `[N, K]`, to `memory[offset + step * columns]`, for
  /// `count` k from `first` on. `leading` are the indices of the other
  /// dimensions.
  void packPanel(mlir::Value tensor, mlir::ValueRange leading, bool transposed,
                 mlir::Value number, int64_t columns, mlir::Value first,
                 int64_t count, mlir::Value memory, mlir::Value offset);
  /// Packs `count` k from `first` on of all `numbers` panels, panel after panel
  /// of `steps` steps, from `offset` on. `inOrder`: a row of an operand that is
  /// not transposed is distributed to all panels before the next row is read.
  void packPanels(mlir::Value tensor, mlir::ValueRange leading, Range numbers,
                  mlir::Value first, int64_t count, mlir::Value memory,
                  mlir::Value offset, int64_t steps, bool inOrder);
  /// Packs columns with contiguous elements along k into words of steps of
  /// `depth`: `elements(n, k, lanes)` returns those of column n, one by one if
  /// not `asVectors`; `place(step)` is the index of a step.
  void packColumns(int64_t columns, int64_t count, int64_t depth,
                   bool asVectors, mlir::Value memory, mlir::Value offset,
                   llvm::function_ref<mlir::Value(mlir::Value n, mlir::Value k,
                                                  int64_t lanes)>
                       elements,
                   llvm::function_ref<mlir::Value(mlir::Value step)> place);

  /// Packs the bf16 terms of `count` positions of panel `number` of the
  /// constant right side, which is stored in unsplit panels, to
  /// `panel.memory[offset + step * columns]`. `first` is the first position in
  /// the constant's panel, counting the padding of its last steps.
  void packStoredPanel(mlir::Value number, mlir::Value first, int64_t count,
                       mlir::Value offset);
  /// Packs the panel `number` of a quantized right side, all of its positions,
  /// to `panel.memory[offset + step * columns]`.
  void dequantizePanel(mlir::Value number, mlir::Value offset);
  /// Returns the numbers of byte `byte` of the words of a quantized right side,
  /// minus their zero points, `zeros` or a common one, times `scale`.
  mlir::Value numbersOfByte(mlir::Value words, int64_t byte, mlir::Value zeros,
                            mlir::Value scale);
  /// Transposes: vectors[i][j] becomes result[j][i]. As many vectors as lanes,
  /// a power of two.
  llvm::SmallVector<mlir::Value> transposed(mlir::ValueRange vectors);

  //===--------------------------------------------------------------------===//
  // Sums
  //===--------------------------------------------------------------------===//

  /// Returns true if accumulators are stored in scratch between chunks of K.
  bool storesAccumulators() const { return blocks.getChunk() != 0; }
  /// Sets up memory for one accumulator tile on the stack or, with chunks of K,
  /// `tiles` in scratch.
  void prepareSums(int64_t elements, int64_t tiles);
  void clearSums();
  /// Loads a vector of stored accumulators, from `at` on.
  mlir::Value loadSums(mlir::Value at) { return math.load(sums, at, lanes); }
  /// Returns the memory of the kernel's only output if accumulators are stored
  /// there unchanged; else null.
  mlir::Value plainResult() const;
  /// Returns a block whose rows start at `offsets`.
  RegisterBlock blockOf(llvm::ArrayRef<int64_t> offsets,
                        int64_t vectors) const {
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
  /// Multiplies a block of rows in `memory` with the panel and stores the
  /// accumulators in the tile `offset`, or adds them to it. A long K of f32
  /// operands is summed in splits, which is more accurate.
  void multiply(llvm::ArrayRef<int64_t> rowOffsets, int64_t vectors,
                mlir::Value memory, mlir::Value base,
                llvm::ArrayRef<KLoop> loops, mlir::Value offset,
                const RowPrefetch &ahead = {});
  /// Returns the splits of K with accumulators of their own; nullopt if there
  /// is only one.
  std::optional<DepthSplits> partsOfDepth(const RegisterBlock &block,
                                          llvm::ArrayRef<KLoop> loops) const;
  /// Loads from `tensor`, which has a row per quantization group, the element
  /// of each vector of columns of the quantized panel, in `type`.
  llvm::SmallVector<mlir::Value> loadOfGroup(mlir::Value tensor,
                                             mlir::Value group, int64_t vectors,
                                             mlir::Type type);
  /// Returns the quantization group of position `k`.
  mlir::Value narrowGroupOf(mlir::Value k) const;
  /// Memory of the accumulator tile, without chunks of K.
  mlir::Value sumsOfTile() const { return sums; }
  /// The same in splits of K, each with accumulators of its own.
  void multiplyParts(const RegisterBlock &block, mlir::Value memory,
                     mlir::Value base, llvm::ArrayRef<KLoop> loops,
                     DepthSplits parts, mlir::Value offset,
                     const RowPrefetch &ahead);
  /// Size of a cache line, in bytes.
  static constexpr int64_t kLineBytes = 64;
  /// Cache level to prefetch into, as the locality hint of memref.prefetch. A
  /// core waits for about two dozen L1 prefetches at once (24 on Zen 4), which
  /// yields half of its memory bandwidth.
  enum class Cache : unsigned { Second = 2, First = 3 };
  /// Prefetches the cache lines of `elements` elements from `at` on.
  void fetch(mlir::Value memory, mlir::ValueRange at, int64_t elements,
             Cache into = Cache::First);
  /// Prefetches `elements` elements from `first` on of `lines` rows, some steps
  /// after `line`, of a stored tensor.
  void fetchLines(mlir::Value tensor, mlir::ValueRange leading,
                  mlir::Value line, int64_t lines, mlir::Value first,
                  int64_t elements);
  /// Prefetches the residuals that the epilogue in `storeSums` will read, if
  /// the schedule says so.
  void prefetchResiduals(mlir::Value rowCount, Indices indices,
                         mlir::Value column, int64_t used);
  /// Applies the epilogue to `used` columns of each of `rowCount` rows of the
  /// tile `offset` and stores the outputs. `indices` returns the result's
  /// indices for a row, without the column dimension `columnDim`; columns start
  /// at `column`.
  void storeSums(mlir::Value offset, mlir::Value rowCount, Indices indices,
                 unsigned columnDim, mlir::Value column, int64_t used);
  /// Accumulators of a quantized panel are scaled only when complete, and may
  /// have overflowed before. Recomputes the non-finite ones with weights scaled
  /// first, among `used` accumulators from `tile[first]` on; `positionOf`
  /// returns the result's indices.
  void recomputeOverflowed(mlir::Value tile, mlir::Value first, int64_t used,
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
  ValueMath values;
  KernelMemory arguments;
  mlir::LogicalResult status = mlir::success();

  mlir::Type sumType;
  const int64_t lanes, columns;
  /// Panels of a group of the contraction, of all groups, and of an item.
  const int64_t panelsOfGroup, panels, panelsPerItem, panelGroups;
  Panel panel; // memory is set once, offset per panel
  /// Terms of the split operands; planes are set once.
  Bf16SplitTerms terms;
  int64_t items = 1, laterItems = 0;
  double cyclesPerItem = 1;
  /// Cycles per item for `flops` floating-point operations in total.
  double cyclesOf(double flops) const {
    return flops / (4.0 * lanes * contraction.speedup()) / items;
  }

private:
  mlir::func::FuncOp kernel, impl;
  ContractionEpilogue stored;
  std::optional<AmxTiles> tiles;
  int64_t scratchBytes = 0, sumsStart = 0, tileElements = 0, sumElements = 0;
  mlir::Value sums;
  /// Two blocks for the accumulators of bf16 terms before they are added.
  mlir::Value spare;
  /// Index of the bf16 term being packed.
  int64_t term = 0;
};

} // namespace mpc::cpu

#endif // MPC_LIB_TARGET_CPU_CONTRACTIONEMITTER_H
