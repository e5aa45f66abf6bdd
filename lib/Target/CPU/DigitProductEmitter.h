//===- DigitProductEmitter.h - narrow weights as bytes ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Private to this folder. f32 or 16-bit rows times weights of 8 or 4 bits,
// whose widening would take longer than memory does. The numbers of a segment
// of a row become integers, multiples of one power of two, whose bytes, the
// digits, a unit for bytes multiplies with the weights as they are. Sums over a
// segment are exact; each goes into the f32 sum by one multiply-add.
//
// The last digits are mostly zeros: only numbers far below the largest of their
// segment have others. Those words of them that are none are listed, and where
// a segment has few, the digits in front meet all weights and they their own.
//
// A segment whose numbers are no such integers, since they lie too far apart or
// are none, is widened and multiplied in f32: what a product gives does not
// hang on what stands beside a number.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CPU_DIGITPRODUCTEMITTER_H
#define MPC_LIB_TARGET_CPU_DIGITPRODUCTEMITTER_H

#include "ContractionEmitter.h"

namespace mpc {

class DigitProductEmitter : public ContractionEmitter {
public:
  explicit DigitProductEmitter(const ContractionKernel &kernel);

  void prepare() override;
  void emitItem(mlir::Value item) override;

  /// The largest integer of a segment is at most two to this power.
  static constexpr int kLargestBits = 22;
  /// What steps are multiplied by and scales of weights divided, which keeps
  /// the products of these with sums of integers inside of what f32 has.
  static constexpr float kLargerSteps = 0x1p20f;

  /// Sums that a row has for each vector of columns.
  static int64_t sumsOfRow(DequantizeOp narrow);

private:
  /// Words per four positions of a row: the digits, and what is not read.
  static constexpr int64_t kWords = 4;
  using Values = llvm::SmallVector<mlir::Value>;
  using Body = llvm::function_ref<Values(mlir::Value, mlir::ValueRange)>;

  //===--------------------------------------------------------------------===//
  // Rows (DigitRows.cpp)
  //===--------------------------------------------------------------------===//

  /// Fills the memory of a block's rows. Where that block is all, each worker
  /// does it once.
  void splitRows(const BlockRows &rows);
  /// The same of row `local` of the block, which is `row` of all.
  void splitRow(mlir::Value row, mlir::Value local);
  void splitSegment(mlir::Value local, mlir::Value segment, mlir::Value step,
                    mlir::Value perStep);
  /// Lists the words of last digits of the segment whose number among those of
  /// all rows is `place`, of positions from `first` on, that are not zero; how
  /// many they are.
  mlir::Value listLast(mlir::Value place, mlir::Value first);
  /// The power of two that numbers of a magnitude of at most `largest`, lane by
  /// lane and as bits, are divided by to be at most 2^22, and its inverse.
  std::pair<mlir::Value, mlir::Value> stepOf(mlir::Value largest);
  /// The integer of lanes, rounded, as its bits and as a number.
  std::pair<mlir::Value, mlir::Value> rounded(mlir::Value values);
  /// The words of digits of integers.
  mlir::Value digitsOf(mlir::Value integers);
  /// Stores at `memory[at]` what the sums of each digit begin with so that the
  /// zero point is taken off, given those of digits in all lanes.
  void storeOffsets(mlir::Value sums, mlir::Value memory, mlir::Value at);

  //===--------------------------------------------------------------------===//
  // Panels
  //===--------------------------------------------------------------------===//

  void storePanel(mlir::Value block, mlir::Value number, int64_t used);
  /// Adds the products of a segment to sums of `[row][vector]`.
  Values multiplySegment(mlir::Value segment, int64_t rows, int64_t vectors,
                         mlir::ValueRange totals);
  /// Adds the products of integers, or of numbers, with weights to sums of
  /// `[row][vector]`, `totals`. The zero points of vectors are `zeros`, if
  /// there are more than one, and `scales` what their weights are scaled by.
  /// `listed`: last digits are those of the lists.
  Values multiplyDigits(mlir::Value segment, int64_t rows, int64_t vectors,
                        mlir::ValueRange zeros, mlir::ValueRange scales,
                        mlir::ValueRange totals, bool listed);
  /// Adds the products of listed words to sums of last digits,
  /// `[row][vector]`.
  void addListed(mlir::Value segment, int64_t rows, int64_t vectors,
                 llvm::MutableArrayRef<mlir::Value> sums);
  Values multiplyNumbers(mlir::Value segment, int64_t rows, int64_t vectors,
                         mlir::ValueRange zeros, mlir::ValueRange scales,
                         mlir::ValueRange totals);
  /// Carries `sums` through a segment's loads of the panel, some at a time.
  Values carryLoads(mlir::Value segment, int64_t together,
                    mlir::ValueRange sums, Body body);
  /// The words of a load, with four positions each: `[word][vector]`.
  llvm::SmallVector<Values> loadWords(mlir::Value load, int64_t vectors);
  /// Where vector `vector` of a load lies in the panel, and its bytes as words.
  mlir::Value placeOf(mlir::Value load, int64_t vector);
  mlir::Value loadPacked(mlir::Value at);
  /// The number that sums of digits, the lowest first, are.
  mlir::Value numberOf(mlir::ValueRange sums);
  /// Whether such a number is an i32.
  bool isWord();

  mlir::Value addDotBytes(mlir::Value sum, mlir::Value bytes,
                          mlir::Value digits);
  mlir::Value splat(mlir::Value scalar);
  mlir::Value word(int64_t value);
  mlir::Value number(float value);
  /// Runs `body` on values that a loop over [0, extent) in steps carries.
  Values carry(int64_t extent, int64_t step, mlir::ValueRange values,
               Body body);

  const ProductShape &shape;
  DequantizeOp narrow;
  /// Positions of a segment, whose sums are joined, and of a span, which share
  /// a step; how many segments, and positions that a load of a panel's bytes
  /// has of each column.
  int64_t length, span, segments, loaded;
  /// Digits of the first and of the second integer of a number; numbers of 16
  /// bits have no second one.
  int64_t digits[2];
  llvm::ArrayRef<int> integers() const {
    static constexpr int kBoth[] = {0, 1};
    return llvm::ArrayRef(kBoth).take_front(digits[1] ? 2 : 1);
  }
  /// How many times finer the second one is, a power of two.
  float finer;
  /// What `states` has: the integers are the numbers, and the last digits are
  /// listed, or too many to be, or the integers are not.
  enum State : int32_t { Listed, Whole, Inexact };
  /// The most words that are listed of a segment, whose lists have as many.
  int64_t mostListed;
  /// The integer whose lowest digits are the last ones.
  int last() const { return digits[1] ? 1 : 0; }
  mlir::VectorType words, numbers;
  RowSplit split;
  int64_t blocksPerItem, rowGroups;
  /// Of the rows of a block: the numbers, `[row][depth]`; words of digits
  /// `[integer][row][depth / 4][kWords]`, what sums begin with,
  /// `[integer][row][segment][kWords]`; the step, times kLargerSteps, and
  /// State, `[row][segment]`;
  /// of the words that are listed the place among those of the segment and the
  /// word, `[row][depth / 4]`.
  mlir::Value rowNumbers, rowDigits[2], offsets[2], steps, states, listPlaces,
      listWords;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_CPU_DIGITPRODUCTEMITTER_H
