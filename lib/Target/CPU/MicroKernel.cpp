//===- MicroKernel.cpp - GEMM micro-kernel --------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MicroKernel.h"

#include "EmulatedArithmetic.h"

#include "../Kernel/Float8Math.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cpu;

int64_t cpu::vectorLanes(Type type, const CpuTarget &target) {
  return type.getIntOrFloatBitWidth() > 32 ? target.lanes() / 2
                                           : target.lanes();
}

int64_t cpu::maxBlockRows(int64_t vectors, const CpuTarget &target) {
  // One register for the broadcast, one per vector of the panel.
  int64_t rows = (target.registers() - 1 - vectors) / vectors;
  return std::clamp<int64_t>(rows, 1, 2 * target.blockRows());
}

RowSplit::RowSplit(int64_t extent, int64_t most) {
  blocks = std::max<int64_t>(1, (extent + most - 1) / most);
  rows = extent / blocks;
  larger = extent % blocks;
}

int64_t cpu::panelSteps(ArrayRef<KLoop> loops) {
  if (loops.front().panelSteps)
    return loops.front().panelSteps;
  int64_t steps = 1;
  for (const KLoop &inner : loops.drop_front())
    steps *= inner.extent;
  return steps;
}

Value cpu::extendHalves(OpBuilder &b, Location loc, VectorType wide,
                        Value value) {
  auto type = cast<VectorType>(value.getType());
  if (!type.getElementType().isBF16() || !wide.getElementType().isF32())
    return arith::ExtFOp::create(b, loc, wide, value);
  Value pattern =
      vector::BitCastOp::create(b, loc, type.clone(b.getI16Type()), value);
  return ValueMath(b, loc).widenBf16(pattern, /*permutes=*/false);
}

void cpu::forEachStep(const IndexMath &math, const KLoop &loop,
                      llvm::function_ref<void(Value)> body) {
  if (loop.begin)
    math.loop(loop.begin, loop.end, 1, body);
  else
    math.loop(loop.extent, body);
}

std::optional<DepthSplits> cpu::partsOf(ArrayRef<KLoop> loops,
                                        int64_t longest) {
  int64_t inner = 1;
  for (size_t i = loops.size(); i-- > 0;) {
    int64_t extent = loops[i].extent;
    if (inner * extent <= longest) {
      inner *= extent;
      continue;
    }
    int64_t most = std::max<int64_t>(longest / inner, 1), size = most;
    // Equal splits share their code, up to twice as many of them.
    while (2 * size >= most && extent % size)
      --size;
    return DepthSplits{i, 2 * size >= most ? size : most};
  }
  return std::nullopt;
}

Value cpu::addDotBytes(OpBuilder &b, Location loc, Value sum, Value x, Value y,
                       bool isEmulated) {
  if (isEmulated)
    return addDots(b, loc, x, y, sum, 8, {/*rows=*/false, /*columns=*/true});
  auto type = cast<VectorType>(sum.getType());
  int64_t lanes = type.getNumElements();
  auto factors = VectorType::get({4 * lanes}, b.getI8Type());
  return LLVM::CallIntrinsicOp::create(
             b, loc, type,
             b.getStringAttr(lanes == 16 ? "llvm.x86.avx512.vpdpbusd.512"
                                         : "llvm.x86.avx512.vpdpbusd.256"),
             ValueRange{sum, vector::BitCastOp::create(b, loc, factors, x),
                        vector::BitCastOp::create(b, loc, factors, y)})
      .getResult(0);
}

namespace {
/// State of one emission. The loop nest over K is built by recursion.
class MicroKernelEmission {
public:
  MicroKernelEmission(OpBuilder &b, Location loc, const RegisterBlock &block,
                      Value rows, const Panel &panel, ArrayRef<KLoop> loops,
                      const RowPrefetch &ahead)
      : b(b), loc(loc), math{b, loc}, block(block), rows(rows), panel(panel),
        loops(loops), ahead(ahead) {
    vectorType = VectorType::get({block.lanes}, block.type);
    sumsPerSet = block.rows() * block.vectors;
    // A block with few accumulators is latency-bound: alternate between several
    // sets.
    int64_t innermost = loops.back().extent;
    while (sets * sumsPerSet < block.inFlight && sets * 2 <= innermost &&
           sets < 8)
      sets *= 2;
  }

  SmallVector<Value> run(Value base) {
    Value zero = arith::ConstantOp::create(b, loc, vectorType,
                                           b.getZeroAttr(vectorType));
    SmallVector<Value> sums(sets * sumsPerSet, zero);
    walk(0, base, panel.offset, sums);
    for (int64_t set = sets; set > 1; set /= 2)
      for (int64_t i = 0; i < set / 2 * sumsPerSet; ++i)
        sums[i] = add(sums[i], sums[i + set / 2 * sumsPerSet]);
    sums.truncate(sumsPerSet);
    restoreColumnOrder(sums);
    return sums;
  }

private:
  Value add(Value x, Value y) {
    if (isa<FloatType>(block.type))
      return arith::AddFOp::create(b, loc, x, y);
    return arith::AddIOp::create(b, loc, x, y);
  }
  Value multiplyAdd(Value x, Value y, Value sum) {
    if (block.unit == ArithmeticUnit::DotBf16)
      return block.isEmulated ? emulateDotBf16(x, y, sum) : dotBf16(x, y, sum);
    if (block.unit == ArithmeticUnit::PairsF16)
      return dotHalves(x, y, sum);
    if (block.unit == ArithmeticUnit::PairsInt8)
      return dotBytes(x, y, sum);
    if (stepDepth(block.unit) > 1)
      return dotIntegers(x, y, sum);
    if (isa<FloatType>(block.type))
      return math::FmaOp::create(b, loc, x, y, sum);
    return arith::AddIOp::create(b, loc, arith::MulIOp::create(b, loc, x, y),
                                 sum);
  }

  Value dotBf16(Value x, Value y, Value sum) {
    auto halves = VectorType::get({2 * block.lanes}, b.getBF16Type());
    return LLVM::CallIntrinsicOp::create(
               b, loc, vectorType,
               b.getStringAttr("llvm.x86.avx512bf16.dpbf16ps.512"),
               ValueRange{sum, vector::BitCastOp::create(b, loc, halves, x),
                          vector::BitCastOp::create(b, loc, halves, y)})
        .getResult(0);
  }

  /// Intel's manual, VDPBF16PS: two fused multiply-adds, upper operands first,
  /// rounded to nearest even; subnormal inputs and results count as zeros.
  Value emulateDotBf16(Value x, Value y, Value sum) {
    ValueMath math(b, loc);
    for (bool isUpper : {true, false})
      sum = multiplyAddHalves(math, /*isF16=*/false, isUpper, x, y, sum);
    return sum;
  }

  /// Two multiply-adds of f16 upconverted in registers.
  Value dotHalves(Value x, Value y, Value sum) {
    ValueMath math(b, loc);
    for (bool isUpper : {false, true})
      sum = math.fma(halfOf(math, isUpper, x), halfOf(math, isUpper, y), sum);
    return sum;
  }

  /// Adds the products of the integers of words. The products of a step need
  /// fewer bits than the accumulator, so only the accumulator wraps.
  Value dotIntegers(Value x, Value y, Value sum) {
    if (block.unit == ArithmeticUnit::DotInt8)
      return addDotBytes(b, loc, sum, x, y, block.isEmulated);
    if (block.isEmulated)
      return addDots(b, loc, x, y, sum, 16, {true, true});
    auto factors = VectorType::get({2 * block.lanes}, b.getI16Type());
    Value products =
        LLVM::CallIntrinsicOp::create(
            b, loc, vectorType,
            b.getStringAttr(block.lanes == 16 ? "llvm.x86.avx512.pmaddw.d.512"
                                              : "llvm.x86.avx2.pmadd.wd"),
            ValueRange{vector::BitCastOp::create(b, loc, factors, x),
                       vector::BitCastOp::create(b, loc, factors, y)})
            .getResult(0);
    return add(sum, products);
  }

  /// The same for words of four bytes: first the even ones, then the odd ones.
  Value dotBytes(Value x, Value y, Value sum) {
    if (block.isEmulated)
      return addDots(b, loc, x, y, sum, 8, block.signs);
    auto shorts = VectorType::get({2 * block.lanes}, b.getI16Type());
    auto words = VectorType::get({block.lanes}, b.getI32Type());
    Value eight = arith::ConstantOp::create(
        b, loc, DenseElementsAttr::get(shorts, b.getI16IntegerAttr(8)));
    auto bytes = [&](Value from, bool isOdd, bool isSigned) -> Value {
      Value pairs = vector::BitCastOp::create(b, loc, shorts, from);
      if (!isOdd)
        pairs = arith::ShLIOp::create(b, loc, pairs, eight);
      pairs = isSigned ? Value(arith::ShRSIOp::create(b, loc, pairs, eight))
                       : Value(arith::ShRUIOp::create(b, loc, pairs, eight));
      return vector::BitCastOp::create(b, loc, words, pairs);
    };
    RegisterBlock pairs = block;
    pairs.unit = ArithmeticUnit::PairsInt16;
    MicroKernelEmission emission(b, loc, pairs, rows, panel, loops, ahead);
    for (bool isOdd : {false, true})
      sum = emission.dotIntegers(bytes(x, isOdd, block.signs.rows),
                                 bytes(y, isOdd, block.signs.columns), sum);
    return sum;
  }

  /// Loads the first `count` operands from `at` on as a word.
  Value loadFactors(Value at, int64_t count) {
    ValueMath values(b, loc);
    Type stored = cast<MemRefType>(rows.getType()).getElementType();
    int64_t bits = stored.getIntOrFloatBitWidth();
    Value word;
    for (int64_t first = 0, run; first < count; first += run) {
      run = count - first == 3 ? 2 : count - first;
      Value part;
      if (run == 1) {
        part = memref::LoadOp::create(b, loc, rows, math.add(at, first));
      } else {
        Value factors = vector::LoadOp::create(
            b, loc, VectorType::get({run}, stored), rows, math.add(at, first));
        auto joined = VectorType::get({1}, b.getIntegerType(run * bits));
        part = vector::ExtractOp::create(
            b, loc, vector::BitCastOp::create(b, loc, joined, factors), 0);
      }
      if (!part.getType().isInteger(32))
        part = values.extendUnsigned(part, b.getI32Type());
      if (first)
        part = values.shiftLeft(part, first * bits);
      word = word ? values.bitOr(word, part) : part;
    }
    return word;
  }

  /// Broadcasts the operands of a row at a step, without the last `missing`.
  Value loadRow(Value at, int64_t missing) {
    Type stored = cast<MemRefType>(rows.getType()).getElementType();
    auto words = VectorType::get({block.lanes}, b.getI32Type());
    if (block.unit == ArithmeticUnit::MultiplyAdd) {
      Value scalar = memref::LoadOp::create(b, loc, rows, at);
      return vector::BroadcastOp::create(b, loc, vectorType, scalar);
    }
    ValueMath values(b, loc);
    Value word;
    int64_t depth = stepDepth(block.unit);
    if (stored.isInteger(32)) {
      word = memref::LoadOp::create(b, loc, rows, at);
      if (missing)
        word = values.bitAnd(
            word, (int64_t(1) << 32 / depth * (depth - missing)) - 1);
    } else {
      word = loadFactors(at, depth - missing);
    }
    return vector::BroadcastOp::create(b, loc, words, word);
  }

  /// Emits loop `depth` of K; `sums` is updated in place.
  void walk(size_t depth, Value row, Value column,
            SmallVectorImpl<Value> &sums) {
    if (depth == loops.size())
      return step(row, column, sums, 0, /*missing=*/0, /*isOdd=*/false);
    const KLoop &loop = loops[depth];
    int64_t panelStride =
        panel.stepPitch() * panelSteps(loops.drop_front(depth));
    bool last = depth + 1 == loops.size();
    int64_t unroll = last ? std::max(sets, neighbours()) : 1,
            whole = loop.extent - (loop.missing > 0),
            looped = whole - whole % unroll;
    auto at = [&](int64_t k, Value rowBase, Value columnBase,
                  SmallVectorImpl<Value> &values) {
      Value nextRow = math.add(rowBase, k * loop.rowStride);
      Value nextColumn = math.add(columnBase, k * panelStride);
      if (last)
        step(nextRow, nextColumn, values, k % sets,
             k + 1 == loop.extent ? loop.missing : 0, k % neighbours());
      else
        walk(depth + 1, nextRow, nextColumn, values);
    };
    // Unrolling a large block further would leave no register for the last
    // operands.
    bool isShort = loop.extent <= 4 && loop.extent * sumsPerSet <= 64;
    if (loop.extent == 1 || (last && (isShort || looped == 0))) {
      for (int64_t k = 0; k < loop.extent; ++k)
        at(k, row, column, sums);
      return;
    }
    assert(!(last && loop.begin) && "the innermost loop has all of its steps");
    auto op =
        scf::ForOp::create(b, loc, loop.begin ? loop.begin : math.constant(0),
                           loop.end ? loop.end : math.constant(looped),
                           math.constant(unroll), sums);
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(op.getBody());
      SmallVector<Value> values(op.getRegionIterArgs());
      Value iv = op.getInductionVar();
      Value rowBase = math.add(row, math.mul(iv, loop.rowStride));
      Value columnBase = math.add(column, math.mul(iv, panelStride));
      if (last && ahead.begin)
        memref::PrefetchOp::create(
            b, loc, rows, math.add(ahead.begin, math.mul(iv, ahead.stride)),
            /*isWrite=*/false, /*localityHint=*/2, /*isDataCache=*/true);
      for (int64_t k = 0; k < unroll; ++k)
        at(k, rowBase, columnBase, values);
      scf::YieldOp::create(b, loc, values);
    }
    sums.assign(op.getResults().begin(), op.getResults().end());
    for (int64_t k = looped; k < loop.extent; ++k)
      at(k, row, column, sums);
  }

  /// Positions per byte.
  int64_t neighbours() const {
    return panel.form == PanelForm::Nibbles ? 2 : 1;
  }

  /// Emits one step: every row times every vector of the panel. The step's
  /// position in its byte is known at compile time.
  void step(Value row, Value column, SmallVectorImpl<Value> &sums, int64_t set,
            int64_t missing, bool isOdd) {
    SmallVector<Value> columns =
        panel.isScaled() ? loadNumbers(column, isOdd) : loadPanel(column);
    for (auto [r, offset] : llvm::enumerate(block.rowOffsets)) {
      Value broadcast = loadRow(math.add(row, offset), missing);
      for (int64_t v = 0; v < block.vectors; ++v) {
        Value &sum = sums[set * sumsPerSet + r * block.vectors + v];
        sum = multiplyAdd(broadcast, columns[v], sum);
      }
    }
  }

  SmallVector<Value> loadPanel(Value column) {
    SmallVector<Value> vectors;
    Type element = cast<MemRefType>(panel.memory.getType()).getElementType();
    auto stored = VectorType::get({block.lanes}, element);
    switch (panel.form) {
    case PanelForm::Plain:
    case PanelForm::Widened:
    case PanelForm::PairsF16:
      if (onlyLowHalves())
        break;
      for (int64_t v = 0; v < block.vectors; ++v) {
        Value value = vector::LoadOp::create(b, loc, stored, panel.memory,
                                             math.add(column, v * block.lanes));
        if (panel.form != PanelForm::Plain)
          value = extendHalves(b, loc, vectorType, value);
        vectors.push_back(value);
      }
      return vectors;
    case PanelForm::PairsInt8:
    case PanelForm::PairsUnsignedInt8:
      for (int64_t v = 0; v < block.vectors; ++v)
        vectors.push_back(widenPairs(
            vector::LoadOp::create(b, loc, stored, panel.memory,
                                   math.add(column, v * block.lanes)),
            panel.form == PanelForm::PairsUnsignedInt8));
      return vectors;
    case PanelForm::PairsBf16:
      break;
    case PanelForm::Integers:
    case PanelForm::Nibbles:
    case PanelForm::Floats8:
      llvm_unreachable("loadNumbers() reads these");
    }
    // Lane j of a word vector contains column j in the lower half and column j
    // + columns / 2 in the upper; both become f32 by moving them to the upper
    // half.
    auto words = VectorType::get({block.lanes}, b.getI32Type());
    auto halves = VectorType::get({2 * block.lanes}, element);
    auto splat = [&](int64_t value) -> Value {
      return arith::ConstantOp::create(
          b, loc, words,
          DenseElementsAttr::get(words, b.getI32IntegerAttr(value)));
    };
    int64_t lowVectors = panel.columns / 2 / block.lanes;
    SmallVector<Value> loaded;
    for (int64_t v = 0; v < std::min(lowVectors, block.vectors); ++v) {
      Value pairs = vector::LoadOp::create(
          b, loc, halves, panel.memory, math.add(column, 2 * v * block.lanes));
      loaded.push_back(vector::BitCastOp::create(b, loc, words, pairs));
      if (panel.form == PanelForm::PairsF16) {
        auto shorts = VectorType::get({block.lanes}, b.getI16Type());
        Value low = arith::TruncIOp::create(b, loc, shorts, loaded.back());
        low = vector::BitCastOp::create(b, loc, stored, low);
        vectors.push_back(arith::ExtFOp::create(b, loc, vectorType, low));
        continue;
      }
      Value low = arith::ShLIOp::create(b, loc, loaded.back(), splat(16));
      vectors.push_back(vector::BitCastOp::create(b, loc, vectorType, low));
    }
    for (int64_t v = lowVectors; v < block.vectors; ++v) {
      Value high =
          arith::AndIOp::create(b, loc, loaded[v - lowVectors],
                                splat(static_cast<int32_t>(0xffff0000)));
      vectors.push_back(vector::BitCastOp::create(b, loc, vectorType, high));
    }
    return vectors;
  }

  /// Loads the integers of a step, minus their zero points, in the accumulator
  /// type and without their scale.
  SmallVector<Value> loadNumbers(Value column, bool isOdd) {
    Type element = cast<MemRefType>(panel.memory.getType()).getElementType();
    auto narrow = VectorType::get({block.lanes}, element);
    auto words = VectorType::get({block.lanes}, b.getI32Type());
    bool areNibbles = panel.form == PanelForm::Nibbles;
    Value at = isOdd ? math.add(column, -panel.stepPitch()) : column;
    SmallVector<Value> vectors;
    for (int64_t v = 0; v < block.vectors; ++v) {
      Value loaded = vector::LoadOp::create(b, loc, narrow, panel.memory,
                                            math.add(at, v * block.lanes));
      if (panel.form == PanelForm::Floats8) {
        ValueMath values(b, loc);
        vectors.push_back(decodeFloat8(values, loaded, /*mayBeNaN=*/false));
        continue;
      }
      Value word = panel.areSigned
                       ? Value(arith::ExtSIOp::create(b, loc, words, loaded))
                       : Value(arith::ExtUIOp::create(b, loc, words, loaded));
      Value zero = panel.zeros.empty() ? Value() : panel.zeros[v];
      Value value =
          areNibbles ? nibblesOf(word, isOdd)
                     : Value(arith::SIToFPOp::create(b, loc, vectorType, word));
      if (!zero && panel.commonZero && !(areNibbles && hasTable()))
        zero = arith::ConstantOp::create(
            b, loc,
            DenseElementsAttr::get(vectorType,
                                   b.getF32FloatAttr(float(panel.commonZero))));
      if (zero)
        value = arith::SubFOp::create(b, loc, value, zero);
      vectors.push_back(value);
    }
    return vectors;
  }

  /// Returns true if one instruction looks numbers up by the low four bits of
  /// words.
  bool hasTable() const { return block.lanes == 16 && !block.isEmulated; }

  /// Returns the lower or upper four bits of bytes, one per word. A lookup also
  /// subtracts the common zero point.
  Value nibblesOf(Value bytes, bool isUpper) {
    ValueMath values(b, loc);
    if (isUpper)
      bytes = values.shiftRight(bytes, 4);
    if (!hasTable()) {
      if (!isUpper)
        bytes = values.bitAnd(bytes, 15);
      return arith::SIToFPOp::create(b, loc, vectorType, bytes);
    }
    SmallVector<float> numbers;
    for (int64_t i = 0; i < 16; ++i)
      numbers.push_back(float(i - panel.commonZero));
    Value table = arith::ConstantOp::create(
        b, loc, DenseElementsAttr::get(vectorType, ArrayRef<float>(numbers)));
    return LLVM::CallIntrinsicOp::create(
               b, loc, vectorType,
               b.getStringAttr("llvm.x86.avx512.permvar.sf.512"),
               ValueRange{table, bytes})
        .getResult(0);
  }

  /// Widens pairs of bytes to words of two i16.
  Value widenPairs(Value pairs, bool isUnsigned) {
    auto bytes = VectorType::get({2 * block.lanes}, b.getI8Type());
    auto shorts = bytes.clone(b.getI16Type());
    Value loaded = vector::BitCastOp::create(b, loc, bytes, pairs);
    if (isUnsigned)
      loaded = arith::ExtUIOp::create(b, loc, shorts, loaded);
    else
      loaded = arith::ExtSIOp::create(b, loc, shorts, loaded);
    return vector::BitCastOp::create(
        b, loc, VectorType::get({block.lanes}, b.getI32Type()), loaded);
  }

  /// Returns true if only the lower columns of f16 pairs are needed, which is
  /// cheaper than multiplying both.
  bool onlyLowHalves() const {
    return panel.form == PanelForm::PairsF16 &&
           2 * block.vectors * block.lanes <= panel.columns;
  }

  /// f16 pairs are upconverted in memory order: columns j and j + columns / 2
  /// are adjacent in the accumulators until here.
  void restoreColumnOrder(SmallVectorImpl<Value> &sums) {
    if (panel.form != PanelForm::PairsF16 || onlyLowHalves())
      return;
    for (int64_t r = 0; r < block.rows(); ++r) {
      SmallVector<Value> row(sums.begin() + r * block.vectors,
                             sums.begin() + (r + 1) * block.vectors);
      int64_t half = block.vectors / 2;
      for (int64_t v = 0; v < block.vectors; ++v) {
        // Vector v of the result gathers the even (lower half of the columns)
        // or odd lanes of two adjacent vectors.
        int64_t source = 2 * (v % half), odd = v >= half;
        SmallVector<int64_t> lanes;
        for (int64_t i = 0; i < block.lanes; ++i)
          lanes.push_back(2 * i + odd);
        sums[r * block.vectors + v] = vector::ShuffleOp::create(
            b, loc, row[source], row[source + 1], lanes);
      }
    }
  }

  OpBuilder &b;
  Location loc;
  IndexMath math;
  const RegisterBlock &block;
  Value rows;
  const Panel &panel;
  ArrayRef<KLoop> loops;
  const RowPrefetch &ahead;
  VectorType vectorType;
  int64_t sumsPerSet = 0;
  int64_t sets = 1;
};
} // namespace

SmallVector<Value> cpu::emitMicroKernel(OpBuilder &builder, Location loc,
                                        const RegisterBlock &block, Value rows,
                                        Value base, const Panel &panel,
                                        ArrayRef<KLoop> loops,
                                        const RowPrefetch &ahead) {
  return MicroKernelEmission(builder, loc, block, rows, panel, loops, ahead)
      .run(base);
}

void cpu::storeSums(OpBuilder &builder, Location loc,
                    const RegisterBlock &block, ValueRange sums, Value tile,
                    int64_t pitch, Value offset, bool add) {
  IndexMath math{builder, loc};
  auto type = VectorType::get({block.lanes}, block.type);
  for (int64_t r = 0; r < block.rows(); ++r)
    for (int64_t v = 0; v < block.vectors; ++v) {
      Value at = math.add(offset, r * pitch + v * block.lanes);
      Value sum = sums[r * block.vectors + v];
      if (add) {
        Value before = vector::LoadOp::create(builder, loc, type, tile, at);
        if (isa<FloatType>(block.type))
          sum = arith::AddFOp::create(builder, loc, before, sum);
        else
          sum = arith::AddIOp::create(builder, loc, before, sum);
      }
      vector::StoreOp::create(builder, loc, sum, tile, at);
    }
}
