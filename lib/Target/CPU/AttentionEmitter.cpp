//===- AttentionEmitter.cpp - attention kernels ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One work item is a group of row blocks of one head. Key and value are packed
// once per item; the scores of a row block live in scratch, become exponentials
// there and meet the value in a second pass of the micro-kernel. Rows are
// divided by their sums at the end.
//
//===----------------------------------------------------------------------===//

#include "../Kernel/MathExpansion.h"
#include "ContractionEmitter.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;
using namespace mpc;

static constexpr int64_t kWantedItems = 8;
/// Fewest row blocks that pay for packing key and value again.
static constexpr int64_t kFewestBlocks = 4;

namespace {
class AttentionEmitter {
public:
  AttentionEmitter(func::FuncOp kernel, func::FuncOp impl, AttentionOp op,
                   const CpuTarget &target)
      : context(kernel, impl, op, target), op(op), target(target),
        b(impl.getBody().front().getTerminator()), math{b, op.getLoc()} {}

  FailureOr<EmittedKernel> run();

private:
  /// A packed operand: panels of `columns`, each `[depth][columns]`.
  struct Packed {
    int64_t depth, width, columns, panels;
    Panel panel;
  };
  Packed makePacked(int64_t depth, int64_t width);
  void pack(Value tensor, bool transposed, Packed &packed);
  void emitItem(Value item);
  void emitRowBlock(Value block);
  void emitSoftmax(Value row, Value local);
  /// Scaled and masked scores of `lanes` positions from `column` on.
  Value maskScores(Value scores, Value row, Value column, int64_t lanes,
                   Value mask);
  Value splatted(Value scalar, int64_t lanes);

  ContractionKernel context;
  AttentionOp op;
  CpuTarget target;
  OpBuilder b;
  IndexMath math;
  LogicalResult status = success();

  Type sumType;
  int64_t lanes = 0, length = 0, positions = 0, depth = 0, width = 0;
  SmallVector<int64_t> batchShape, keyBatch;
  Packed key, value;
  RowSplit split{1, 1};
  int64_t blocksPerItem = 1, rowGroups = 1;
  bool queryInPlace = false;
  int64_t queryPitch = 0, scorePitch = 0;
  Value queryMemory, scores, inverses, tile;
  SmallVector<Value> head, keyHead;
  Value queryBase;
};
} // namespace

AttentionEmitter::Packed AttentionEmitter::makePacked(int64_t depth,
                                                      int64_t width) {
  Packed packed;
  packed.depth = depth;
  packed.width = width;
  packed.columns =
      std::min<int64_t>(2 * lanes, llvm::PowerOf2Ceil(std::max(width, lanes)));
  packed.panels = llvm::divideCeil(width, packed.columns);
  packed.panel.columns = packed.columns;
  return packed;
}

FailureOr<EmittedKernel> AttentionEmitter::run() {
  if (failed(context.checkResults()))
    return failure();
  auto query = cast<RankedTensorType>(op.getQuery().getType());
  auto keyType = cast<RankedTensorType>(op.getKey().getType());
  int64_t rank = query.getRank();
  sumType = query.getElementType().isF64() ? Type(b.getF64Type())
                                           : Type(b.getF32Type());
  lanes = vectorLanes(sumType, target);
  length = query.getDimSize(rank - 2);
  depth = query.getDimSize(rank - 1);
  positions = keyType.getDimSize(rank - 2);
  width = cast<RankedTensorType>(op.getValue().getType()).getDimSize(rank - 1);
  batchShape.assign(query.getShape().begin(), query.getShape().end() - 2);
  keyBatch.assign(keyType.getShape().begin(), keyType.getShape().end() - 2);
  key = makePacked(depth, positions);
  value = makePacked(positions, width);

  int64_t vectors = std::max(key.columns, value.columns) / lanes;
  split = RowSplit(length, maxBlockRows(vectors, target));
  int64_t heads = productOf(batchShape);
  blocksPerItem = split.blocks;
  while (heads * llvm::divideCeil(split.blocks, blocksPerItem) < kWantedItems &&
         blocksPerItem / 2 >= kFewestBlocks)
    blocksPerItem = llvm::divideCeil(blocksPerItem, 2);
  rowGroups = llvm::divideCeil(split.blocks, blocksPerItem);

  // Scratch: key, value, widened query rows, scores.
  int64_t bytes = bytesPerElement(sumType), scratchBytes = 0;
  auto area = [&](int64_t elements) {
    Value view =
        math.view(context.arguments.scratch, scratchBytes, elements, sumType);
    scratchBytes += llvm::alignTo(elements * bytes, 64);
    return view;
  };
  key.panel.memory =
      area(std::max<int64_t>(key.panels * key.depth * key.columns, 1));
  value.panel.memory =
      area(std::max<int64_t>(value.panels * value.depth * value.columns, 1));
  queryInPlace =
      context.memoryOf(op.getQuery()) && query.getElementType() == sumType;
  queryPitch = queryInPlace || depth * bytes % 4096 ? depth : depth + lanes;
  queryMemory = queryInPlace
                    ? math.flatten(context.memoryOf(op.getQuery()))
                    : area(std::max<int64_t>(split.largest() * queryPitch, 1));
  scorePitch = key.panels * key.columns;
  if (scorePitch * bytes % 4096 == 0)
    scorePitch += lanes;
  scores = area(split.largest() * scorePitch);
  auto stack = [&](int64_t elements) -> Value {
    return memref::AllocaOp::create(b, op.getLoc(),
                                    MemRefType::get({elements}, sumType),
                                    b.getI64IntegerAttr(64));
  };
  inverses = stack(split.largest());
  tile = stack(split.largest() * value.columns);

  math.loop(context.arguments.begin, context.arguments.end, 1,
            [&](Value item) { emitItem(item); });
  if (failed(status))
    return failure();
  EmittedKernel result;
  result.items = heads * rowGroups;
  result.scratchBytes = scratchBytes;
  double cycles = (2.0 * (depth + width) + 40) * length * positions /
                  (4.0 * lanes) / rowGroups;
  result.grain = grainOf(cycles);
  return result;
}

void AttentionEmitter::pack(Value tensor, bool transposed, Packed &packed) {
  math.loop(packed.panels, [&](Value number) {
    Value offset = math.mul(number, packed.depth * packed.columns);
    if (failed(context.packPanel(b, tensor, keyHead, transposed, number,
                                 packed.columns, packed.panel.memory, offset)))
      status = failure();
  });
}

void AttentionEmitter::emitItem(Value item) {
  SmallVector<Value> position =
      math.delinearize(item, {productOf(batchShape), rowGroups});
  head = math.delinearize(position[0], batchShape);
  keyHead = head;
  keyHead.back() = math.div(head.back(), batchShape.back() / keyBatch.back());
  queryBase = math.mul(position[0], length * depth);
  pack(op.getKey(), /*transposed=*/true, key);
  pack(op.getValue(), /*transposed=*/false, value);
  Value begin = math.mul(position[1], blocksPerItem);
  Value end = math.min(math.add(begin, blocksPerItem), split.blocks);
  math.loop(begin, end, 1, [&](Value block) { emitRowBlock(block); });
}

void AttentionEmitter::emitRowBlock(Value block) {
  BlockRows blockRows(math, split, block);
  Value row = blockRows.first(), rowCount = blockRows.count();
  Value base = math.constant(0);
  if (queryInPlace) {
    base = math.add(queryBase, math.mul(row, depth));
  } else {
    auto indices = [&](Value r) {
      SmallVector<Value> at(head);
      at.push_back(math.add(row, r));
      return at;
    };
    if (failed(context.packRows(b, op.getQuery(), indices, rowCount, depth,
                                queryMemory, queryPitch)))
      status = failure();
  }
  math.loop(key.panels, [&](Value number) {
    key.panel.offset = math.mul(number, key.depth * key.columns);
    blockRows.with([&](int64_t rows) {
      SumBlock sums{sumType, lanes, key.columns / lanes, {}};
      for (int64_t r = 0; r < rows; ++r)
        sums.rowOffsets.push_back(r * queryPitch);
      SmallVector<Value> values = emitMicroKernel(
          b, op.getLoc(), sums, queryMemory, base, key.panel, KLoop{depth, 1});
      storeSums(b, op.getLoc(), sums, values, scores, scorePitch,
                math.mul(number, key.columns));
    });
  });
  math.loop(math.constant(0), rowCount, 1,
            [&](Value local) { emitSoftmax(math.add(row, local), local); });

  math.loop(value.panels, [&](Value number) {
    value.panel.offset = math.mul(number, value.depth * value.columns);
    blockRows.with([&](int64_t rows) {
      SumBlock sums{sumType, lanes, value.columns / lanes, {}};
      for (int64_t r = 0; r < rows; ++r)
        sums.rowOffsets.push_back(r * scorePitch);
      SmallVector<Value> values =
          emitMicroKernel(b, op.getLoc(), sums, scores, math.constant(0),
                          value.panel, KLoop{positions, 1});
      for (int64_t r = 0; r < rows; ++r) {
        Value inverse =
            memref::LoadOp::create(b, op.getLoc(), inverses, math.constant(r));
        for (int64_t v = 0; v < sums.vectors; ++v) {
          Value &sum = values[r * sums.vectors + v];
          sum = arith::MulFOp::create(b, op.getLoc(), sum,
                                      splatted(inverse, lanes));
        }
      }
      storeSums(b, op.getLoc(), sums, values, tile, value.columns);
    });
    auto indices = [&](Value r) {
      SmallVector<Value> at(head);
      at.push_back(math.add(row, r));
      return at;
    };
    auto store = [&](int64_t used) {
      if (failed(context.storeTile(b, tile, value.columns, rowCount, indices,
                                   head.size() + 1,
                                   math.mul(number, value.columns), used)))
        status = failure();
    };
    withPanelColumns(math, number, value.panels, value.columns, width, store);
  });
}

Value AttentionEmitter::splatted(Value scalar, int64_t count) {
  return vector::BroadcastOp::create(
      b, op.getLoc(), VectorType::get({count}, scalar.getType()), scalar);
}

Value AttentionEmitter::maskScores(Value scores, Value row, Value column,
                                   int64_t count, Value lanesUsed) {
  Location loc = op.getLoc();
  ValueMath values(b, loc);
  auto type = cast<VectorType>(scores.getType());
  Value none = values.constant(type, -std::numeric_limits<double>::infinity());
  scores = values.mul(scores, op.getScale().convertToDouble());
  if (Value mask = op.getMask()) {
    ArrayRef<int64_t> shape = cast<RankedTensorType>(mask.getType()).getShape();
    SmallVector<Value> full(head), at;
    full.append({row, column});
    for (size_t i = 0; i < shape.size(); ++i)
      at.push_back(shape[i] == 1 ? math.constant(0)
                                 : full[full.size() - shape.size() + i]);
    bool oneForAll = shape.empty() || shape.back() == 1;
    ElementEmitter emitter = context.makeEmitter(b);
    FailureOr<Value> emitted = emitter.emit(mask, at, oneForAll ? 1 : count,
                                            oneForAll ? Value() : lanesUsed);
    if (failed(emitted)) {
      status = failure();
      return scores;
    }
    Value value = *emitted;
    if (!isa<VectorType>(value.getType()))
      value = splatted(value, count);
    if (isa<FloatType>(getElementTypeOrSelf(mask.getType()))) {
      unsigned from =
          getElementTypeOrSelf(value.getType()).getIntOrFloatBitWidth();
      if (from < sumType.getIntOrFloatBitWidth())
        value = arith::ExtFOp::create(b, loc, type, value);
      else if (from > sumType.getIntOrFloatBitWidth())
        value = arith::TruncFOp::create(b, loc, type, value);
      scores = values.add(scores, value);
    } else {
      scores = values.select(value, scores, none);
    }
  }
  if (op.getCausal()) {
    // Kept while t <= s + T - S, that is t + S < s + T + 1.
    auto indexType = VectorType::get({count}, b.getIndexType());
    Value steps = vector::StepOp::create(b, loc, indexType);
    Value at = arith::AddIOp::create(
        b, loc, splatted(math.add(column, length), count), steps);
    Value limit = splatted(math.add(row, positions + 1), count);
    Value kept =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, at, limit);
    scores = values.select(kept, scores, none);
  }
  if (lanesUsed)
    scores = values.select(lanesUsed, scores, none);
  return scores;
}

/// Turns the scores of one row into exponentials and leaves the inverse of
/// their sum; both are 0 for a row that keeps nothing.
void AttentionEmitter::emitSoftmax(Value row, Value local) {
  Location loc = op.getLoc();
  MathExpansion values(b, loc, elementTarget(target));
  int64_t wide = 2 * lanes, whole = positions - positions % wide;
  int64_t rest = positions - whole;
  auto type = VectorType::get({wide}, sumType);
  Value base = math.mul(local, scorePitch);
  Value none = values.constant(type, -std::numeric_limits<double>::infinity());

  // A row's place in scratch is a whole number of panels, at least as long as
  // the vectors that cover it.
  bool vectorTail = rest && scorePitch >= whole + wide;
  int64_t tailLanes =
      vectorTail ? wide : llvm::PowerOf2Ceil(std::max<int64_t>(rest, 1));
  auto tailType = VectorType::get({tailLanes}, sumType);
  Value tailMask;
  if (rest && rest < tailLanes)
    tailMask = vector::ConstantMaskOp::create(
        b, loc, VectorType::get({tailLanes}, b.getI1Type()),
        ArrayRef<int64_t>{rest});

  auto maximum = [&](Value x, Value y) -> Value {
    return arith::MaximumFOp::create(b, loc, x, y);
  };
  auto first = [&](Value column, VectorType of, Value mask) {
    Value at = math.add(base, column);
    Value loaded = vector::LoadOp::create(b, loc, of, scores, at);
    loaded = maskScores(loaded, row, column, of.getDimSize(0), mask);
    vector::StoreOp::create(b, loc, loaded, scores, at);
    return loaded;
  };
  auto reduceLoop = [&](Value init,
                        llvm::function_ref<Value(Value, Value)> step) -> Value {
    if (!whole)
      return init;
    auto loop =
        scf::ForOp::create(b, loc, math.constant(0), math.constant(whole),
                           math.constant(wide), init);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    scf::YieldOp::create(
        b, loc, step(loop.getInductionVar(), loop.getRegionIterArg(0)));
    return loop.getResult(0);
  };
  auto reduce = [&](vector::CombiningKind kind, Value vector) -> Value {
    return vector::ReductionOp::create(b, loc, kind, vector);
  };

  Value largest = reduceLoop(none, [&](Value column, Value sofar) {
    return maximum(sofar, first(column, type, Value()));
  });
  largest = reduce(vector::CombiningKind::MAXIMUMF, largest);
  if (rest) {
    Value tail = first(math.constant(whole), tailType, tailMask);
    largest = maximum(largest, reduce(vector::CombiningKind::MAXIMUMF, tail));
  }
  // Subtracting -inf from -inf would give NaN instead of nothing.
  Value empty = values.compare(arith::CmpFPredicate::OEQ, largest,
                               -std::numeric_limits<double>::infinity());
  Value shift = values.select(empty, 0.0, largest);

  auto second = [&](Value column, VectorType of) -> Value {
    Value at = math.add(base, column);
    Value loaded = vector::LoadOp::create(b, loc, of, scores, at);
    Value power = values.expNonPositive(
        values.sub(loaded, splatted(shift, of.getDimSize(0))));
    vector::StoreOp::create(b, loc, power, scores, at);
    return power;
  };
  Value sum =
      reduceLoop(values.constant(type, 0.0), [&](Value column, Value sofar) {
        return values.add(sofar, second(column, type));
      });
  sum = reduce(vector::CombiningKind::ADD, sum);
  if (rest)
    sum = values.add(sum, reduce(vector::CombiningKind::ADD,
                                 second(math.constant(whole), tailType)));
  Value inverse = values.div(values.constant(sumType, 1.0), sum);
  inverse = values.select(empty, 0.0, inverse);
  memref::StoreOp::create(b, loc, inverse, inverses, local);
}

FailureOr<EmittedKernel> mpc::emitAttention(func::FuncOp kernel,
                                            func::FuncOp impl,
                                            const CpuTarget &target) {
  AttentionOp op;
  kernel.walk([&](AttentionOp found) { op = found; });
  if (elementCount(op.getResult()) == 0)
    return EmittedKernel{0, 1, 0};
  return AttentionEmitter(kernel, impl, op, target).run();
}
