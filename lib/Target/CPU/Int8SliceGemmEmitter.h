//===- Int8SliceGemmEmitter.h - quantized GEMM on int8 units ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// GEMM of f32 or 16-bit rows with int8 or int4 weights, for which
// dequantization would take longer than the memory traffic. Exact int8
// decomposition of the rows (Ozaki-style splitting): the numbers of a segment
// of a row are scaled by one power of two to integers, whose bytes, the slices,
// an int8 dot-product unit multiplies with the quantized weights. Sums over a
// segment are exact; each is added to the f32 accumulator by one FMA.
//
// The last slice is mostly zeros: only numbers far below the largest of their
// segment need it. Its nonzero words are listed; if a segment has few, all but
// the last slice are multiplied densely and the last one sparsely.
//
// A segment that is not exactly representable (its numbers differ too much in
// magnitude, or are not finite) is dequantized and multiplied in f32: the
// result for a row does not depend on the other rows.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CPU_INT8SLICEGEMMEMITTER_H
#define MPC_LIB_TARGET_CPU_INT8SLICEGEMMEMITTER_H

#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"

#include "ContractionEmitter.h"

namespace mpc::cpu {

class Int8SliceGemmEmitter : public ContractionEmitter {
public:
  explicit Int8SliceGemmEmitter(const ContractionKernel &kernel);

  void prepare() override;
  void emitItem(mlir::Value item) override;

  /// Maximum magnitude of a segment's integers, as a power of two.
  static constexpr int kLargestBits = 22;
  /// Factor of steps and divisor of weight scales, which keeps products of
  /// scales with integer sums in the range of f32.
  static constexpr float kLargerSteps = 0x1p20f;

  /// Number of accumulators per row and vector of columns.
  static int64_t sumsOfRow(DequantizeOp narrow);

private:
  /// Words per four positions of a row: the slices, and padding.
  static constexpr int64_t kWords = 4;

  //===--------------------------------------------------------------------===//
  // Rows
  //===--------------------------------------------------------------------===//

  /// Decomposes the rows of a block. If there is only one block, each worker
  /// does so once.
  void splitRows(const BlockRows &rows);
  /// The same for row `local` of the block, which is row `row` of all.
  void splitRow(mlir::Value row, mlir::Value local);
  void splitSegment(mlir::Value local, mlir::Value segment, mlir::Value step,
                    mlir::Value perStep);
  /// Lists the nonzero words of the last slice in segment `place` of all rows,
  /// for positions from `first` on; returns their number.
  mlir::Value listLast(mlir::Value place, mlir::Value first);
  /// Returns the power of two by which numbers of magnitude up to `largest`,
  /// per lane and as bits, are divided to be at most 2^22, and its inverse.
  std::pair<mlir::Value, mlir::Value> stepOf(mlir::Value largest);
  /// Rounds lanes to integers, returned as bits and as numbers.
  std::pair<mlir::Value, mlir::Value> rounded(mlir::Value x);
  /// Returns the int8 slices of integers, as words.
  mlir::Value digitsOf(mlir::Value integers);
  /// Stores at `memory[at]` the initial values of the slices' sums, which
  /// subtract the zero point, given the sums of the slices in all lanes.
  void storeOffsets(mlir::Value sums, mlir::Value memory, mlir::Value at);

  //===--------------------------------------------------------------------===//
  // Panels
  //===--------------------------------------------------------------------===//

  void storePanel(mlir::Value block, mlir::Value number, int64_t used);
  /// Adds the products of a segment to the accumulators `[row][vector]`.
  Carried multiplySegment(mlir::Value segment, int64_t rows, int64_t vectors,
                          mlir::ValueRange totals);
  /// Adds the products of integers, or of numbers, with weights to the
  /// accumulators `[row][vector]`, `totals`. `zeros` are the zero points per
  /// vector, if they differ, and `scales` those of the weights. `listed`: the
  /// last slice is sparse.
  Carried multiplyDigits(mlir::Value segment, int64_t rows, int64_t vectors,
                         mlir::ValueRange zeros, mlir::ValueRange scales,
                         mlir::ValueRange totals, bool listed);
  /// Adds the products of listed words to the sums of the last slice,
  /// `[row][vector]`.
  void addListed(mlir::Value segment, int64_t rows, int64_t vectors,
                 llvm::MutableArrayRef<mlir::Value> sums);
  Carried multiplyNumbers(mlir::Value segment, int64_t rows, int64_t vectors,
                          mlir::ValueRange zeros, mlir::ValueRange scales,
                          mlir::ValueRange totals);
  /// Loops over a segment's loads of the panel, `together` at a time, with
  /// `sums` as carried values.
  Carried carryLoads(mlir::Value segment, int64_t together,
                     mlir::ValueRange sums, CarriedBody body);
  /// Returns the words of a load, with four positions each: `[word][vector]`.
  llvm::SmallVector<Carried> loadWords(mlir::Value load, int64_t vectors);
  /// Returns the index in the panel of vector `vector` of a load, and its bytes
  /// as words.
  mlir::Value placeOf(mlir::Value load, int64_t vector);
  mlir::Value loadPacked(mlir::Value at);
  /// Combines the sums of slices, lowest first, into a number.
  mlir::Value numberOf(mlir::ValueRange sums);
  /// Returns true if such a number is an i32.
  bool isWord();

  mlir::Value addDotBytes(mlir::Value sum, mlir::Value bytes,
                          mlir::Value digits);
  /// Loads a scalar into all lanes.
  mlir::Value splatOf(mlir::Value memory, mlir::Value at) {
    return values.splat(math.load(memory, at), lanes);
  }
  /// Emits a loop over [0, extent) in steps with carried values.
  Carried carry(int64_t extent, int64_t step, mlir::ValueRange initial,
                CarriedBody body) {
    return math.carry(math.constant(0), math.constant(extent), step, initial,
                      body);
  }

  const GemmExtents &shape;
  DequantizeOp narrow;
  /// Positions of a segment, whose sums are combined, and of a span, which
  /// shares a step; number of segments, and positions per column in one load of
  /// a panel.
  int64_t length, span, segments, loaded;
  /// Slices of the first and of the second integer of a number; 16-bit numbers
  /// have no second one.
  int64_t digits[2];
  llvm::ArrayRef<int> integers() const {
    static constexpr int kBoth[] = {0, 1};
    return llvm::ArrayRef(kBoth).take_front(digits[1] ? 2 : 1);
  }
  /// Ratio of the steps of the first and the second integer, a power of two.
  float finer;
  /// States of a segment: the integers are exact and the last slice is listed,
  /// it is too dense for a list, or the integers are inexact.
  enum State : int32_t { Listed, Whole, Inexact };
  /// Maximum number of listed words per segment, the capacity of the lists.
  int64_t mostListed;
  /// The integer whose lowest slice is the last one.
  int last() const { return digits[1] ? 1 : 0; }
  mlir::Type i32;
  mlir::VectorType words, numbers;
  RowSplit split;
  int64_t blocksPerItem, rowGroups;
  /// Rows of a block: the numbers, `[row][depth]`; words of slices,
  /// `[integer][row][depth / 4][kWords]`; initial values of the sums,
  /// `[integer][row][segment][kWords]`; the step, times kLargerSteps, and
  /// State, `[row][segment]`; the index in the segment of each listed word, and
  /// the word, `[row][depth / 4]`.
  mlir::Value rowNumbers, rowDigits[2], offsets[2], steps, states, listPlaces,
      listWords;
};

} // namespace mpc::cpu

#endif // MPC_LIB_TARGET_CPU_INT8SLICEGEMMEMITTER_H
