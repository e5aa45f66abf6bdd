//===- MicroKernel.cpp - GEMM micro-kernel --------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MicroKernel.h"

#include "EmulatedArithmetic.h"

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
  ValueMath values(b, loc);
  if (!getElementTypeOrSelf(value.getType()).isBF16() ||
      !wide.getElementType().isF32())
    return values.extendFloat(value, wide.getElementType());
  return values.widenBf16(values.reinterpret(value, b.getI16Type()),
                          /*permutes=*/false);
}

void cpu::forEachStep(const IndexMath &math, const KLoop &loop,
                      llvm::function_ref<void(Value)> body) {
  if (loop.begin)
    math.loop(loop.begin, loop.end, 1, body);
  else
    math.loop(loop.extent, body);
}

std::optional<DepthSplits> cpu::partsOf(ArrayRef<KLoop> loops, int64_t longest,
                                        bool canonical) {
  int64_t inner = 1;
  for (size_t i = loops.size(); i-- > 0;) {
    int64_t extent = loops[i].extent;
    if (inner * extent <= longest) {
      inner *= extent;
      continue;
    }
    int64_t most = std::max<int64_t>(longest / inner, 1), size = most;
    if (canonical)
      return DepthSplits{i, most};
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
  ValueMath values(b, loc);
  auto type = cast<VectorType>(sum.getType());
  return values.intrinsic(type.getNumElements() == 16
                              ? "llvm.x86.avx512.vpdpbusd.512"
                              : "llvm.x86.avx512.vpdpbusd.256",
                          type,
                          {sum, values.reinterpret(x, b.getI8Type()),
                           values.reinterpret(y, b.getI8Type())});
}

/// Prefetch distance in panels of quantized weights, in bytes. AVX2 unpacks a
/// cache line in so many instructions that few lines are in flight.
static constexpr int64_t kPanelAhead = 1024, kLineBytes = 64;

namespace {
/// State of one emission. The loop nest over K is built by recursion.
class MicroKernelEmission {
public:
  MicroKernelEmission(OpBuilder &b, Location loc, const RegisterBlock &block,
                      Value rows, const Panel &panel, ArrayRef<KLoop> loops,
                      const RowPrefetch &ahead)
      : b(b), loc(loc), math{b, loc}, values(b, loc), block(block), rows(rows),
        panel(panel), loops(loops), ahead(ahead) {
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
    SmallVector<Value> sums(sets * sumsPerSet, values.constant(vectorType, 0));
    walk(0, base, panel.offset, sums);
    for (int64_t set = sets; set > 1; set /= 2)
      for (int64_t i = 0; i < set / 2 * sumsPerSet; ++i)
        sums[i] = values.add(sums[i], sums[i + set / 2 * sumsPerSet]);
    sums.truncate(sumsPerSet);
    restoreColumnOrder(sums);
    return sums;
  }

private:
  Value multiplyAdd(Value x, Value y, Value sum) {
    if (block.unit == ArithmeticUnit::DotBf16)
      return block.isEmulated ? emulateDotBf16(x, y, sum) : dotBf16(x, y, sum);
    if (block.unit == ArithmeticUnit::PairsF16)
      return dotHalves(x, y, sum);
    if (block.unit == ArithmeticUnit::PairsInt8)
      return dotBytes(x, y, sum);
    if (stepDepth(block.unit) > 1)
      return dotIntegers(x, y, sum);
    return isa<FloatType>(block.type) ? values.fma(x, y, sum)
                                      : values.add(values.mul(x, y), sum);
  }

  Value dotBf16(Value x, Value y, Value sum) {
    return values.intrinsic("llvm.x86.avx512bf16.dpbf16ps.512", vectorType,
                            {sum, values.reinterpret(x, b.getBF16Type()),
                             values.reinterpret(y, b.getBF16Type())});
  }

  /// Intel's manual, VDPBF16PS: two fused multiply-adds, upper operands first,
  /// rounded to nearest even; subnormal inputs and results count as zeros.
  Value emulateDotBf16(Value x, Value y, Value sum) {
    for (bool isUpper : {true, false})
      sum = multiplyAddHalves(values, /*isF16=*/false, isUpper, x, y, sum);
    return sum;
  }

  /// Two multiply-adds of f16 upconverted in registers.
  Value dotHalves(Value x, Value y, Value sum) {
    for (bool isUpper : {false, true})
      sum = values.fma(halfOf(values, isUpper, x), halfOf(values, isUpper, y),
                       sum);
    return sum;
  }

  /// Adds the products of the integers of words. The products of a step need
  /// fewer bits than the accumulator, so only the accumulator wraps.
  Value dotIntegers(Value x, Value y, Value sum) {
    if (block.unit == ArithmeticUnit::DotInt8)
      return addDotBytes(b, loc, sum, x, y, block.isEmulated);
    if (block.isEmulated)
      return addDots(b, loc, x, y, sum, 16, {true, true});
    Value products =
        values.intrinsic(block.lanes == 16 ? "llvm.x86.avx512.pmaddw.d.512"
                                           : "llvm.x86.avx2.pmadd.wd",
                         vectorType,
                         {values.reinterpret(x, b.getI16Type()),
                          values.reinterpret(y, b.getI16Type())});
    return values.add(sum, products);
  }

  /// The same for words of four bytes: first the even ones, then the odd ones.
  Value dotBytes(Value x, Value y, Value sum) {
    if (block.isEmulated)
      return addDots(b, loc, x, y, sum, 8, block.signs);
    auto bytes = [&](Value from, bool isOdd, bool isSigned) {
      Value pairs = values.reinterpret(from, b.getI16Type());
      if (!isOdd)
        pairs = values.shiftLeft(pairs, 8);
      pairs = isSigned ? values.shiftRightSigned(pairs, 8)
                       : values.shiftRight(pairs, 8);
      return values.reinterpret(pairs, b.getI32Type());
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
    int64_t bits = cast<MemRefType>(rows.getType()).getElementTypeBitWidth();
    Value word;
    for (int64_t first = 0, run; first < count; first += run) {
      run = count - first == 3 ? 2 : count - first;
      Value part = math.load(rows, math.add(at, first), run);
      if (run > 1)
        part = vector::ExtractOp::create(
            b, loc, values.reinterpret(part, b.getIntegerType(run * bits)), 0);
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
    if (block.unit == ArithmeticUnit::MultiplyAdd)
      return values.splat(math.load(rows, at), block.lanes);
    Value word;
    int64_t depth = stepDepth(block.unit);
    if (stored.isInteger(32)) {
      word = math.load(rows, at);
      if (missing)
        word = values.bitAnd(
            word, (int64_t(1) << 32 / depth * (depth - missing)) - 1);
    } else {
      word = loadFactors(at, depth - missing);
    }
    return values.splat(word, block.lanes);
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
                  SmallVectorImpl<Value> &sums) {
      Value nextRow = math.add(rowBase, k * loop.rowStride);
      Value nextColumn = math.add(columnBase, k * panelStride);
      if (last)
        step(nextRow, nextColumn, sums, k % sets,
             k + 1 == loop.extent ? loop.missing : 0, k % neighbours());
      else
        walk(depth + 1, nextRow, nextColumn, sums);
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
    Value begin = loop.begin ? loop.begin : math.constant(0),
          end = loop.end ? loop.end : math.constant(looped);
    Carried results =
        math.loop(begin, end, unroll, sums, [&](Value iv, ValueRange carried) {
          Carried next(carried);
          Value rowBase = math.add(row, math.mul(iv, loop.rowStride));
          Value columnBase = math.add(column, math.mul(iv, panelStride));
          if (last && ahead.begin)
            math.prefetch(rows,
                          math.add(ahead.begin, math.mul(iv, ahead.stride)),
                          /*locality=*/2);
          for (int64_t line = 0;
               last && prefetchesPanel() && line < unroll * panelStride;
               line += kLineBytes)
            math.prefetch(panel.memory,
                          math.add(columnBase, kPanelAhead + line),
                          /*locality=*/2);
          for (int64_t k = 0; k < unroll; ++k)
            at(k, rowBase, columnBase, next);
          return next;
        });
    sums.assign(results.begin(), results.end());
    for (int64_t k = looped; k < loop.extent; ++k)
      at(k, row, column, sums);
  }

  /// Returns true if quantized weights are read once, by one row, with AVX2.
  bool prefetchesPanel() const {
    return panel.isScaled() && block.rows() == 1 && block.lanes == 8;
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
    auto load = [&](int64_t first, int64_t lanes) {
      return math.load(panel.memory, math.add(column, first), lanes);
    };
    if (panel.form != PanelForm::PairsBf16 && !onlyLowHalves()) {
      for (int64_t v = 0; v < block.vectors; ++v) {
        Value value = load(v * block.lanes, block.lanes);
        if (panel.form == PanelForm::Widened ||
            panel.form == PanelForm::PairsF16)
          value = extendHalves(b, loc, vectorType, value);
        else if (panel.form != PanelForm::Plain)
          value = widenPairs(value, panel.form == PanelForm::PairsUnsignedInt8);
        vectors.push_back(value);
      }
      return vectors;
    }
    // Lane j of a word vector contains column j in the lower half and column j
    // + columns / 2 in the upper; both become f32 by moving them to the upper
    // half.
    int64_t lowVectors = panel.columns / 2 / block.lanes;
    SmallVector<Value> loaded;
    for (int64_t v = 0; v < std::min(lowVectors, block.vectors); ++v) {
      loaded.push_back(values.reinterpret(
          load(2 * v * block.lanes, 2 * block.lanes), b.getI32Type()));
      if (panel.form == PanelForm::PairsF16) {
        Value low = values.truncateInt(loaded.back(), b.getI16Type());
        vectors.push_back(
            values.extendFloat(values.reinterpret(low, element), block.type));
        continue;
      }
      vectors.push_back(
          values.reinterpret(values.shiftLeft(loaded.back(), 16), block.type));
    }
    for (int64_t v = lowVectors; v < block.vectors; ++v) {
      Value high = values.bitAnd(loaded[v - lowVectors], int64_t(0xffff0000));
      vectors.push_back(values.reinterpret(high, block.type));
    }
    return vectors;
  }

  /// Returns true if two vectors of 8-bit floats are decoded at once.
  bool decodesPairs() const {
    return panel.form == PanelForm::Floats8 && block.vectors % 2 == 0;
  }

  /// Loads the 8-bit floats of a step. Half of their instructions process both
  /// vectors of a pair as 16-bit words: the bits of a bf16 whose exponent is
  /// too small by the difference of the biases. The vectors of a pair are its
  /// even and its odd columns.
  SmallVector<Value> loadPairsOfFloats8(Value column) {
    constexpr NarrowFloat kFormat = kFloat8E4M3FN;
    constexpr int kShift = 7 - kFormat.fractionBits;
    double power = std::ldexp(1.0, 127 - kFormat.bias);
    SmallVector<Value> vectors;
    for (int64_t v = 0; v < block.vectors; v += 2) {
      Value codes = math.load(panel.memory, math.add(column, v * block.lanes),
                              2 * block.lanes);
      Value halves = values.bitAnd(
          values.shiftLeft(values.extendSigned(codes, b.getI16Type()), kShift),
          int64_t(int16_t(0x8000 | kFormat.magnitudeMask() << kShift)));
      Value words = values.reinterpret(halves, b.getI32Type());
      for (Value bits : {values.shiftLeft(words, 16),
                         values.bitAnd(words, int64_t(0xffff0000))})
        vectors.push_back(
            values.mul(values.reinterpret(bits, block.type), power));
    }
    return vectors;
  }

  /// Loads the integers of a step, minus their zero points, in the accumulator
  /// type and without their scale unless they have offsets.
  SmallVector<Value> loadNumbers(Value column, bool isOdd) {
    if (decodesPairs())
      return loadPairsOfFloats8(column);
    bool areNibbles = panel.form == PanelForm::Nibbles;
    Value at = isOdd ? math.add(column, -panel.stepPitch()) : column;
    SmallVector<Value> vectors;
    for (int64_t v = 0; v < block.vectors; ++v) {
      Value loaded =
          math.load(panel.memory, math.add(at, v * block.lanes), block.lanes);
      if (panel.form == PanelForm::Floats8) {
        vectors.push_back(decodeFloat(values, loaded, kFloat8E4M3FN,
                                      /*mayBeNaN=*/false));
        continue;
      }
      Value word = values.extendInt(loaded, b.getI32Type(), !panel.areSigned);
      Value zero = panel.zeros.empty() ? Value() : panel.zeros[v];
      Value value = areNibbles ? nibblesOf(word, isOdd)
                               : values.toFloat(word, block.type);
      if (!zero && panel.commonZero && !(areNibbles && hasTable()))
        zero = values.constant(vectorType, double(panel.commonZero));
      if (zero)
        value = values.sub(value, zero);
      if (!panel.offsets.empty())
        value = values.fma(value, panel.scales[v], panel.offsets[v]);
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
    if (isUpper)
      bytes = values.shiftRight(bytes, 4);
    if (!hasTable()) {
      if (!isUpper)
        bytes = values.bitAnd(bytes, 15);
      return values.toFloat(bytes, block.type);
    }
    SmallVector<float> numbers;
    for (int64_t i = 0; i < 16; ++i)
      numbers.push_back(float(i - panel.commonZero));
    Value table = arith::ConstantOp::create(
        b, loc, DenseElementsAttr::get(vectorType, ArrayRef<float>(numbers)));
    return values.intrinsic("llvm.x86.avx512.permvar.sf.512", vectorType,
                            {table, bytes});
  }

  /// Widens pairs of bytes to words of two i16.
  Value widenPairs(Value pairs, bool isUnsigned) {
    Value bytes = values.reinterpret(pairs, b.getI8Type());
    return values.reinterpret(
        values.extendInt(bytes, b.getI16Type(), isUnsigned), b.getI32Type());
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
    if (decodesPairs())
      for (int64_t v = 0; v < int64_t(sums.size()); v += 2) {
        Value even = sums[v], odd = sums[v + 1];
        for (int64_t i : {0, 1}) {
          SmallVector<int64_t> lanes;
          for (int64_t lane = 0; lane < block.lanes; ++lane)
            lanes.push_back((i * block.lanes + lane) / 2 +
                            lane % 2 * block.lanes);
          sums[v + i] = values.shuffle(even, odd, lanes);
        }
      }
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
        sums[r * block.vectors + v] =
            values.shuffle(row[source], row[source + 1], lanes);
      }
    }
  }

  OpBuilder &b;
  Location loc;
  IndexMath math;
  ValueMath values;
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
  for (int64_t r = 0; r < block.rows(); ++r)
    for (int64_t v = 0; v < block.vectors; ++v) {
      Value at = math.add(offset, r * pitch + v * block.lanes);
      Value sum = sums[r * block.vectors + v];
      if (add)
        sum =
            ValueMath(builder, loc).add(math.load(tile, at, block.lanes), sum);
      math.store(sum, tile, at);
    }
}
