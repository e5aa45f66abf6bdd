//===- ContractionAccumulators.cpp - accumulators and epilogues
//-------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ContractionEmitter.h"

#include "../Kernel/MathExpansion.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

/// Maximum steps of K per f32 accumulator: its error grows with them.
static constexpr int64_t kLongestSum = 512;

void ContractionEmitter::prepareSums(int64_t elements, int64_t tiles) {
  tileElements = elements;
  if (terms.count > 1)
    spare = stack(2 * elements);
  if (!storesAccumulators()) {
    sums = stack(elements);
    return;
  }
  sumElements = tiles * elements;
  sumsStart = scratchBytes;
  sums = area(sumElements, sumType);
}

void ContractionEmitter::clearSums() {
  math.loop(math.constant(0), math.constant(sumElements), lanes,
            [&](Value at) { storeZeros(sums, at, lanes); });
}

Value ContractionEmitter::loadSums(Value at, VectorType type) {
  return vector::LoadOp::create(b, loc, type, sums, at);
}

Value ContractionEmitter::plainResult() const {
  Operation *op = contraction.op;
  auto yields =
      func::FuncOp(kernel).getBody().front().getTerminator()->getOperands();
  if (yields.size() != 1 || yields.front() != op->getResult(0))
    return {};
  Value memory = arguments.outputs().front();
  auto type = cast<MemRefType>(memory.getType());
  return type.getElementType() == sumType ? memory : Value();
}

void ContractionEmitter::multiply(ArrayRef<int64_t> rowOffsets, int64_t vectors,
                                  Value memory, Value base,
                                  ArrayRef<KLoop> loops, Value offset,
                                  const RowPrefetch &ahead) {
  RegisterBlock block = blockOf(rowOffsets, vectors);
  if (tiles)
    return emitTileKernel(b, loc, *tiles, block, memory, base, panel, loops,
                          {sums, offset, columns}, /*add=*/storesAccumulators(),
                          spare);
  if (storesAccumulators())
    for (int64_t r = 0; r < block.rows(); ++r)
      fetch(sums, math.add(offset, r * columns), vectors * lanes);
  if (std::optional<DepthSplits> parts = partsOfDepth(block, loops))
    return multiplyParts(block, memory, base, loops, *parts, offset, ahead);
  mpc::storeSums(
      b, loc, block,
      emitMicroKernel(b, loc, block, memory, base, panel, loops, ahead), sums,
      columns, offset, /*add=*/storesAccumulators());
}

std::optional<DepthSplits>
ContractionEmitter::partsOfDepth(const RegisterBlock &block,
                                 ArrayRef<KLoop> loops) const {
  // Narrow operands are less accurate than any summation order; a quantized
  // panel's are as accurate as others.
  bool isExact = panel.form == PanelForm::Plain || contraction.narrow;
  if (block.unit != ArithmeticUnit::MultiplyAdd || !sumType.isF32() || !isExact)
    return std::nullopt;
  if (!panel.isScaled())
    return partsOf(loops, kLongestSum);
  // A split has one scale. For int4 it starts at a whole byte.
  int64_t group = contraction.narrow.getGroup();
  std::optional<DepthSplits> parts =
      partsOf(loops, std::min(group, kLongestSum));
  if (!parts)
    return DepthSplits{0, loops.front().extent};
  int64_t steps = parts->size * panelSteps(loops.drop_front(parts->loop));
  if (panel.form == PanelForm::Nibbles && steps % 2)
    parts->size = kLongestSum;
  return parts;
}

Value ContractionEmitter::narrowGroupOf(Value k) const {
  DequantizeOp narrow = contraction.narrow;
  int64_t group = narrow.getGroup();
  bool isOnly = narrow.getResult().getType().getDimSize(1) == group;
  return isOnly ? math.constant(0) : math.div(k, group);
}

SmallVector<Value> ContractionEmitter::loadOfGroup(Value tensor, Value group,
                                                   int64_t vectors, Type type) {
  int64_t groups = cast<RankedTensorType>(tensor.getType()).getDimSize(1);
  Value line = math.add(math.mul(panel.number, groups), group);
  Value memory = math.flatten(memoryOf(tensor));
  Type element = cast<MemRefType>(memory.getType()).getElementType();
  auto wide = VectorType::get({lanes}, type);
  SmallVector<Value> values;
  for (int64_t v = 0; v < vectors; ++v) {
    Value loaded = vector::LoadOp::create(
        b, loc, VectorType::get({lanes}, element), memory,
        math.add(math.mul(line, columns), v * lanes));
    if (isa<IntegerType>(type))
      loaded = arith::ExtUIOp::create(b, loc, wide, loaded);
    else if (isa<IntegerType>(element))
      loaded = arith::UIToFPOp::create(b, loc, wide, loaded);
    else if (element != type)
      loaded = extendHalves(b, loc, wide, loaded);
    values.push_back(loaded);
  }
  return values;
}

void ContractionEmitter::multiplyParts(const RegisterBlock &block, Value memory,
                                       Value base, ArrayRef<KLoop> loops,
                                       DepthSplits parts, Value offset,
                                       const RowPrefetch &ahead) {
  if (!storesAccumulators()) {
    auto type = VectorType::get({lanes}, sumType);
    Value zero = arith::ConstantOp::create(b, loc, type, b.getZeroAttr(type));
    mpc::storeSums(b, loc, block,
                   SmallVector<Value>(block.rows() * block.vectors, zero), sums,
                   columns, offset);
  }
  Value start = panel.offset;
  // Adds the products of `extent` positions of loop `parts.loop`, from `first`
  // on; `position` is that of K.
  auto add = [&](Value row, Value column, Value first, Value position,
                 int64_t extent) {
    SmallVector<KLoop> part(loops.drop_front(parts.loop));
    part.front().extent = extent;
    part.front().begin = part.front().end = {};
    panel.offset = column;
    RowPrefetch next = ahead;
    if (next.begin)
      next.begin = math.add(next.begin, math.mul(first, ahead.stride));
    DequantizeOp narrow = contraction.narrow;
    if (narrow && narrow.getZero())
      panel.zeros = loadOfGroup(narrow.getZero(), narrowGroupOf(position),
                                block.vectors, sumType);
    SmallVector<Value> products =
        emitMicroKernel(b, loc, block, memory, row, panel, part, next);
    if (narrow && narrow.getScale()) {
      SmallVector<Value> scales = loadOfGroup(
          narrow.getScale(), narrowGroupOf(position), block.vectors, sumType);
      for (auto [index, product] : llvm::enumerate(products))
        product = arith::MulFOp::create(b, loc, product,
                                        scales[index % block.vectors]);
    }
    mpc::storeSums(b, loc, block, products, sums, columns, offset,
                   /*add=*/true);
  };
  auto walk = [&](auto &&self, size_t depth, Value row, Value column,
                  Value position) -> void {
    const KLoop &loop = loops[depth];
    int64_t steps = panelSteps(loops.drop_front(depth));
    auto at = [&](Value k, auto &&body) {
      body(math.add(row, math.mul(k, loop.rowStride)),
           math.add(column, math.mul(k, panel.stepPitch() * steps)),
           math.add(position, math.mul(k, steps)));
    };
    if (depth < parts.loop)
      return forEachStep(math, loop, [&](Value k) {
        at(k,
           [&](Value r, Value c, Value p) { self(self, depth + 1, r, c, p); });
      });
    auto addAt = [&](Value k, int64_t extent) {
      at(k, [&](Value r, Value c, Value p) { add(r, c, k, p, extent); });
    };
    if (loop.begin)
      return forEachStep(math, loop, [&](Value k) { addAt(k, 1); });
    int64_t whole = loop.extent / parts.size * parts.size;
    math.loop(math.constant(0), math.constant(whole), parts.size,
              [&](Value k) { addAt(k, parts.size); });
    if (whole < loop.extent)
      addAt(math.constant(whole), loop.extent - whole);
  };
  walk(walk, 0, base, start, math.constant(0));
  panel.offset = start;
}

void ContractionEmitter::fetch(Value memory, ValueRange at, int64_t elements,
                               Cache into) {
  SmallVector<Value> position(at);
  Type element = cast<MemRefType>(memory.getType()).getElementType();
  int64_t line = kLineBytes / bytesPerElement(element);
  for (int64_t first = 0; first < elements; first += line) {
    position.back() = math.add(at.back(), first);
    memref::PrefetchOp::create(b, loc, memory, position, /*isWrite=*/false,
                               /*localityHint=*/unsigned(into),
                               /*isDataCache=*/true);
  }
}

void ContractionEmitter::prefetchResiduals(Value rowCount, Indices indices,
                                           Value column, int64_t used) {
  if (!blocks.fetchesResiduals())
    return;
  math.loop(math.constant(0), rowCount, 1, [&](Value row) {
    SmallVector<Value> at = indices(row);
    at.push_back(column);
    for (BlockArgument residual : contraction.residuals())
      fetch(memoryOf(residual), at, used);
  });
}

void ContractionEmitter::storeSums(Value offset, Value rowCount,
                                   Indices indices, unsigned columnDim,
                                   Value column, int64_t used) {
  Value tile = sums;
  if (storesAccumulators()) {
    Value start =
        math.add(math.mul(offset, bytesPerElement(sumType)), sumsStart);
    tile =
        memref::ViewOp::create(b, loc, MemRefType::get({tileElements}, sumType),
                               arguments.scratch, start, ValueRange{});
  }
  storeTile(tile, columns, rowCount, indices, columnDim, column, used);
}

void ContractionEmitter::recomputeOverflowed(Value tile, Value first,
                                             int64_t used, Indices positionOf) {
  DequantizeOp narrow = contraction.narrow;
  if (!narrow || !narrow.getScale() || narrow.getDepth() > 1)
    return;
  ValueMath values(b, loc);
  auto type = VectorType::get({lanes}, sumType);
  // 0, except for infinities and NaNs, which give NaN.
  Value zeros = values.constant(type, 0);
  for (int64_t at = 0; at < used; at += lanes)
    zeros = values.fma(
        vector::LoadOp::create(b, loc, type, tile, math.add(first, at)), 0.0,
        zeros);
  auto isNaN = [&](Value value) {
    return values.compare(arith::CmpFPredicate::UNO, value, value);
  };
  auto when = [&](Value condition, llvm::function_ref<void()> body) {
    auto branch = scf::IfOp::create(b, loc, condition);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(branch.thenBlock()->getTerminator());
    body();
  };
  Value isAny = vector::ReductionOp::create(b, loc, vector::CombiningKind::OR,
                                            isNaN(zeros));
  when(isAny, [&] {
    math.loop(used, [&](Value offset) {
      Value at = math.add(first, offset);
      Value sum = memref::LoadOp::create(b, loc, tile, at);
      when(isNaN(values.sub(sum, sum)), [&] {
        ElementEmitter emitter = makeEmitter();
        FailureOr<Value> scaled =
            emitter.emit(contraction.op->getResult(0), positionOf(offset), 1);
        if (failed(scaled))
          status = failure();
        else
          memref::StoreOp::create(b, loc, *scaled, tile, at);
      });
    });
  });
}

void ContractionEmitter::storeTile(Value tile, int64_t pitch, Value rowCount,
                                   Indices indices, unsigned columnDim,
                                   Value column, int64_t used) {
  auto type = cast<RankedTensorType>(contraction.op->getResult(0).getType());
  bool vectors = columnDim + 1 == type.getRank();
  auto load = [&](Value row, Value offset, int64_t lanes) -> Value {
    Value at = math.add(math.mul(row, pitch), offset);
    if (lanes == 1)
      return memref::LoadOp::create(b, loc, tile, at);
    return vector::LoadOp::create(b, loc, VectorType::get({lanes}, sumType),
                                  tile, at);
  };
  auto storeValues = [&](ArrayRef<Value> values, Value row, Value place,
                         int64_t lanes, Value mask) {
    SmallVector<Value> position = indices(row);
    position.insert(position.begin() + columnDim, place);
    ElementEmitter emitter = makeEmitter();
    if (failed(stored.store(emitter, arguments.outputs(), values, position,
                            lanes, mask)))
      status = failure();
  };
  auto storeRun = [&](Value row, Value offset, int64_t lanes, Value mask) {
    storeValues(load(row, offset, lanes), row, math.add(column, offset), lanes,
                mask);
  };
  auto mend = [&](Value row) {
    recomputeOverflowed(tile, math.mul(row, pitch), used, [&](Value offset) {
      SmallVector<Value> position = indices(row);
      position.insert(position.begin() + columnDim, math.add(column, offset));
      return position;
    });
  };
  if (contraction.pair) {
    // Panels are whole blocks, and so are both halves.
    const GatedMatmulColumns &pair = *contraction.pair;
    Value first = math.div(column, 2);
    int64_t most = std::min(2 * lanes, pair.block);
    return math.loop(math.constant(0), rowCount, 1, [&](Value row) {
      mend(row);
      forPowers(used / 2, most, [&](int64_t at, int64_t run) {
        SmallVector<Value, 2> values;
        for (int64_t half : {0, 1})
          values.push_back(
              load(row, math.constant(pair.placeOf(at, half)), run));
        storeValues(values, row, math.add(first, at), run, Value());
      });
    });
  }
  math.loop(math.constant(0), rowCount, 1, [&](Value row) {
    mend(row);
    if (!vectors) {
      math.loop(used, [&](Value offset) { storeRun(row, offset, 1, Value()); });
      return;
    }
    // The last vector is masked if masked stores are cheap.
    bool masks = contraction.target.hasAvx512();
    int64_t most = 2 * lanes, whole = masks ? used - used % most : used;
    forPowers(whole, most, [&](int64_t at, int64_t run) {
      storeRun(row, math.constant(at), run, Value());
    });
    if (int64_t rest = used - whole) {
      int64_t run = llvm::PowerOf2Ceil(rest);
      Value mask;
      if (rest < run)
        mask = vector::ConstantMaskOp::create(
            b, loc, VectorType::get({run}, b.getI1Type()),
            ArrayRef<int64_t>{rest});
      storeRun(row, math.constant(whole), run, mask);
    }
  });
}
