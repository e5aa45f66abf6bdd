//===- Random.cpp - rng_bit_generator op ----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decomposes counter-based random generators into integer arithmetic: the same
// numbers as XLA's, on every device.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"

#include "OpImport.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <array>

using namespace mlir;
using namespace mpc;
using namespace mpc::hlo;

namespace {

/// Counter-based generators of 32-bit words, vectorized over counters.
class Generator {
public:
  Generator(OpImport &op, bool hasUpper)
      : op(op), state(op.in(0)), hasUpper(hasUpper) {}

  /// Returns element `i` of the state, of shape [1].
  Value word(int64_t i) { return op.sliceAxis(state, 0, i, 1); }

  /// Philox4x32-10: the words of `blocks` counters from the state's on, four
  /// per counter. The counter's upper half is the state's third element, or the
  /// key if there is none (as in XLA).
  Value philox(int64_t blocks) {
    Value low = counters(blocks);
    Value high = carried(word(hasUpper ? 2 : 0), low);
    Words x = {lower(low), upper(low), lower(high), upper(high)};
    Value key0 = lower(word(0)), key1 = upper(word(0));
    for (int round = 0; round < 10; ++round) {
      Value wide0 = product(x[0], 0xD2511F53),
            wide1 = product(x[2], 0xCD9E8D57);
      x = {exclusive(exclusive(upper(wide1), x[1]), key0), lower(wide1),
           exclusive(exclusive(upper(wide0), x[3]), key1), lower(wide0)};
      key0 = plus(key0, 0x9E3779B9);
      key1 = plus(key1, 0xBB67AE85);
    }
    SmallVector<Value> columns;
    for (Value word : x)
      columns.push_back(op.reshape(op.broadcast(word, blocks), {blocks, 1}));
    return op.reshape(op.concat(columns, 1), 4 * blocks);
  }

  /// Threefry-2x32, 20 rounds: both words of `count` counters from the state's
  /// on.
  std::array<Value, 2> threefry(int64_t count) {
    static constexpr uint64_t rotations[2][4] = {{13, 15, 26, 6},
                                                 {17, 29, 16, 24}};
    Value counter = counters(count);
    Value key[3] = {lower(word(0)), upper(word(0)), {}};
    key[2] = op.map<XorOp>(
        {exclusive(key[0], key[1]), op.integer(0x1BD11BDA, word32())});
    Value x = op.map<AddOp>({lower(counter), key[0]});
    Value y = op.map<AddOp>({upper(counter), key[1]});
    for (int group = 0; group < 5; ++group) {
      for (uint64_t bits : rotations[group % 2]) {
        x = op.map<AddOp>({x, y});
        y = exclusive(rotated(y, bits), x);
      }
      x = op.map<AddOp>({x, key[(group + 1) % 3]});
      y = plus(op.map<AddOp>({y, key[(group + 2) % 3]}), group + 1);
    }
    return {x, y};
  }

  /// Returns the state after `count` counters, with a carry if there is an
  /// upper half.
  Value after(int64_t count) {
    SmallVector<Value> words = {
        word(0), op.map<AddOp>({word(1), op.integer(count, word64())})};
    if (hasUpper)
      words.push_back(carried(word(2), words[1]));
    return op.concat(words, 0);
  }

  Type word32() { return op.builder.getIntegerType(32, /*isSigned=*/false); }
  Type word64() { return op.builder.getIntegerType(64, /*isSigned=*/false); }
  /// Combines two words to 64 bits.
  Value joined(Value low, Value high) {
    return op.map<OrOp>({op.cast(low, word64()),
                         op.map<ShiftLeftOp>({op.cast(high, word64()),
                                              op.integer(32, word64())})});
  }

private:
  using Words = std::array<Value, 4>;

  /// The state's counter plus 0, 1, ....
  Value counters(int64_t count) {
    return op.map<AddOp>({word(1), op.iota(count, 0, 1, word64())});
  }
  /// Adds a carry to `high` if the counter `low` has wrapped around.
  Value carried(Value high, Value low) {
    return op.map<AddOp>(
        {high,
         op.cast(op.compare(ComparePredicate::lt, low, word(1)), word64())});
  }

  Value lower(Value wide) { return op.cast(wide, word32()); }
  Value upper(Value wide) {
    return op.cast(op.map<ShiftRightOp>({wide, op.integer(32, word64())}),
                   word32());
  }
  Value product(Value x, uint64_t factor) {
    return op.map<MulOp>({op.cast(x, word64()), op.integer(factor, word64())});
  }
  Value exclusive(Value x, Value y) { return op.map<XorOp>({x, y}); }
  Value plus(Value x, uint64_t number) {
    return op.map<AddOp>({x, op.integer(number, word32())});
  }
  Value rotated(Value x, uint64_t bits) {
    return op.map<OrOp>(
        {op.map<ShiftLeftOp>({x, op.integer(bits, word32())}),
         op.map<ShiftRightOp>({x, op.integer(32 - bits, word32())})});
  }

  OpImport &op;
  Value state;
  bool hasUpper;
};

} // namespace

/// Returns the axis along which XLA places the two words of a Threefry counter:
/// the first of even length, else the longest.
static int64_t pairedAxis(ArrayRef<int64_t> shape) {
  const int64_t *even =
      llvm::find_if(shape, [](int64_t extent) { return extent % 2 == 0; });
  return (even != shape.end() ? even : llvm::max_element(shape)) -
         shape.begin();
}

/// Returns 32-bit words of shape `of`, and the number of counters used.
static Value threefryWords(OpImport &op, Generator &generator,
                           ArrayRef<int64_t> of, int64_t &counters) {
  SmallVector<int64_t> shape(of);
  if (shape.empty())
    shape = {1};
  int64_t axis = pairedAxis(shape), extent = shape[axis];
  shape[axis] = llvm::divideCeil(extent, 2);
  shape.insert(shape.begin() + axis + 1, 1);
  counters = llvm::product_of(shape);
  SmallVector<Value> halves;
  for (Value word : generator.threefry(counters))
    halves.push_back(op.reshape(word, shape));
  shape.erase(shape.begin() + axis + 1);
  shape[axis] *= 2;
  Value words = op.reshape(op.concat(halves, axis + 1), shape);
  return op.reshape(op.sliceAxis(words, axis, 0, extent), of);
}

static LogicalResult convertRngBitGenerator(OpImport &op) {
  auto source = cast<stablehlo::RngBitGeneratorOp>(op.op);
  auto type = cast<RankedTensorType>(source.getOutput().getType());
  auto integer = dyn_cast<IntegerType>(type.getElementType());
  int64_t count = type.getNumElements();
  if (!integer || integer.getWidth() < 8 || count == 0) {
    op.error()
        << "generates " << type
        << "; supported are non-empty tensors of integers of at least 8 bits";
    return failure();
  }
  bool isWide = integer.getWidth() == 64;
  bool hasUpper =
      cast<ShapedType>(source.getInitialState().getType()).getDimSize(0) == 3;
  Generator generator(op, hasUpper);
  int64_t counters = 0;
  Value bits;
  if (source.getRngAlgorithm() != stablehlo::RngAlgorithm::THREE_FRY) {
    // DEFAULT is Philox, as for XLA on a CPU.
    int64_t words = isWide ? 2 * count : count;
    counters = llvm::divideCeil(words, 4);
    bits = op.sliceAxis(generator.philox(counters), 0, 0, words);
    if (isWide) {
      bits = op.reshape(bits, {count, 2});
      bits = generator.joined(op.sliceAxis(bits, 1, 0, 1),
                              op.sliceAxis(bits, 1, 1, 1));
    }
    bits = op.reshape(bits, type.getShape());
  } else if (isWide) {
    counters = count;
    auto [low, high] = generator.threefry(counters);
    bits = op.reshape(generator.joined(low, high), type.getShape());
  } else {
    bits = threefryWords(op, generator, type.getShape(), counters);
  }
  op.set(0, generator.after(counters));
  op.set(1, op.cast(bits, integer));
  return op.status();
}

OpFamily hlo::randomOps() {
  static const OpEntry entries[] = {
      {"stablehlo.rng_bit_generator", convertRngBitGenerator}};
  return entries;
}
