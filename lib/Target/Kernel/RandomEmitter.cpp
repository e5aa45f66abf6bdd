//===- RandomEmitter.cpp - random_bits per result element -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as
// easy as 1, 2, 3", SC 2011): ten rounds of two 32-bit multiplications on a
// counter. Words that are the same for all lanes stay scalars. Four adjacent
// elements share a block: a vector that is known to start at one generates a
// quarter as many blocks as it has lanes.
//
//===----------------------------------------------------------------------===//

#include "LoopKernels.h"

#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"

using namespace mlir;
using namespace mpc;
using Request = ElementEmitter::Request;

namespace {
/// The words of a counter and a key, all of `type`. i64 stores a word in its
/// lower half and anything above it: vectors multiply such lanes by the 32-bit
/// multiplier in one instruction, without truncation in between. Multipliers
/// and increments are those of the paper.
class Philox {
public:
  using Words = std::array<Value, 4>;

  Philox(OpBuilder &b, Location loc, Type type, Words counter,
         std::array<Value, 2> key)
      : b(b), math(b, loc), type(type), counter(counter), key(key) {}

  Words run() {
    constexpr int kRounds = 10;
    for (int i = 0; i < kRounds; ++i) {
      if (i > 0) {
        key[0] = math.add(key[0], 0x9E3779B9);
        key[1] = math.add(key[1], 0xBB67AE85);
      }
      round();
    }
    return counter;
  }

private:
  void round() {
    auto [high0, low0] = multiply(counter[0], 0xD2511F53);
    auto [high1, low1] = multiply(counter[2], 0xCD9E8D57);
    counter = {mix(mix(high1, counter[1]), key[0]), low1,
               mix(mix(high0, counter[3]), key[1]), low0};
  }

  /// Returns the upper and lower half of the product.
  std::pair<Value, Value> multiply(Value x, int64_t multiplier) {
    Type wide = b.getI64Type();
    Value factor = type == wide ? math.bitAnd(x, kLowerHalf)
                                : math.extendUnsigned(x, wide);
    Value product =
        math.mul(factor, math.integer(factor.getType(), multiplier));
    Value high = math.shiftRight(product, 32);
    if (type == wide)
      return {high, product};
    return {math.truncateInt(high, type), math.truncateInt(product, type)};
  }

  Value mix(Value x, Value y) {
    return math.bitXor(asWideAs(y, x), asWideAs(x, y));
  }
  /// Broadcasts `y` to as many lanes as `x`.
  Value asWideAs(Value x, Value y) {
    auto type = dyn_cast<VectorType>(x.getType());
    return type ? math.splat(y, type.getNumElements()) : y;
  }

  static constexpr int64_t kLowerHalf = 0xffffffff;

  OpBuilder &b;
  ValueMath math;
  Type type;
  Words counter;
  std::array<Value, 2> key;
};

} // namespace

/// Elements per block: one per word.
static constexpr int64_t kWords = 4;

/// Reorders `words` of consecutive blocks, i64, to i32 lanes in the elements'
/// order.
static Value inOrder(ValueMath &math, Philox::Words words) {
  auto pair = [&](Value first, Value second) {
    return math.bitOr(math.bitAnd(first, 0xffffffff),
                      math.shiftLeft(second, 32));
  };
  int64_t count = cast<VectorType>(words[0].getType()).getNumElements();
  SmallVector<int64_t> order;
  for (int64_t i = 0; i < count; ++i)
    order.append({i, count + i});
  Value joined =
      math.shuffle(pair(words[0], words[1]), pair(words[2], words[3]), order);
  return math.reinterpret(joined, math.getBuilder().getI32Type());
}

Value mpc::emitRandomBits(ElementEmitter &e, Operation *op, const Request &at) {
  OpBuilder &builder = e.getBuilder();
  Location loc = e.getLoc();
  auto random = cast<RandomBitsOp>(op);
  MathExpansion math = e.math();
  Type word = builder.getI32Type(), wide = builder.getI64Type();
  auto state = [&](int64_t place) {
    return e.scalarValue(random.getState(), e.index(place), 1);
  };
  Value seed = state(0), step = state(1);

  IndexMath indices = e.indexMath();
  ArrayRef<int64_t> shape = shapeOf(random.getResult());
  Value position = e.index(0);
  for (auto [extent, at] : llvm::zip(shape, at.indices))
    position = indices.add(indices.mul(position, extent), at);
  // Block numbers rarely need their upper words.
  bool isShort = productOf(shape) <= int64_t(1) << 32;
  auto run = [&](Value block, Type type) {
    auto as = [&](Value value) {
      return type == wide || getElementTypeOrSelf(value.getType()) == word
                 ? value
                 : math.truncateInt(value, word);
    };
    Philox::Words counter = {
        as(block),
        isShort ? math.integer(type, 0) : as(math.shiftRight(block, 32)),
        math.integer(type, static_cast<int32_t>(random.getStream())), as(step)};
    return Philox(builder, loc, type, counter,
                  {as(seed), as(math.shiftRight(seed, 32))})
        .run();
  };

  bool isWhole = at.lanes % kWords == 0 && knownDivisor(position) % kWords == 0;
  position = math.castIndex(position, wide);
  if (isWhole) {
    Value block = math.shiftRight(position, 2);
    int64_t blocks = at.lanes / kWords;
    // If vectors are not registers, generate a block with scalars.
    if (blocks > 1 && !e.getTarget().alignedVectors)
      return inOrder(math, run(math.countFrom(block, blocks), wide));
    SmallVector<Value> elements;
    for (int64_t i = 0; i < blocks; ++i)
      llvm::append_range(elements, run(math.add(block, i), word));
    return vector::FromElementsOp::create(
        builder, loc, VectorType::get({at.lanes}, word), elements);
  }
  Value place = math.countFrom(
      isShort ? math.truncateInt(position, word) : position, at.lanes);
  Philox::Words words = run(math.shiftRight(place, 2), word);
  Value number = math.bitAnd(place, kWords - 1);
  Value drawn = words[0];
  for (int64_t i = 1; i < kWords; ++i)
    drawn = math.select(math.compare(arith::CmpIPredicate::eq, number, i),
                        words[static_cast<size_t>(i)], drawn);
  return drawn;
}
