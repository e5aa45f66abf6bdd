//===- RandomEmitter.cpp - random_bits at a result element ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as
// easy as 1, 2, 3", SC 2011): ten rounds of two 32-bit multiplications on a
// counter. Words that are the same for all lanes stay scalars.
//
//===----------------------------------------------------------------------===//

#include "LoopKernels.h"

#include "mpc/Dialect/Mpc/IR/MpcTrainingOps.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mpc;

namespace {
/// The words of a counter and a key. Multipliers and increments are those of
/// the paper.
class Philox {
public:
  Philox(OpBuilder &b, Location loc, std::array<Value, 4> counter,
         std::array<Value, 2> key)
      : b(b), math(b, loc), counter(counter), key(key) {}

  /// The first word of the block.
  Value run() {
    constexpr int kRounds = 10;
    for (int i = 0; i < kRounds; ++i) {
      if (i > 0) {
        key[0] = math.addInt(key[0], 0x9E3779B9);
        key[1] = math.addInt(key[1], 0xBB67AE85);
      }
      round();
    }
    return counter[0];
  }

private:
  void round() {
    auto [high0, low0] = multiply(counter[0], 0xD2511F53);
    auto [high1, low1] = multiply(counter[2], 0xCD9E8D57);
    counter = {mix(mix(high1, counter[1]), key[0]), low1,
               mix(mix(high0, counter[3]), key[1]), low0};
  }

  /// Upper and lower half of the product.
  std::pair<Value, Value> multiply(Value x, int64_t multiplier) {
    Type word = b.getI32Type(), wide = b.getI64Type();
    Value factor = math.extendUnsigned(x, wide);
    Value product = arith::MulIOp::create(
        b, math.getLoc(), factor, math.integer(factor.getType(), multiplier));
    return {math.truncateInt(math.shiftRight(product, 32), word),
            math.truncateInt(product, word)};
  }

  Value mix(Value x, Value y) {
    return math.bitXor(asWideAs(y, x), asWideAs(x, y));
  }
  /// `y` on as many lanes as `x`.
  Value asWideAs(Value x, Value y) {
    if (!isa<VectorType>(x.getType()) || isa<VectorType>(y.getType()))
      return y;
    return vector::BroadcastOp::create(b, math.getLoc(), x.getType(), y);
  }

  OpBuilder &b;
  ValueMath math;
  std::array<Value, 4> counter;
  std::array<Value, 2> key;
};
} // namespace

FailureOr<Value> ElementEmitter::emitRandomBits(Operation *op,
                                                const Request &at) {
  auto random = cast<RandomBitsOp>(op);
  ValueMath math(builder, loc);
  Type word = builder.getI32Type(), wide = builder.getI64Type();
  auto state = [&](int64_t place) {
    return emitScalar(random.getState(), index(place), 1);
  };
  Result seed = state(0), step = state(1);
  if (failed(seed) || failed(step))
    return failure();

  IndexMath indices{builder, loc};
  ArrayRef<int64_t> shape = shapeOf(random.getResult());
  Value position = index(0);
  for (auto [extent, at] : llvm::zip(shape, at.indices))
    position = indices.add(indices.mul(position, extent), at);
  position = arith::IndexCastOp::create(builder, loc, wide, position);
  // Positions of one tensor rarely need their upper words.
  bool isShort = productOf(shape) <= int64_t(1) << 32;
  Type type = isShort ? word : wide;
  Value first = isShort ? math.truncateInt(position, word) : position;
  if (at.lanes > 1) {
    SmallVector<Attribute> steps;
    for (int64_t lane = 0; lane < at.lanes; ++lane)
      steps.push_back(builder.getIntegerAttr(type, lane));
    Value lane = arith::ConstantOp::create(
        builder, loc,
        DenseElementsAttr::get(VectorType::get({at.lanes}, type), steps));
    first = math.addInt(splat(first, at.lanes), lane);
  }
  Value low = first, high = math.integer(word, 0);
  if (!isShort) {
    low = math.truncateInt(first, word);
    high = math.truncateInt(math.shiftRight(first, 32), word);
  }
  std::array<Value, 4> counter = {
      low, high, math.integer(word, static_cast<int32_t>(random.getStream())),
      math.truncateInt(*step, word)};
  std::array<Value, 2> key = {
      math.truncateInt(*seed, word),
      math.truncateInt(math.shiftRight(*seed, 32), word)};
  return Philox(builder, loc, counter, key).run();
}
