//===- Attention.cpp - flash attention ------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// FlashAttention: a block computes query rows of one head and loops over tiles
// of keys, with scores, mask, online softmax (running maximum and total per
// row) and the GEMM with the values in one pass. Key and value tiles are
// double-buffered in shared memory; the GEMMs are those of an AttentionUnit.
//
// Split-KV: for few queries, one block per head leaves most multiprocessors
// idle. The keys are split into parts, one block each, which store their
// accumulators and running maxima in the scratch buffer; the last-arriving
// block of a tile reduces them in the order of parts (flash-decoding: T. Dao,
// D. Haziza, F. Massa, G. Sizov, "Flash-Decoding for long-context inference",
// 2023).
//
//===----------------------------------------------------------------------===//

#include "../Plan/KernelPlan.h"
#include "../Plan/LastArrivingBlock.h"
#include "AttentionUnit.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

/// Maximum rows of a tile that combines heads (grouped-query attention).
static constexpr int64_t kGroupRows = 64, kGroupRowsOfDouble = 32;
/// Split-KV: minimum keys per block, and maximum parts, which the last block
/// reduces in the time of one part.
static constexpr int64_t kFewestKeys = 128, kMostParts = 32;
/// Elements after a row's partial accumulators, for maximum and total; keeps
/// alignment. Padding of the result tile's rows against bank conflicts.
static constexpr int64_t kBehindSums = 4, kResultSkew = 8;

//===----------------------------------------------------------------------===//
// Schedule
//===----------------------------------------------------------------------===//

namespace {
/// Parameters of the schedule.
struct AttentionSchedule {
  /// Tile sizes: query rows, keys, columns of query and key, and of values.
  int64_t rows = 0, keys = 0, depth = 0, columns = 0;
  /// Value columns whose fragments are loaded at once.
  int64_t pieceColumns = 0;
  /// Buffers per tile; two with asynchronous copies.
  int64_t stages = 0;
  bool asyncQuery = false, queryInRegisters = false;
  /// Number of 16-bit values that a weight (probability) is split into.
  int64_t weightPieces = 0;
  /// Whether GEMMs use tensor cores.
  bool matrixUnits = false;
  /// Query heads per tile.
  int64_t grouped = 1;
  /// Split-KV: blocks that share the keys of a tile, and keys per block.
  int64_t parts = 0, partKeys = 0;

  static void map(auto &schedule, auto field) {
    field("rows", schedule.rows);
    field("keys", schedule.keys);
    field("depth", schedule.depth);
    field("columns", schedule.columns);
    field("piece_columns", schedule.pieceColumns);
    field("stages", schedule.stages);
    field("async_query", schedule.asyncQuery, false);
    field("query_in_registers", schedule.queryInRegisters, false);
    field("weight_pieces", schedule.weightPieces, 0);
    field("matrix_units", schedule.matrixUnits, false);
    field("grouped", schedule.grouped, 1);
    field("parts", schedule.parts);
    field("part_keys", schedule.partKeys);
  }
};
} // namespace

/// Returns the bytes of the counters before the partial results.
static int64_t counterBytes(int64_t tiles) {
  return llvm::alignTo(tiles * int64_t(sizeof(int32_t)), 64);
}

/// Returns one if the op allows it (tf32), or if the stored results are no more
/// precise than 16 bits; else enough for an f32 mantissa.
static int64_t weightPieces(func::FuncOp kernel, MathType type) {
  if (type == MathType::TensorFloat32)
    return 1;
  bool isHalf = type == MathType::Float16;
  bool storesNarrow = llvm::all_of(kernel.getResultTypes(), [&](Type result) {
    auto stored = dyn_cast<FloatType>(getElementTypeOrSelf(result));
    return stored && stored.getFPMantissaWidth() <= (isHalf ? 11u : 8u);
  });
  return storesNarrow ? 1 : isHalf ? 2 : 3;
}

/// Returns the value columns of a piece, a register each.
static int64_t pieceColumns(int64_t columns, bool isTf32) {
  // The query in tf32 takes twice the registers.
  if (isTf32 && columns > 64)
    return 16;
  // Wide accumulators leave few registers.
  for (int64_t piece : {64, 48, 32})
    if (columns % piece == 0 && (columns <= 128 || piece <= 32))
      return piece;
  return columns <= 112 ? columns : 16;
}

/// Schedules on the tensor cores `unit`, or FMA for null. Returns nullopt if
/// tiles for tensor cores do not fit.
static std::optional<Schedule> scheduleOn(const MatrixUnit *unit,
                                          func::FuncOp kernel, AttentionOp op,
                                          const AttentionSizes &sizes,
                                          const CudaTarget &target) {
  AttentionSchedule s;
  s.grouped = sizes.grouped;
  bool isTf32 = unit && unit->type == MathType::TensorFloat32;
  int64_t sumBytes = bytesPerElement(attentionSumType(op.getQuery())),
          bytes = unit && !isTf32 ? 2 : sumBytes, skew = kVectorBytes / bytes;
  auto copies = [&](Value operand) {
    return target.hasAsyncCopies() && AttentionCodegen::asyncBytes(operand) &&
           bytesPerElement(getElementTypeOrSelf(operand)) == bytes;
  };
  s.stages = copies(op.getKey()) && copies(op.getValue()) ? 2 : 1;
  s.asyncQuery = copies(op.getQuery());
  int64_t warps = 4, warpRows = 16;
  if (unit) {
    if (sizes.depth < 1 || sizes.depth > 256 || sizes.width > 256 ||
        sizes.positions < 1)
      return std::nullopt;
    s.depth = llvm::alignTo(sizes.depth, isTf32 ? 8 : 16);
    s.columns = llvm::alignTo(sizes.width, 16);
    // The same number of tile bytes for each type.
    s.keys = std::min<int64_t>((std::max(s.depth, s.columns) > 128 ? 64 : 128) /
                                   bytes,
                               llvm::alignTo(sizes.positions, 16));
    // Wide values leave no registers for the query besides accumulators.
    s.queryInRegisters =
        s.depth <= 128 && s.depth + s.columns <= (isTf32 ? 256 : 320);
    s.pieceColumns = pieceColumns(s.columns, isTf32);
    s.weightPieces = weightPieces(kernel, unit->type);
    s.matrixUnits = true;
    warps = std::min<int64_t>(4, llvm::divideCeil(sizes.groupRows(), 16));
  } else {
    // Wide values are split over blocks. A lane has up to four rows, in f64
    // two.
    s.depth = llvm::alignTo(std::max<int64_t>(sizes.depth, 1), skew);
    s.columns = std::min<int64_t>(llvm::alignTo(sizes.width, 8 * skew), 128);
    s.keys = 32;
    s.pieceColumns = s.columns;
    warpRows = 4 * std::min<int64_t>(skew, llvm::PowerOf2Ceil(llvm::divideCeil(
                                               sizes.groupRows(), 16)));
  }
  auto sharedBytes = [&] {
    int64_t rows = warps * warpRows;
    int64_t tiles =
                s.stages * s.keys * (s.depth + s.columns + 2 * skew) * bytes,
            query = rows * (s.depth + skew) * bytes,
            weights = unit ? 0 : rows * (s.keys + skew) * bytes,
            result = rows * (s.columns + kResultSkew) * sumBytes;
    return std::max(s.queryInRegisters ? std::max(tiles, query)
                                       : tiles + query + weights,
                    result);
  };
  auto blocks = [&]() -> int64_t {
    return sizes.groups() *
           llvm::divideCeil(sizes.groupRows(), warps * warpRows) *
           llvm::divideCeil(sizes.width, s.columns);
  };
  // FMA: wide heads pass through shared memory in pieces, for two blocks per
  // multiprocessor.
  auto fitsTwice = [&] {
    return unit || 2 * sharedBytes() <= target.sharedBytesPerBlock();
  };
  if (!fitsTwice())
    s.stages = 1;
  while (!fitsTwice() && s.depth > 256 / bytes)
    s.depth = llvm::alignTo(s.depth / 2, skew);
  // For few heads use smaller blocks on more multiprocessors, unless grouped
  // heads would read their keys again.
  while (unit && warps > 1 &&
         (sharedBytes() > target.sharedBytesPerBlock() ||
          (sizes.grouped == 1 && 2 * blocks() <= target.multiprocessors())))
    warps = llvm::divideCeil(warps, 2);
  if (sharedBytes() > target.sharedBytesPerBlock())
    return std::nullopt;
  s.rows = warps * warpRows;
  int64_t tiles = blocks();
  s.parts = 1;
  s.partKeys = sizes.positions;
  if (sizes.groupRows() <= s.rows && 2 * tiles <= target.multiprocessors()) {
    int64_t wanted = std::min({kMostParts, 2 * target.multiprocessors() / tiles,
                               sizes.positions / kFewestKeys});
    if (wanted > 1) {
      s.partKeys =
          llvm::alignTo(llvm::divideCeil(sizes.positions, wanted), 2 * s.keys);
      s.parts = llvm::divideCeil(sizes.positions, s.partKeys);
    }
  }
  Schedule schedule;
  schedule.threads = kWarp * warps;
  schedule.blocks[0] = tiles * s.parts;
  schedule.sharedBytes = sharedBytes();
  if (s.parts > 1)
    schedule.scratchBytes =
        counterBytes(tiles) +
        tiles * s.parts * s.rows * (s.columns + kBehindSums) * sumBytes;
  schedule.set(s);
  return schedule;
}

//===----------------------------------------------------------------------===//
// Kernel
//===----------------------------------------------------------------------===//

namespace {
class AttentionForward : public AttentionCodegen {
public:
  AttentionForward(GpuKernel &kernel, AttentionOp op);
  LogicalResult emit();

private:
  /// Computes the block's indices.
  void placeBlock();
  void loadQuery(Value firstDepth);
  void loadRows(Value tensor, Value firstRow, Value firstColumn, Value memory,
                Value stage);
  /// scores = query * key tile.
  void emitScores(Value firstKey, Value stage);
  /// Scales and masks scores, including the end and the diagonal.
  void maskScores(Value firstKey);
  void emitResults();
  /// Reduces all parts in the last-arriving block and applies the epilogue.
  void reduceParts();
  void storeResult(Value result, Value row, Value column);

  bool isParted() const { return s.parts > 1; }
  /// Whether tiles have all columns of query and key, else pieces.
  bool isWhole() const { return sizes.depth <= s.depth; }
  /// Returns the index of a row's partial result in the scratch buffer:
  /// accumulators, maximum and total.
  Value partialAt(Value part, Value row, int64_t column = 0) {
    Value block = math.add(math.mul(tile, s.parts), part);
    Value index = math.add(math.mul(block, s.rows), row);
    return math.add(math.mul(index, s.columns + kBehindSums), column);
  }

  AttentionOp op;
  ContractionEpilogue results;
  AttentionSchedule s;
  std::unique_ptr<AttentionUnit> unit;
  /// Indices of the block; with split-KV also tile and part.
  Value firstRow, firstColumn, tile, part;
  Value keyTile, valueTile, partials;
  AttentionUnit::Rows query;
  Value scores, sums, largest, total;
  /// Columns of a tile that are stored, and vector length of the stores.
  int64_t storedColumns, lanes;
};
} // namespace

AttentionForward::AttentionForward(GpuKernel &kernel, AttentionOp op)
    : AttentionCodegen(kernel, AttentionProblem(op)), op(op),
      results(kernel.kernel, op), s(kernel.schedule.get<AttentionSchedule>()) {
  sizes.grouped = s.grouped;
  storedColumns = std::min(s.columns, sizes.width);
  lanes = storeLanes(results, op.getResult());
  unit = AttentionUnit::create(*this, s.matrixUnits, s.rows, s.weightPieces);
}

void AttentionForward::placeBlock() {
  int64_t rowTiles = llvm::divideCeil(sizes.groupRows(), s.rows);
  int64_t columnTiles = llvm::divideCeil(sizes.width, s.columns);
  tile = kernel.block();
  if (isParted()) {
    part = kernel.named(math.rem(tile, s.parts), "part");
    tile = kernel.named(math.div(tile, s.parts), "tile");
  }
  SmallVector<Value> place =
      math.delinearize(tile, {sizes.groups(), columnTiles, rowTiles});
  // Causal: later rows have more keys, so launch them first.
  if (problem.causal && rowTiles > 1)
    place[2] = math.sub(math.constant(rowTiles - 1), place[2]);
  firstRow = kernel.named(math.mul(place[2], s.rows), "first_row");
  firstColumn = columnTiles == 1 ? math.constant(0)
                                 : kernel.named(math.mul(place[1], s.columns),
                                                "first_column");
  placeHead(place[0]);
}

LogicalResult AttentionForward::emit() {
  placeBlock();
  unit->place();
  Value zero = math.constant(0);
  keyTile = unit->makeTile({s.stages, s.keys}, s.depth, "key_tile");
  valueTile = unit->makeTile({s.stages, s.keys}, s.columns, "value_tile");
  // Key tiles reuse the memory of a query in registers.
  if (s.queryInRegisters)
    unit->sharedOffset = 0;
  query = {unit->makeTile(s.rows, s.depth, "query_tile"), s.depth,
           s.queryInRegisters != 0};
  unit->placeWeights(s.rows, s.keys);
  if (isWhole()) {
    loadQuery(zero);
    // The first tiles' barrier covers a query that stays in shared memory.
    if (s.asyncQuery && (s.queryInRegisters || s.stages == 1))
      waitForCopies();
    if (s.queryInRegisters)
      kernel.barrier();
    unit->loadWords(query);
    if (s.queryInRegisters)
      kernel.barrier();
  }
  scores = unit->makeScores(s.keys, "scores");
  sums = unit->makeSums(s.columns, s.pieceColumns);
  largest = unit->makeStatistics(-kInfinity, "largest");
  total = unit->makeStatistics(0, "total");
  Value begin = zero, end = keyEnd(math.add(firstRow, s.rows));
  if (isParted()) {
    begin = kernel.named(math.mul(part, s.partKeys), "part_begin");
    end = kernel.named(math.min(end, math.add(begin, s.partKeys)), "part_end");
    int64_t tiles = kernel.schedule.blocks[0] / s.parts;
    partials = kernel.named(
        math.view(kernel.scratch, counterBytes(tiles),
                  tiles * s.parts * s.rows * (s.columns + kBehindSums),
                  sumType),
        "partials");
  }
  pipeline(
      begin, end, s.keys, s.stages == 2, "first_key",
      [&](Value first, Value stage) {
        if (isWhole())
          loadRows(problem.key, first, zero, keyTile, stage);
        loadRows(problem.value, first, firstColumn, valueTile, stage);
      },
      [&](Value first, Value stage) {
        emitScores(first, stage);
        maskScores(first);
        unit->softmax(scores, largest, total, sums);
        unit->accumulate(sums, scores, valueTile, stage, zero);
      });
  emitResults();
  if (isParted())
    reduceParts();
  return status;
}

void AttentionForward::loadQuery(Value firstDepth) {
  Tile rows{problem.query, head, firstRow, firstDepth,
            query.tile,    {},   s.rows,   s.depth};
  rows.ofGroup = s.grouped > 1;
  loadTile(rows, s.asyncQuery);
}

void AttentionForward::loadRows(Value tensor, Value firstRow, Value firstColumn,
                                Value memory, Value stage) {
  int64_t columns = memory == keyTile ? s.depth : s.columns;
  loadTile({tensor,
            keyHead,
            firstRow,
            firstColumn,
            memory,
            {stage},
            s.keys,
            columns},
           s.stages == 2);
}

void AttentionForward::emitScores(Value firstKey, Value stage) {
  fill(kernel, scores, 0);
  if (isWhole())
    return unit->multiply(scores, query, keyTile, stage);
  math.loop(math.constant(0), math.constant(sizes.depth), s.depth,
            [&](Value first) {
              kernel.named(first, "first_depth");
              loadQuery(first);
              loadRows(problem.key, firstKey, first, keyTile, stage);
              if (s.asyncQuery || s.stages == 2)
                waitForCopies();
              kernel.barrier();
              unit->multiply(scores, query, keyTile, stage);
              kernel.barrier();
            });
}

void AttentionForward::maskScores(Value firstKey) {
  // Only tiles at the end or on the diagonal are cut.
  Value cuts;
  if (sizes.positions % s.keys)
    cuts =
        math.less(math.constant(sizes.positions), math.add(firstKey, s.keys));
  if (problem.causal) {
    // With grouped heads any row may be the first of a head.
    Value row =
        s.grouped > 1 ? math.constant(0) : math.add(firstRow, unit->warpRow);
    Value onDiagonal = math.less(math.add(row, sizes.positions),
                                 math.add(firstKey, s.keys - 1 + sizes.length));
    cuts = cuts ? values.bitOr(cuts, onDiagonal) : onDiagonal;
  }
  unit->mask(
      scores, cuts,
      [&](Value score, Value row, Value position) {
        return bounded(score, row, position);
      },
      [&](Value row, Value column) {
        return std::pair(math.add(firstRow, row), math.add(firstKey, column));
      });
}

void AttentionForward::emitResults() {
  Value staged =
      sharedView(kernel, unit->shared, 0, {s.rows, s.columns + kResultSkew},
                 sumType, "result_tile");
  kernel.barrier();
  auto inverse = [&](Value row) -> Value {
    Value sum = unit->reduced(load(total, row), /*isMaximum=*/false);
    Value maximum = load(largest, row);
    if (!isParted())
      return kernel.named(formula.inverse(sum, maximum), "inverse");
    kernel.within(unit->isFirstLane(), [&] {
      Value place = partialAt(part, unit->rowOf(row), s.columns);
      store(maximum, partials, place);
      store(sum, partials, math.add(place, 1));
    });
    return {};
  };
  unit->storeRows(sums, staged, firstRow, sizes.groupRows(), storedColumns,
                  lanes, inverse, [&](Value result, Value row, Value column) {
                    if (isParted())
                      store(result, partials,
                            math.add(partialAt(part, row), column));
                    else
                      storeResult(result, row, column);
                  });
}

void AttentionForward::storeResult(Value result, Value row, Value column) {
  column = math.add(firstColumn, column);
  Value inside;
  if (sizes.width > s.columns && sizes.width % s.columns)
    inside = math.less(column, sizes.width);
  kernel.within(inside, [&] {
    auto [at, inHead] = placeInGroup(math.add(firstRow, row));
    at.append({inHead, column});
    store(results, result, at);
  });
}

void AttentionForward::reduceParts() {
  int64_t perRow = storedColumns / lanes,
          tiles = kernel.schedule.blocks[0] / s.parts;
  auto splat = [&](Value value) { return makeEmitter().splat(value, lanes); };
  // Loops over all parts with `body`, and returns its last values.
  auto eachPart = [&](ValueRange from,
                      llvm::function_ref<Carried(Value, ValueRange)> body) {
    return math.loop(math.constant(0), math.constant(s.parts), 1, from,
                     [&](Value other, ValueRange before) {
                       return body(kernel.named(other, "other"), before);
                     });
  };
  auto reduce = [&](Value row, Value column) {
    auto statistic = [&](Value part, int64_t which) {
      return load(partials, partialAt(part, row, s.columns + which));
    };
    Value maximum =
        eachPart(constant(-kInfinity), [&](Value part, ValueRange before) {
          return Carried{formula.larger(before[0], statistic(part, 0))};
        })[0];
    Value shift = kernel.named(formula.shift(maximum), "shift");
    Carried sum = eachPart(
        {constant(0), splat(constant(0))}, [&](Value part, ValueRange before) {
          Value weight =
              kernel.named(formula.power(statistic(part, 0), shift), "weight");
          Value total =
              values.add(before[0], values.mul(statistic(part, 1), weight));
          Value own =
              load(partials, math.add(partialAt(part, row), column), lanes);
          return Carried{total,
                         values.add(before[1], values.mul(own, splat(weight)))};
        });
    Value inverse = kernel.named(formula.inverse(sum[0], maximum), "inverse");
    storeResult(values.mul(sum[1], splat(inverse)), row, column);
  };
  (void)inLastBlock(
      kernel, math.view(kernel.scratch, 0, tiles, b.getI32Type()), tile,
      s.parts, [&]() -> LogicalResult {
        math.loop(
            thread, math.constant(sizes.groupRows() * perRow),
            kernel.schedule.threads, [&](Value chunk) {
              Value row = kernel.named(math.div(chunk, perRow), "row");
              reduce(row, kernel.named(math.mul(math.rem(chunk, perRow), lanes),
                                       "column"));
            });
        return success();
      });
}

namespace {
class AttentionPlan : public KernelPlan {
public:
  AttentionPlan(func::FuncOp kernel, const CudaTarget &target, AttentionOp op)
      : KernelPlan(kernel, target), op(op) {}

  std::optional<Schedule> schedule() const override {
    AttentionProblem problem(op);
    AttentionSizes sizes(problem);
    Type element = getElementTypeOrSelf(problem.query);
    // Grouped-query attention with few queries: load keys once for all heads.
    if (sizes.share() * sizes.length <=
        (element.isF64() ? kGroupRowsOfDouble : kGroupRows))
      sizes.grouped = sizes.share();
    std::optional<Schedule> schedule;
    if (const MatrixUnit *unit = mmaUnit(element, problem.compute, target))
      schedule = scheduleOn(unit, kernel, op, sizes, target);
    return schedule ? schedule : scheduleOn(nullptr, kernel, op, sizes, target);
  }

  LogicalResult emit(GpuKernel &gpuKernel) const override {
    return AttentionForward(gpuKernel, op).emit();
  }

private:
  AttentionOp op;
};
} // namespace

std::unique_ptr<KernelPlan> cuda::planAttention(func::FuncOp kernel,
                                                const CudaTarget &target) {
  auto ops = kernel.getOps<AttentionOp>();
  if (!llvm::hasSingleElement(ops) ||
      !ContractionEpilogue(kernel, *ops.begin()).fits() ||
      elementCount((*ops.begin()).getResult()) == 0)
    return nullptr;
  return std::make_unique<AttentionPlan>(kernel, target, *ops.begin());
}
