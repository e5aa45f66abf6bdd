//===- AttentionGradient.cpp - flash attention backward -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The gradient of attention in one launch (FlashAttention backward). With P the
// probabilities, dP = gradient * value^T (`slopes`), delta = rowsum(P * dP) and
// dS = P * (dP - delta), blocks have one of two roles:
//
// - Rows: query rows of one head. A first pass over the keys computes the rows'
// statistics, from which P and dS can be recomputed, and publishes them; a
// second pass accumulates the query gradient.
// - Keys: positions of one key head. Waits for the statistics of all rows of
// the heads that share it, loops over these rows and accumulates the key and
// value gradients. No atomic accumulation: results are deterministic.
//
// The keys role consumes what the rows role produces, in one launch: blocks
// take their roles from an atomic counter, rows first, so producers always make
// progress. The last consumer resets all counters for the next launch.
//
// Both roles work alike: a warp has fixed ("own") rows of two operands (query
// and output gradient, or key and value), while tiles of the other two are
// double-buffered in shared memory. The first pair gives scores, the second dP
// (`slopes`). P and dS are computed in registers and are the left operands of
// GEMMs with the same tiles. The keys role has scores and dP transposed, so
// that its operands' rows are own rows as well.
//
//===----------------------------------------------------------------------===//

#include "../Plan/KernelPlan.h"
#include "AttentionUnit.h"

#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

#include <array>

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

/// Maximum operand columns on tensor cores.
static constexpr int64_t kMostColumns = 256;
/// Maximum registers per thread for accumulators, scores and own rows; the rest
/// is for the others' fragments and addresses.
static constexpr int64_t kMostRegisters = 150;
/// The same if all keys' scores are in registers, with the maximum keys and
/// bytes of such a tile.
static constexpr int64_t kMostTileRegisters = 192, kMostKeysInOneTile = 128,
                         kMostTileBytes = 48 * 1024;
/// Maximum accumulator columns, and of both accumulators of the keys role.
static constexpr int64_t kMostSumColumns = 192, kMostSharedColumns = 256;
/// Padding of the result tile's rows against bank conflicts, in elements.
static constexpr int64_t kGradientResultSkew = 8;
/// Static shared memory besides Schedule::sharedBytes, in bytes: two values,
/// 16-byte aligned.
static constexpr int64_t kGradientStaticBytes = 32;
/// Counters before those of the key heads: block counter, departed consumers.
static constexpr int64_t kHeadTickets = 0, kHeadArrived = 1, kFirstHead = 2;

//===----------------------------------------------------------------------===//
// Schedule
//===----------------------------------------------------------------------===//

namespace {
/// Parameters of the schedule.
struct GradientSchedule {
  bool matrixUnits = false;
  /// Rows per block of each role.
  int64_t rows = 0;
  /// Columns of tiles of query and key, and of value and output gradient.
  int64_t depth = 0, columns = 0;
  /// Buffers per tile; two with asynchronous copies.
  int64_t stages = 0;
  /// Rows of the others' tiles, and whether own rows are in registers, by role.
  int64_t keys = 0, queries = 0;
  bool rowsInRegisters = false, keysInRegisters = false;
  /// Byte offset of own rows in shared memory.
  int64_t ownOffset = 0;
  /// Whether the rows role has all keys in one tile, and whether the keys role
  /// accumulates both results in one pass.
  bool keysInOneTile = false, keysInOneWalk = false;
  /// Maximum accumulator columns per pass.
  int64_t sumColumns = 0;

  static void map(auto &schedule, auto field) {
    field("matrix_units", schedule.matrixUnits, false);
    field("rows", schedule.rows);
    field("depth", schedule.depth);
    field("columns", schedule.columns);
    field("stages", schedule.stages);
    field("keys", schedule.keys);
    field("queries", schedule.queries);
    field("rows_in_registers", schedule.rowsInRegisters, false);
    field("keys_in_registers", schedule.keysInRegisters, false);
    field("own_offset", schedule.ownOffset, 0);
    field("keys_in_one_tile", schedule.keysInOneTile, false);
    field("keys_in_one_walk", schedule.keysInOneWalk, false);
    field("sum_columns", schedule.sumColumns);
  }
};

/// The three gradients, by result index of the op.
enum class AttentionResult : unsigned { query, key, value };

/// Grid of a kernel, by role.
struct GradientBlocks {
  GradientBlocks(const AttentionSizes &sizes,
                 ArrayRef<ContractionEpilogue> results, AttentionGradientOp op,
                 int64_t tile) {
    for (auto [stored, epilogue, result] :
         llvm::zip(stores, results, op->getResults()))
      stored = !epilogue.all().empty() && elementCount(result) > 0;
    rowTiles = llvm::divideCeil(sizes.length, tile);
    keyTiles = llvm::divideCeil(sizes.positions, tile);
    keys = stores[1] || stores[2] ? sizes.sharedHeads * keyTiles : 0;
    rows = keys || stores[0] ? sizes.heads * rowTiles : 0;
  }

  /// Whether the kernel stores elements of each gradient.
  std::array<bool, 3> stores;
  /// Tiles per head, and blocks, of each role.
  int64_t rowTiles, keyTiles, rows, keys;
};
} // namespace

/// Returns the output gradient without conversions that rounding to the
/// factors' type makes redundant.
static Value gradientFactor(AttentionGradientOp op) {
  auto cast = op.getGradient().getDefiningOp<CastOp>();
  if (cast && getElementTypeOrSelf(cast.getInput()) ==
                  getElementTypeOrSelf(op.getQuery()))
    return cast.getInput();
  return op.getGradient();
}

/// Schedules on the tensor cores `unit`, or FMA for null. Returns nullopt if
/// tiles for tensor cores do not fit.
static std::optional<Schedule> scheduleOn(const MatrixUnit *unit,
                                          func::FuncOp kernel,
                                          AttentionGradientOp op,
                                          const CudaTarget &target) {
  AttentionProblem problem(op);
  AttentionSizes sizes(problem);
  if (unit && (std::max(sizes.depth, sizes.width) > kMostColumns ||
               std::min({sizes.heads, sizes.sharedHeads, sizes.length,
                         sizes.positions, sizes.depth, sizes.width}) < 1))
    return std::nullopt;
  bool isTf32 = unit && unit->type == MathType::TensorFloat32;
  int64_t sumBytes = bytesPerElement(attentionSumType(op.getQuery())),
          bytes = unit && !isTf32 ? 2 : sumBytes, skew = kVectorBytes / bytes;
  GradientSchedule s;
  s.matrixUnits = unit;
  int64_t quantum = unit ? 16 : 8 * skew;
  s.depth = llvm::alignTo(std::max<int64_t>(sizes.depth, 1), quantum);
  s.columns = llvm::alignTo(std::max<int64_t>(sizes.width, 1), quantum);
  bool copies = llvm::all_of(
      ArrayRef<Value>{op.getQuery(), op.getKey(), op.getValue(),
                      gradientFactor(op)},
      [&](Value operand) {
        return bytesPerElement(getElementTypeOrSelf(operand)) == bytes &&
               AttentionCodegen::asyncBytes(operand) > 0;
      });
  s.stages = target.hasAsyncCopies() && copies ? 2 : 1;
  int64_t longest = std::max(sizes.length, sizes.positions), warps = 4,
          warpRows = unit           ? 16
                     : longest > 16 ? 8
                                    : 4;
  if (unit)
    warps = std::min<int64_t>(4, llvm::divideCeil(longest, warpRows));
  auto tileBytes = [&](int64_t rows) {
    return rows * (s.depth + s.columns + 2 * skew) * bytes;
  };
  int64_t wide = s.depth + s.columns;
  s.sumColumns = std::min(std::max(s.depth, s.columns), kMostSumColumns);
  s.keysInOneWalk = wide * sumBytes <= 4 * kMostSharedColumns;
  s.keys = s.queries = 32;
  if (unit) {
    // Wide operands leave registers for few scores.
    int64_t others = s.keysInOneWalk ? 32 : 16;
    auto atMost = [](int64_t tile, int64_t extent) {
      return std::min<int64_t>(tile, llvm::alignTo(extent, 16));
    };
    // Half of a diagonal tile is wasted, and detecting it takes registers.
    s.keys = atMost(wide <= 128 && !isTf32 && !problem.causal ? 64 : others,
                    sizes.positions);
    s.queries = atMost(others, sizes.length);
    // With all scores of a row in registers one pass suffices.
    int64_t all = llvm::alignTo(sizes.positions, 16),
            rowSums = std::min(s.depth, s.sumColumns);
    s.keysInOneTile =
        all <= kMostKeysInOneTile && tileBytes(all) <= kMostTileBytes &&
        s.depth <= s.sumColumns && all + rowSums / 2 <= kMostTileRegisters;
    if (s.keysInOneTile)
      s.keys = all;
    auto keepsOwn = [&](int64_t others, int64_t sums, int64_t most) {
      return wide * bytes / 8 + others + sums / 2 <= most;
    };
    s.rowsInRegisters = keepsOwn(
        s.keys, rowSums, s.keysInOneTile ? kMostTileRegisters : kMostRegisters);
    s.keysInRegisters = keepsOwn(
        s.queries, s.keysInOneWalk ? wide : s.sumColumns, kMostRegisters);
  }
  auto sharedBytes = [&] {
    int64_t rows = warps * warpRows;
    // The others' tiles and statistics, reused for results. Own rows follow, or
    // share that memory.
    s.ownOffset =
        std::max({(s.keysInOneTile ? 1 : s.stages) * tileBytes(s.keys),
                  s.stages * (tileBytes(s.queries) + 3 * s.queries * sumBytes),
                  rows * (s.sumColumns + kGradientResultSkew) * sumBytes});
    if (s.rowsInRegisters && s.keysInRegisters && !s.keysInOneTile)
      return std::max(s.ownOffset, tileBytes(rows));
    int64_t weights = unit ? 0 : rows * (s.keys + skew) * bytes;
    return s.ownOffset + tileBytes(rows) + weights;
  };
  auto fits = [&](int64_t blocks) {
    return blocks * (sharedBytes() + kGradientStaticBytes) <=
           target.sharedBytesPerBlock();
  };
  // FMA: one buffer for two blocks per multiprocessor. Wider heads pass through
  // shared memory in pieces.
  if (!unit && !fits(2))
    s.stages = 1;
  while (!unit && !fits(1) && std::max(s.depth, s.columns) > 256 / bytes) {
    s.depth = s.columns = s.sumColumns =
        llvm::alignTo(std::max(s.depth, s.columns) / 2, quantum);
    s.keysInOneWalk = false;
  }
  // For few heads use smaller blocks on more multiprocessors.
  auto blocks = [&]() -> int64_t {
    return sizes.heads * llvm::divideCeil(sizes.length, warps * warpRows) +
           sizes.sharedHeads *
               llvm::divideCeil(sizes.positions, warps * warpRows);
  };
  while (unit && warps > 1 &&
         (!fits(1) || 2 * blocks() <= target.multiprocessors()))
    warps = llvm::divideCeil(warps, 2);
  if (unit && !fits(1))
    return std::nullopt;
  Schedule schedule;
  schedule.threads = kWarp * warps;
  schedule.sharedBytes = sharedBytes();
  s.rows = warps * warpRows;
  schedule.set(s);
  GradientBlocks grid(sizes, *ContractionEpilogue::ofEach(kernel, op), op,
                      s.rows);
  schedule.blocks[0] = std::max<int64_t>(grid.rows + grid.keys, 1);
  if (grid.rows && grid.keys)
    schedule.scratchBytes =
        llvm::alignTo((kFirstHead + sizes.sharedHeads) * sizeof(int32_t), 64) +
        3 * sizes.heads * sizes.length * sumBytes;
  return schedule;
}

//===----------------------------------------------------------------------===//
// Kernel
//===----------------------------------------------------------------------===//

namespace {
class AttentionBackward : public AttentionCodegen {
public:
  AttentionBackward(GpuKernel &kernel, AttentionGradientOp op);
  LogicalResult emit();

private:
  /// An operand of the GEMMs; the first pair gives scores, the second dP.
  struct Operand {
    Value tensor;
    StringRef name;
    /// Shared-memory tile, of others [stage][row][column], and the tile's
    /// columns.
    AttentionUnit::Rows rows;
    int64_t extent() const { return shapeOf(tensor).back(); }
  };
  using Side = std::array<Operand, 2>;
  /// Accumulators of `count` columns of dQ, dK or dV from column `first` on, of
  /// which `width` are stored; a gradient with too many columns for the
  /// registers takes several passes over the keys or queries.
  struct Sum {
    AttentionResult result;
    Value first;
    int64_t count, width;
    Value fragments = {};
  };
  using Body = llvm::function_ref<void(Value first, Value stage)>;

  /// Generates a role for a block by its number in the role.
  void emitRows(Value number);
  void emitKeys(Value number);
  /// Lays out shared memory and registers for a role.
  void takeRole(bool ofQuery);
  /// Loads `columns` of a tile's rows from `first` on.
  void loadOperand(const Operand &operand, bool isOwn, Value first,
                   Value column, Value stage);
  void loadOwn();
  void loadOthers(Value first, Value stage);
  /// Loops over the tiles of all other rows that the role needs.
  void loopOthers(Body body);

  // Statistics of a row: the shift of its scores (AttentionMath), 1 / total (0
  // for a fully masked row), and delta.

  /// Stores the statistics of `row` of `head`, in bounds, by one thread.
  void storeStatistics(Value row, ArrayRef<Value> three);
  /// Rows role, after all threads have stored: signals the keys role. Contains
  /// a barrier. No-op without a keys role.
  void publishStatistics();
  /// Keys role: waits for all statistics of its heads. Contains barriers; issue
  /// independent loads before.
  void waitForStatistics();
  /// Copies the statistics of a tile's rows of `head` from `first` on to shared
  /// memory [3][others], by all threads of the block; zeros out of bounds.
  void loadStatistics(Value first, Value memory);

  /// Keys role: calls `body` for each query head that shares the block's key
  /// head, in order, with `head` set.
  void eachQueryHead(llvm::function_ref<void()> body);
  /// Keys role: returns the first row, a multiple of `others`, that attends to
  /// the block's positions.
  Value firstRowOfKeys();
  /// Whether the keys role waits for the rows role.
  bool hasHandOver() const { return grid.rows && grid.keys; }
  Value takeBlockIndex();
  /// Atomically adds to a counter and returns the old value.
  Value count(int64_t number, Value counter);
  /// Returns the index of a statistic of a row of `head`.
  Value statisticAt(Value which, Value row);

  /// Computes masked scores, and dP, of own rows and the tile at `first`.
  void emitScores(Value first, Value stage, bool withSlopes);
  /// Returns whether the tile at `first` is cut by the end or the diagonal for
  /// this warp; null if no tile is.
  Value cutsOff(Value first);
  /// Computes shift, 1 / total and delta of the lane's rows; one lane per row
  /// stores them.
  void finishStatistics();
  /// Converts scores to P, and dP to dS = P * (dP - delta).
  void makeFactors(Value stage, bool withSlopes);

  /// Splits the stored gradients into column ranges whose accumulators fit into
  /// registers.
  SmallVector<Sum> sumsOf(ArrayRef<AttentionResult> results);
  /// Accumulates all in one pass, or each in a separate pass, and stores them.
  void sum(MutableArrayRef<Sum> sums);
  void sumEach(ArrayRef<AttentionResult> results);
  void makeSums(Sum &sum);
  void accumulate(const Sum &sum, Value first, Value stage);
  void emitResult(const Sum &sum);

  /// Whether tiles have all columns of all operands, else pieces.
  bool isWhole() const {
    return sizes.depth <= s.depth && sizes.width <= s.columns;
  }
  int64_t widthOf(AttentionResult result) const {
    return result == AttentionResult::value ? sizes.width : sizes.depth;
  }
  /// First own row of the block.
  Value ownFirst() { return isQuery ? firstRow : firstKey; }

  bool stores(AttentionResult result) const {
    return grid.stores[unsigned(result)];
  }
  /// Returns the operand type of the GEMMs, to which P, dS and the output
  /// gradient are rounded.
  Type factorType() const { return getElementTypeOrSelf(problem.query); }

  AttentionGradientOp op;
  GradientSchedule s;
  /// Results by AttentionResult.
  std::vector<ContractionEpilogue> results;
  GradientBlocks grid;
  std::unique_ptr<AttentionUnit> unit;
  /// First query row or position of the block, and indices of `head` and
  /// `keyHead`.
  Value firstRow, firstKey, headNumber, keyHeadNumber;
  /// Scratch memory, if the keys role waits: block counter, departed consumers,
  /// and arrived row tiles per key head; statistics [3][head][row].
  Value counters, published;
  // Current role: whether own rows are the query's, whether they stay in
  // registers, whether one tile holds all others, and its rows.
  bool isQuery = true, keepsOwn = true, inOneTile = false;
  int64_t others = 0;
  Side own, other;
  /// Keys role: statistics of a tile's rows, [stage][3][row].
  Value rowStatistics;
  Value scores, slopes;
  /// Rows role: running maximum, total and sum of P * dP, later replaced by the
  /// three statistics.
  std::array<Value, 3> statistics;
};
} // namespace

AttentionBackward::AttentionBackward(GpuKernel &kernel, AttentionGradientOp op)
    : AttentionCodegen(kernel, AttentionProblem(op)), op(op),
      s(kernel.schedule.get<GradientSchedule>()),
      results(*ContractionEpilogue::ofEach(kernel.kernel, op)),
      grid(sizes, results, op, s.rows) {
  unit = AttentionUnit::create(*this, s.matrixUnits, s.rows);
  unit->fragmentRows = 32;
  if (!hasHandOver())
    return;
  int64_t count = kFirstHead + sizes.sharedHeads;
  counters = kernel.named(math.view(kernel.scratch, 0, count, b.getI32Type()),
                          "counters");
  published = kernel.named(math.view(kernel.scratch,
                                     llvm::alignTo(count * sizeof(int32_t), 64),
                                     3 * sizes.heads * sizes.length, sumType),
                           "statistics");
}

//===----------------------------------------------------------------------===//
// Roles
//===----------------------------------------------------------------------===//

LogicalResult AttentionBackward::emit() {
  unit->place();
  if (hasHandOver()) {
    Value ticket = takeBlockIndex();
    math.branch(
        math.less(ticket, grid.rows), [&] { emitRows(ticket); },
        [&] { emitKeys(math.sub(ticket, math.constant(grid.rows))); });
  } else if (grid.rows) {
    emitRows(kernel.block());
  } else if (grid.keys) {
    emitKeys(kernel.block());
  }
  return status;
}

void AttentionBackward::takeRole(bool ofQuery) {
  isQuery = ofQuery;
  others = ofQuery ? s.keys : s.queries;
  keepsOwn = ofQuery ? s.rowsInRegisters : s.keysInRegisters;
  inOneTile = ofQuery && s.keysInOneTile;
  int64_t stages = inOneTile ? 1 : s.stages;
  Side queries = {
      Operand{problem.query, "query", {{}, s.depth, keepsOwn}},
      Operand{gradientFactor(op), "gradient", {{}, s.columns, keepsOwn}}};
  Side keys = {Operand{problem.key, "key", {{}, s.depth, keepsOwn}},
               Operand{problem.value, "value", {{}, s.columns, keepsOwn}}};
  own = ofQuery ? queries : keys;
  other = ofQuery ? keys : queries;
  auto place = [&](Side &side, ArrayRef<int64_t> shape) {
    for (Operand &operand : side)
      operand.rows.tile =
          unit->makeTile(shape, operand.rows.columns, operand.name + "_tile");
  };
  unit->sharedOffset = 0;
  place(other, {stages, others});
  if (!ofQuery)
    rowStatistics = sharedView(kernel, unit->shared, unit->sharedOffset,
                               {stages, 3, others}, sumType, "row_statistics");
  // Own rows on their way to registers may share memory with the others' tiles,
  // unless these are loaded once; else they stay in shared memory.
  unit->sharedOffset = keepsOwn && !inOneTile ? 0 : s.ownOffset;
  place(own, s.rows);
  unit->placeWeights(s.rows, others);
  scores = unit->makeScores(others, "scores");
  slopes = unit->makeScores(others, "slopes");
}

void AttentionBackward::emitRows(Value number) {
  SmallVector<Value> place =
      math.delinearize(number, {sizes.heads, grid.rowTiles});
  // Causal: later rows have more keys, so launch them first.
  if (problem.causal && grid.rowTiles > 1)
    place[1] = math.sub(math.constant(grid.rowTiles - 1), place[1]);
  firstRow = kernel.named(math.mul(place[1], s.rows), "first_row");
  headNumber = place[0];
  keyHeadNumber = math.div(headNumber, sizes.share());
  placeHead(headNumber);
  takeRole(/*ofQuery=*/true);
  Value zero = math.constant(0);
  if (inOneTile)
    loadOthers(zero, zero);
  loadOwn();
  statistics = {unit->makeStatistics(-kInfinity, "largest"),
                unit->makeStatistics(0, "total"),
                unit->makeStatistics(0, "mean")};
  auto add = [&](Value first, Value stage) {
    emitScores(first, stage, /*withSlopes=*/true);
    Value mean = statistics[2];
    unit->softmax(scores, statistics[0], {statistics[1], mean}, {},
                  [&](ArrayRef<Value> at, Value row, Value weight) {
                    store(values.fma(weight, load(slopes, at), load(mean, row)),
                          mean, row);
                  });
  };
  if (inOneTile)
    add(zero, zero);
  else
    loopOthers(add);
  finishStatistics();
  publishStatistics();
  if (!stores(AttentionResult::query))
    return;
  if (!inOneTile)
    return sumEach(AttentionResult::query);
  SmallVector<Sum> sums = sumsOf(AttentionResult::query);
  // Scores and dP of all keys are in registers.
  makeFactors(zero, /*withSlopes=*/true);
  for (Sum &sum : sums) {
    makeSums(sum);
    accumulate(sum, zero, zero);
  }
  for (Sum &sum : sums)
    emitResult(sum);
}

void AttentionBackward::emitKeys(Value number) {
  SmallVector<Value> place =
      math.delinearize(number, {sizes.sharedHeads, grid.keyTiles});
  firstKey = kernel.named(math.mul(place[1], s.rows), "first_key");
  keyHeadNumber = headNumber = place[0];
  head = keyHead = headAt(keyHeadNumber, sizes.keyHeads);
  takeRole(/*ofQuery=*/false);
  loadOwn();
  waitForStatistics();
  AttentionResult both[] = {AttentionResult::value, AttentionResult::key};
  if (!s.keysInOneWalk)
    return sumEach(both);
  SmallVector<Sum> sums = sumsOf(both);
  sum(sums);
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

void AttentionBackward::loadOperand(const Operand &operand, bool isOwn,
                                    Value first, Value column, Value stage) {
  Tile tile{operand.tensor,
            isQuery == isOwn ? head : keyHead,
            first,
            column,
            operand.rows.tile,
            {},
            s.rows,
            operand.rows.columns};
  if (!isOwn) {
    tile.at = {stage};
    tile.rows = others;
  }
  if (!s.matrixUnits && operand.name == "gradient")
    tile.rounded = factorType();
  loadTile(tile, s.stages == 2);
}

void AttentionBackward::loadOwn() {
  if (!isWhole())
    return;
  Value zero = math.constant(0);
  for (const Operand &operand : own)
    loadOperand(operand, /*isOwn=*/true, ownFirst(), zero, zero);
  // The barrier of the first tile covers rows that stay in shared memory.
  if (keepsOwn || inOneTile) {
    if (s.stages == 2)
      waitForCopies();
    kernel.barrier();
  }
  for (Operand &operand : own)
    unit->loadWords(operand.rows);
}

void AttentionBackward::loadOthers(Value first, Value stage) {
  if (!isQuery)
    loadStatistics(first, slotOf(kernel, rowStatistics, stage));
  if (isWhole())
    for (const Operand &operand : other)
      loadOperand(operand, /*isOwn=*/false, first, math.constant(0), stage);
}

void AttentionBackward::loopOthers(Body body) {
  auto loop = [&](Value begin, Value end) {
    // All threads must have read the memory that tiles overwrite.
    kernel.barrier();
    pipeline(
        begin, end, others, s.stages == 2, isQuery ? "first_key" : "first_row",
        [&](Value first, Value stage) { loadOthers(first, stage); }, body);
  };
  if (isQuery)
    return loop(math.constant(0), keyEnd(math.add(firstRow, s.rows)));
  eachQueryHead([&] { loop(firstRowOfKeys(), math.constant(sizes.length)); });
}

void AttentionBackward::eachQueryHead(llvm::function_ref<void()> body) {
  int64_t share = sizes.share();
  if (share == 1)
    return body();
  SmallVector<Value> own = keyHead;
  math.loop(math.constant(0), math.constant(share), 1, [&](Value member) {
    headNumber = kernel.named(math.add(math.mul(keyHeadNumber, share), member),
                              "head_number");
    head = headAt(headNumber, sizes.queryHeads);
    body();
  });
  keyHead = own;
}

Value AttentionBackward::firstRowOfKeys() {
  if (!problem.causal)
    return math.constant(0);
  // Row s attends to t <= s + T - S.
  Value row = math.subOrZero(math.add(firstKey, sizes.length), sizes.positions);
  return kernel.named(math.mul(math.div(row, others), others), "begin");
}

//===----------------------------------------------------------------------===//
// Producer-consumer synchronization
//===----------------------------------------------------------------------===//

Value AttentionBackward::count(int64_t number, Value counter) {
  return memref::AtomicRMWOp::create(b, kernel.loc, arith::AtomicRMWKind::addi,
                                     values.integer(b.getI32Type(), number),
                                     counters, counter);
}

Value AttentionBackward::takeBlockIndex() {
  Value ticket = kernel.shared({1}, b.getI32Type(), "ticket");
  Value zero = math.constant(0);
  kernel.within(math.less(thread, 1), [&] {
    store(count(1, math.constant(kHeadTickets)), ticket, zero);
  });
  kernel.barrier();
  return kernel.named(arith::IndexCastOp::create(
                          b, kernel.loc, b.getIndexType(), load(ticket, zero)),
                      "number");
}

Value AttentionBackward::statisticAt(Value which, Value row) {
  Value line = math.add(math.mul(which, sizes.heads), headNumber);
  return math.add(math.mul(line, sizes.length), row);
}

void AttentionBackward::storeStatistics(Value row, ArrayRef<Value> three) {
  if (!hasHandOver())
    return;
  for (auto [i, value] : llvm::enumerate(three))
    store(value, published, statisticAt(math.constant(i), row));
}

void AttentionBackward::publishStatistics() {
  if (!hasHandOver())
    return;
  cuda::FenceOp::create(b, kernel.loc);
  kernel.barrier();
  kernel.within(math.less(thread, 1),
                [&] { count(1, math.add(keyHeadNumber, kFirstHead)); });
}

void AttentionBackward::waitForStatistics() {
  if (!hasHandOver())
    return;
  auto number = [&](int64_t value) {
    return values.integer(b.getI32Type(), value);
  };
  Value arrived = kernel.shared({1}, b.getI32Type(), "arrived");
  Value zero = math.constant(0);
  kernel.within(math.less(thread, 1), [&] {
    Value own = math.add(keyHeadNumber, kFirstHead);
    auto wait = scf::WhileOp::create(b, kernel.loc, TypeRange(), ValueRange());
    // Polling threads leave issue slots to the producers.
    wait->setAttr("mpc.pause", b.getUnitAttr());
    {
      OpBuilder::InsertionGuard guard(b);
      b.createBlock(&wait.getBefore());
      // Only atomics reliably observe the arrivals of other blocks.
      Value arrivals = kernel.named(count(0, own), "published");
      Value isOpen = arith::CmpIOp::create(
          b, kernel.loc, arith::CmpIPredicate::slt, arrivals,
          number(sizes.share() * grid.rowTiles));
      scf::ConditionOp::create(b, kernel.loc, isOpen, ValueRange());
      b.createBlock(&wait.getAfter());
      scf::YieldOp::create(b, kernel.loc);
    }
    cuda::FenceOp::create(b, kernel.loc);
    store(count(1, math.constant(kHeadArrived)), arrived, zero);
  });
  kernel.barrier();
  cuda::FenceOp::create(b, kernel.loc);
  // The last consumer to arrive resets all counters.
  Value before = kernel.named(load(arrived, zero), "before");
  Value isLast = arith::CmpIOp::create(b, kernel.loc, arith::CmpIPredicate::eq,
                                       before, number(grid.keys - 1));
  kernel.within(isLast, [&] {
    math.loop(thread, math.constant(kFirstHead + sizes.sharedHeads),
              kernel.schedule.threads,
              [&](Value counter) { store(number(0), counters, counter); });
  });
}

void AttentionBackward::loadStatistics(Value first, Value memory) {
  // No rows role, no statistics.
  if (!hasHandOver())
    return;
  int64_t threads = kernel.schedule.threads, all = 3 * others;
  unrolled(kernel, llvm::divideCeil(all, threads), "i", [&](Value i) {
    Value place = math.add(math.mul(i, threads), thread);
    auto copy = [&] {
      Value which = math.div(place, others), offset = math.rem(place, others);
      Value row = math.add(first, offset);
      if (s.stages == 2) {
        int64_t bytes = sumType.getIntOrFloatBitWidth() / 8;
        Type i32 = b.getI32Type();
        Value valid =
            values.select(math.less(row, sizes.length),
                          values.integer(i32, bytes), values.integer(i32, 0));
        cuda::CopyAsyncOp::create(
            b, kernel.loc, memory, ValueRange{which, offset}, published,
            statisticAt(which, math.min(row, sizes.length - 1)), valid, bytes);
        return;
      }
      Value read =
          kernel.orElse(math.less(row, sizes.length), sumType, [&]() -> Value {
            return load(published, statisticAt(which, row));
          });
      store(read, memory, {which, offset});
    };
    kernel.within(all % threads ? math.less(place, all) : Value(), copy);
  });
}

//===----------------------------------------------------------------------===//
// Scores
//===----------------------------------------------------------------------===//

void AttentionBackward::emitScores(Value first, Value stage, bool withSlopes) {
  for (size_t i = 0; i < (withSlopes ? 2 : 1); ++i) {
    Value sums = i ? slopes : scores;
    fill(kernel, sums, 0);
    auto multiply = [&] {
      unit->multiply(sums, own[i].rows, other[i].rows.tile, stage);
    };
    if (isWhole()) {
      multiply();
      continue;
    }
    math.loop(math.constant(0), math.constant(own[i].extent()),
              own[i].rows.columns, [&](Value column) {
                kernel.named(column, "piece_column");
                loadOperand(own[i], /*isOwn=*/true, ownFirst(), column, stage);
                loadOperand(other[i], /*isOwn=*/false, first, column, stage);
                kernel.barrier();
                multiply();
                kernel.barrier();
              });
  }
  unit->mask(
      scores, cutsOff(first),
      [&](Value score, Value row, Value position) {
        return isQuery ? bounded(score, row, position)
                       : values.select(math.less(row, sizes.length),
                                       bounded(score, row, position),
                                       constant(-kInfinity));
      },
      [&](Value row, Value column) {
        row = math.add(ownFirst(), row);
        column = math.add(first, column);
        return isQuery ? std::pair(row, column) : std::pair(column, row);
      });
}

Value AttentionBackward::cutsOff(Value first) {
  Value cuts;
  // Out-of-bounds query rows have the factor 0 anyway, but an additive mask
  // could make their exponentials infinite.
  int64_t extent = isQuery ? sizes.positions : sizes.length;
  if (extent % others && (isQuery || problem.addsMask()))
    cuts = math.less(math.constant(extent), math.add(first, others));
  if (!problem.causal)
    return cuts;
  // First query row and last position of the tile.
  Value ownRow = math.add(ownFirst(), unit->warpRow);
  Value row = isQuery ? ownRow : first;
  Value position = isQuery ? math.add(first, others - 1)
                           : math.add(ownRow, unit->warpRows() - 1);
  Value onDiagonal = math.less(math.add(row, sizes.positions),
                               math.add(position, sizes.length));
  return cuts ? values.bitOr(cuts, onDiagonal) : onDiagonal;
}

void AttentionBackward::finishStatistics() {
  unit->eachRow([&](Value slot) {
    auto [largest, total, mean] = statistics;
    Value maximum = kernel.named(load(largest, slot), "maximum");
    auto summed = [&](Value of) {
      return unit->reduced(load(of, slot),
                           /*isMaximum=*/false);
    };
    Value shift = kernel.named(formula.shift(maximum), "shift");
    Value inverse =
        kernel.named(formula.inverse(summed(total), maximum), "inverse");
    Value delta = kernel.named(values.mul(summed(mean), inverse), "delta");
    for (auto [value, memory] :
         {std::pair(shift, largest), {inverse, total}, {delta, mean}})
      store(value, memory, slot);
    Value row = kernel.named(math.add(firstRow, unit->rowOf(slot)), "row");
    kernel.within(
        values.bitAnd(unit->isFirstLane(), math.less(row, sizes.length)),
        [&] { storeStatistics(row, {shift, inverse, delta}); });
  });
}

void AttentionBackward::makeFactors(Value stage, bool withSlopes) {
  int64_t width = unit->scoreWidth;
  auto rounded = [&](Value value) {
    return s.matrixUnits ? value : makeEmitter().round(value, factorType());
  };
  unrolled(kernel, unit->scoreBlocks(scores), "j", [&](Value j) {
    Value zero = math.constant(0);
    // Keys role: statistics of adjacent query rows.
    SmallVector<Value> ofColumns;
    static constexpr StringRef kNames[] = {"shifts", "inverses", "deltas"};
    for (int64_t which = 0; !isQuery && which < 3; ++which)
      ofColumns.push_back(kernel.named(
          load(rowStatistics,
               {stage, math.constant(which), unit->columnOf(j, zero, width)},
               width),
          kNames[which]));
    unit->eachRow([&](Value row) {
      for (int64_t e = 0; e < width; ++e) {
        auto statistic = [&](int64_t which) -> Value {
          if (isQuery)
            return load(statistics[which], row);
          Value all = ofColumns[which];
          return width == 1 ? all
                            : vector::ExtractOp::create(b, kernel.loc, all, e);
        };
        SmallVector<Value> at = {zero, j, math.add(math.mul(row, width), e)};
        Value power = formula.power(load(scores, at), statistic(0));
        Value weight = kernel.named(values.mul(power, statistic(1)), "weight");
        store(rounded(weight), scores, at);
        if (!withSlopes)
          continue;
        Value slope = values.sub(load(slopes, at), statistic(2));
        store(rounded(values.mul(weight, slope)), slopes, at);
      }
    });
  });
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

SmallVector<AttentionBackward::Sum>
AttentionBackward::sumsOf(ArrayRef<AttentionResult> results) {
  SmallVector<Sum> sums;
  for (AttentionResult result : results) {
    if (!stores(result))
      continue;
    int64_t width = widthOf(result),
            extent = result == AttentionResult::value ? s.columns : s.depth;
    int64_t passes = llvm::divideCeil(extent, s.sumColumns);
    int64_t count = llvm::alignTo(llvm::divideCeil(extent, passes),
                                  unit->rowLanes * unit->sumWidth * 2);
    for (int64_t first = 0; first < extent; first += count)
      sums.push_back({result, math.constant(first),
                      std::min(count, extent - first),
                      std::min(count, width - first)});
  }
  return sums;
}

void AttentionBackward::sumEach(ArrayRef<AttentionResult> results) {
  if (isWhole()) {
    for (Sum &each : sumsOf(results))
      sum(each);
    return;
  }
  for (AttentionResult result : llvm::make_filter_range(
           results, [&](AttentionResult result) { return stores(result); }))
    math.loop(
        llvm::divideCeil(widthOf(result), s.sumColumns), [&](Value number) {
          Value first = kernel.named(math.mul(number, s.sumColumns), "first");
          Sum piece{result, first, s.sumColumns, s.sumColumns};
          sum(piece);
        });
}

void AttentionBackward::sum(MutableArrayRef<Sum> sums) {
  bool withSlopes = llvm::any_of(sums, [](const Sum &sum) {
    return sum.result != AttentionResult::value;
  });
  for (Sum &sum : sums)
    makeSums(sum);
  loopOthers([&](Value first, Value stage) {
    emitScores(first, stage, withSlopes);
    makeFactors(stage, withSlopes);
    for (const Sum &sum : sums)
      accumulate(sum, first, stage);
  });
  for (const Sum &sum : sums)
    emitResult(sum);
}

void AttentionBackward::makeSums(Sum &sum) {
  int64_t piece = !s.matrixUnits ? sum.count : sum.count % 32 ? 16 : 32;
  sum.fragments = unit->makeSums(sum.count, piece);
}

void AttentionBackward::accumulate(const Sum &sum, Value first, Value stage) {
  bool ofValue = sum.result == AttentionResult::value;
  const Operand &operand = other[ofValue];
  if (!isWhole()) {
    loadOperand(operand, /*isOwn=*/false, first, sum.first, stage);
    kernel.barrier();
  }
  unit->accumulate(sum.fragments, ofValue ? scores : slopes, operand.rows.tile,
                   stage, isWhole() ? sum.first : math.constant(0));
}

void AttentionBackward::emitResult(const Sum &sum) {
  bool ofValue = sum.result == AttentionResult::value;
  Value tile = sharedView(kernel, unit->shared, 0,
                          {s.rows, sum.count + kGradientResultSkew}, sumType,
                          "result_tile");
  // All threads must have read the tiles and the previous result.
  kernel.barrier();
  unit->storeRows(
      sum.fragments, tile, ownFirst(), isQuery ? sizes.length : sizes.positions,
      sum.width,
      storeLanes(results[unsigned(sum.result)],
                 op->getResult(unsigned(sum.result))),
      [&](Value) { return ofValue ? Value() : constant(problem.scale); },
      [&](Value values, Value row, Value column) {
        column = math.add(column, sum.first);
        kernel.within(
            isWhole() ? Value() : math.less(column, widthOf(sum.result)), [&] {
              SmallVector<Value> at(isQuery ? head : keyHead);
              at.append({math.add(ownFirst(), row), column});
              store(results[unsigned(sum.result)], values, at);
            });
      });
}

namespace {
class AttentionGradientPlan : public KernelPlan {
public:
  AttentionGradientPlan(func::FuncOp kernel, const CudaTarget &target,
                        AttentionGradientOp op)
      : KernelPlan(kernel, target), op(op) {}

  std::optional<Schedule> schedule() const override {
    std::optional<Schedule> schedule;
    AttentionProblem problem(op);
    if (const MatrixUnit *unit = mmaUnit(getElementTypeOrSelf(problem.query),
                                         problem.compute, target))
      schedule = scheduleOn(unit, kernel, op, target);
    return schedule ? schedule : scheduleOn(nullptr, kernel, op, target);
  }

  LogicalResult emit(GpuKernel &gpuKernel) const override {
    return AttentionBackward(gpuKernel, op).emit();
  }

private:
  AttentionGradientOp op;
};
} // namespace

std::unique_ptr<KernelPlan>
cuda::planAttentionGradient(func::FuncOp kernel, const CudaTarget &target) {
  AttentionGradientOp op =
      ContractionEpilogue::onlyOf<AttentionGradientOp>(kernel);
  return op ? std::make_unique<AttentionGradientPlan>(kernel, target, op)
            : nullptr;
}
