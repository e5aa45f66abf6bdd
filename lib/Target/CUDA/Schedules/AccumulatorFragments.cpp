//===- AccumulatorFragments.cpp - accumulators as mma operands ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AccumulatorFragments.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

Value AccumulatorFragments::call(StringRef name, ValueRange arguments) {
  return cuda::CallOp::create(b, kernel.loc, b.getI32Type(),
                              b.getStringAttr(name), arguments);
}

void AccumulatorFragments::place() {
  group = mma.group();
  pair = mma.pair();
}

void AccumulatorFragments::pack(Value words, Value sums, Value step,
                                int64_t piece) {
  if (type == cuda::FragmentType::tf32)
    packTf32(words, sums, step);
  else
    packWords(words, sums, step, piece);
}

void AccumulatorFragments::packWords(Value words, Value sums, Value step,
                                     int64_t piece) {
  IndexMath math{b, kernel.loc};
  bool isHalf = type == cuda::FragmentType::f16;
  Type element = isHalf ? Type(b.getF16Type()) : Type(b.getBF16Type());
  StringRef name = isHalf ? "packHalf" : "packBfloat16";
  Value zero = math.constant(0);
  unrolled(kernel, 4, "word", [&](Value word) {
    Value block = math.add(math.mul(step, 2), math.div(word, 2));
    SmallVector<Value> parts;
    for (int64_t e = 0; e < 2; ++e) {
      Value at = math.add(math.mul(math.rem(word, 2), 2), e);
      Value sum = memref::LoadOp::create(b, kernel.loc, sums,
                                         ValueRange{zero, block, at});
      for (int64_t before = 0; before < piece; ++before)
        sum = values.sub(sum,
                         values.extendFloat(values.truncateFloat(sum, element),
                                            sum.getType()));
      parts.push_back(sum);
    }
    memref::StoreOp::create(b, kernel.loc, call(name, parts), words,
                            ValueRange{zero, word});
  });
}

/// Columns t and t + 4 of the fragment are columns 2 t and 2 t + 1 of the sums.
void AccumulatorFragments::packTf32(Value words, Value sums, Value step) {
  IndexMath math{b, kernel.loc};
  Value zero = math.constant(0);
  unrolled(kernel, 4, "word", [&](Value word) {
    Value at = math.add(math.mul(math.rem(word, 2), 2), math.div(word, 2));
    Value sum =
        memref::LoadOp::create(b, kernel.loc, sums, ValueRange{zero, step, at});
    memref::StoreOp::create(b, kernel.loc, call("toTf32", sum), words,
                            ValueRange{zero, word});
  });
}

void AccumulatorFragments::loadRows(Value words, Value tile,
                                    ArrayRef<Value> leading, Value step,
                                    Value firstColumn) {
  IndexMath math{b, kernel.loc};
  Value first = math.mul(step, mma.depth());
  if (type != cuda::FragmentType::tf32)
    return mma.loadRight(
        words,
        {tile, /*alongDepth=*/false, SmallVector<Value>(leading), firstColumn},
        first);
  int64_t blocks = cast<MemRefType>(words.getType()).getDimSize(0);
  unrolled(kernel, blocks, "j", [&](Value j) {
    Value column = math.add(math.add(firstColumn, math.mul(j, 8)), group);
    unrolled(kernel, 2, "word", [&](Value word) {
      SmallVector<Value> at(leading);
      at.append({math.add(math.add(first, pair), word), column});
      Value element = memref::LoadOp::create(b, kernel.loc, tile, at);
      memref::StoreOp::create(b, kernel.loc, call("toTf32", element), words,
                              ValueRange{j, word});
    });
  });
}
