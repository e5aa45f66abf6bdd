//===- PersistentRnnPlan.cpp - persistent RNN kernels ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/PersistentRnnPlan.h"

#include "mpc/Analysis/Padding.h"
#include "mpc/Dialect/Mpc/IR/MpcRecurrentOps.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;
using namespace mpc;

/// Tile of a matrix-unit instruction: columns, rows, depth.
static constexpr int64_t kUnitColumns = 16, kUnitRows = 8, kUnitDepth = 16;
/// Elements along the depth that a thread multiplies at once.
static constexpr int64_t kLanes = 4;
/// Padding between rows of shared memory, which avoids bank conflicts.
static constexpr int64_t kSkewBytes = 16, kSumSkew = 4;
/// Maximum registers per thread for accumulators, and for accumulators and
/// weight fragments.
static constexpr int64_t kMostSums = 64, kMostHeld = 128;

// Estimates, in cycles of kClock: a grid barrier (an atomic and polling of L2)
// and its cost per block, latency of a state through L2, bandwidths of L2 and
// shared memory in bytes per cycle, cell arithmetic, GEMM start-up, matrix-unit
// steps and tiles, and FMAs. kKernelSeconds: execution time of a small kernel
// in addition to its launch.
static constexpr double kClock = 1.5e9;
static constexpr double kMeeting = 1500, kMeetingOfBlock = 4, kHandOver = 600,
                        kCacheBytes = 32, kSharedBytes = 128, kCell = 400,
                        kCellItem = 200, kProduct = 200, kUnitStep = 30,
                        kUnitTile = 8, kFma = 1.5 / 128;
static constexpr double kKernelSeconds = 1e-6;

//===----------------------------------------------------------------------===//
// The layer
//===----------------------------------------------------------------------===//

/// Creates the shape of a layer from its operands: weights [D, G*H, H], steps
/// [T, B, ...].
static RecurrenceShape makeShape(RecurrentCell cell, Value steps,
                                 Value recurrence, Value state,
                                 bool isGradient = false) {
  ArrayRef<int64_t> input = cast<RankedTensorType>(steps.getType()).getShape(),
                    weights =
                        cast<RankedTensorType>(recurrence.getType()).getShape();
  return {cell,
          input[0],
          input[1],
          weights[2],
          weights[0],
          getElementTypeOrSelf(recurrence),
          getElementTypeOrSelf(state),
          isGradient};
}

std::optional<RecurrenceShape> RecurrenceShape::of(Operation *op) {
  if (std::optional<RecurrenceSteps> steps = RecurrenceSteps::of(op))
    return makeShape(steps->cell, steps->projected, steps->recurrence,
                     steps->result);
  auto make = [](auto layer, RecurrentCell cell) {
    return makeShape(cell, layer.getInput(), layer.getRecurrence(),
                     layer.getResult());
  };
  return llvm::TypeSwitch<Operation *, std::optional<RecurrenceShape>>(op)
      .Case([&](LstmOp lstm) { return make(lstm, RecurrentCell::lstm); })
      .Case([&](GruOp gru) {
        return make(gru, gru.getLinearBeforeReset() ? RecurrentCell::linear_gru
                                                    : RecurrentCell::gru);
      })
      .Case([&](RnnOp rnn) { return make(rnn, RecurrentCell::rnn); })
      .Case([&](RecurrenceGradientOp op) {
        return makeShape(op.getCell(), op.getKept(), op.getRecurrence(),
                         op.getProjectedGradient(), /*isGradient=*/true);
      })
      .Default([](Operation *) { return std::nullopt; });
}

SmallVector<RecurrenceShape::Product, 2> RecurrenceShape::products() const {
  // Gate h of a gru reads the states after the reset gate; in the backward pass
  // the reset gate reads the cotangent from gate h.
  if (cell == RecurrentCell::gru)
    return isGradient ? SmallVector<Product, 2>{{1, 2, 0}, {1, 1, 2}}
                      : SmallVector<Product, 2>{{2, 1, 0}, {1, 1, 2}};
  return isGradient ? SmallVector<Product, 2>{{1, gates(), 0}}
                    : SmallVector<Product, 2>{{gates(), 1, 0}};
}

//===----------------------------------------------------------------------===//
// Extents
//===----------------------------------------------------------------------===//

int64_t PersistentRnnPlan::rowSlices() const {
  return llvm::divideCeil(shape.batch, rows);
}
int64_t PersistentRnnPlan::unitSlices() const {
  return llvm::divideCeil(shape.hidden, units);
}

int64_t PersistentRnnPlan::tileRows() const {
  return usesMatrixUnits ? llvm::alignTo(rows, kUnitRows) : rows;
}

int64_t
PersistentRnnPlan::columnsOf(const RecurrenceShape::Product &product) const {
  int64_t columns = product.columns * units;
  return usesMatrixUnits ? llvm::alignTo(columns, kUnitColumns) : columns;
}

int64_t PersistentRnnPlan::columns() const {
  int64_t sum = 0;
  for (const RecurrenceShape::Product &product : shape.products())
    sum += columnsOf(product);
  return sum;
}

int64_t
PersistentRnnPlan::depthOf(const RecurrenceShape::Product &product) const {
  return llvm::alignTo(product.depth * shape.hidden,
                       (usesMatrixUnits ? kUnitDepth : kLanes) * splits);
}

int64_t PersistentRnnPlan::depth() const {
  int64_t most = 0;
  for (const RecurrenceShape::Product &product : shape.products())
    most = std::max(most, depthOf(product));
  return most;
}

int64_t PersistentRnnPlan::rowElements() const {
  int64_t most = 0;
  for (const RecurrenceShape::Product &product : shape.products())
    most = std::max(most, product.depth);
  return most * shape.hidden;
}

Type PersistentRnnPlan::tileType() const {
  return usesMatrixUnits ? shape.narrow
                         : Float32Type::get(shape.narrow.getContext());
}

int64_t PersistentRnnPlan::depthPitch() const {
  return depth() + kSkewBytes / bytesPerElement(tileType());
}

int64_t PersistentRnnPlan::sumPitch() const {
  return columnsOf(shape.products().front()) + kSumSkew;
}

int64_t PersistentRnnPlan::stateOffset() const {
  // Threads read adjacent columns, matrix units read rows of the depth.
  int64_t pitch = usesMatrixUnits ? depthPitch() : depth();
  return llvm::alignTo(columns() * pitch * bytesPerElement(tileType()), 16);
}

int64_t PersistentRnnPlan::sumOffset() const {
  return stateOffset() +
         llvm::alignTo(tileRows() * depthPitch() * bytesPerElement(tileType()),
                       16);
}

int64_t PersistentRnnPlan::sharedBytes() const {
  return sumOffset() + splits * tileRows() * sumPitch() * 4;
}

int64_t PersistentRnnPlan::handOverOffset() const {
  return shape.directions * rowSlices() * kCounterBytes;
}

int64_t PersistentRnnPlan::scratchBytes() const {
  return meets() ? handOverOffset() +
                       2 * handOverElements() * bytesPerElement(shape.narrow)
                 : 0;
}

//===----------------------------------------------------------------------===//
// The choice
//===----------------------------------------------------------------------===//

/// Returns true if the matrix units multiply the type.
static bool hasNarrowUnit(const TargetInfo &target, Type type) {
  std::optional<MathType> math = mathTypeOf(type);
  return (type.isF16() || type.isBF16()) && math && target.unit(*math);
}

/// Distributes the warps of a block on the matrix units: first over the
/// columns, then over the depth.
static bool placeWarps(PersistentRnnPlan &plan) {
  int64_t rowTiles = plan.tileRows() / kUnitRows,
          depthTiles = llvm::divideCeil(plan.rowElements(), kUnitDepth);
  int64_t most = 0, shared = 0;
  for (const RecurrenceShape::Product &product : plan.shape.products()) {
    int64_t tiles = plan.columnsOf(product) / kUnitColumns;
    most = std::max(most, tiles);
    shared = std::gcd(shared, tiles);
  }
  int64_t warps = most * rowTiles * depthTiles > 64 ? 8 : 4;
  int64_t columnWarps = std::min<int64_t>(warps, shared & -shared);
  plan.splits =
      std::min<int64_t>(warps / columnWarps, llvm::PowerOf2Ceil(depthTiles));
  plan.threads = 32 * columnWarps * plan.splits;
  int64_t sums = most / columnWarps * rowTiles * 4, held = 0;
  for (const RecurrenceShape::Product &product : plan.shape.products())
    held += plan.columnsOf(product) / kUnitColumns / columnWarps *
            (plan.depthOf(product) / kUnitDepth / plan.splits) * 4;
  plan.keepsFragments = sums + held <= kMostHeld;
  return sums <= kMostSums;
}

/// Distributes the threads of a block: a column each, or a split of its depth.
static void placeThreads(PersistentRnnPlan &plan) {
  constexpr int64_t kThreads = 256, kMostSplits = 16;
  plan.threads = kThreads;
  int64_t columns = plan.columnsOf(plan.shape.products().front());
  plan.splits = std::clamp<int64_t>(
      std::min(kThreads / columns,
               int64_t(llvm::divideCeil(plan.rowElements(), kLanes))),
      1, kMostSplits);
}

std::optional<PersistentRnnPlan>
PersistentRnnPlan::with(const RecurrenceShape &shape, const TargetInfo &target,
                        int64_t rows, int64_t units) {
  if (!target.kernels().hasPersistentRecurrence || !shape.wide.isF32() ||
      !(shape.narrow.isF32() || shape.narrow.isF16() ||
        shape.narrow.isBF16()) ||
      std::min({shape.steps, shape.batch, shape.hidden, rows, units}) < 1 ||
      rows > shape.batch || units > shape.hidden)
    return std::nullopt;
  PersistentRnnPlan plan;
  plan.shape = shape;
  plan.rows = rows;
  plan.units = units;
  plan.usesMatrixUnits = hasNarrowUnit(target, shape.narrow);
  if (plan.usesMatrixUnits) {
    if (!placeWarps(plan))
      return std::nullopt;
  } else {
    placeThreads(plan);
  }
  // All blocks that synchronize must be co-resident, on any GPU of the
  // architecture.
  if (plan.sharedBytes() > target.facts().sharedBytesPerBlock ||
      (plan.meets() && plan.blocks() > target.facts().minMultiprocessors))
    return std::nullopt;
  plan.waves = llvm::divideCeil(plan.blocks(), target.facts().multiprocessors);
  return plan;
}

/// Returns the tile extents that differ in the number of tiles.
static SmallVector<int64_t> slicesOf(int64_t extent) {
  SmallVector<int64_t> extents;
  for (int64_t count = 1; count <= extent;) {
    int64_t each = llvm::divideCeil(extent, count);
    extents.push_back(each);
    // The next number of tiles with a smaller extent.
    count = each == 1 ? extent + 1 : llvm::divideCeil(extent, each - 1);
  }
  return extents;
}

std::optional<PersistentRnnPlan>
PersistentRnnPlan::of(const RecurrenceShape &shape, const TargetInfo &target) {
  std::optional<PersistentRnnPlan> best;
  if (!target.kernels().hasPersistentRecurrence || shape.batch < 1 ||
      shape.hidden < 1)
    return best;
  for (int64_t rows : slicesOf(shape.batch))
    for (int64_t units : slicesOf(shape.hidden))
      if (auto plan = with(shape, target, rows, units);
          plan && (!best || plan->stepSeconds() < best->stepSeconds()))
        best = plan;
  return best;
}

//===----------------------------------------------------------------------===//
// The model
//===----------------------------------------------------------------------===//

double PersistentRnnPlan::stepSeconds() const {
  double cycles = 0;
  int64_t tileBytes = bytesPerElement(tileType());
  for (const RecurrenceShape::Product &product : shape.products()) {
    int64_t depth = depthOf(product);
    if (meets())
      cycles += kMeeting + kMeetingOfBlock * double(unitSlices()) + kHandOver +
                double(rows * product.depth * shape.hidden *
                       bytesPerElement(shape.narrow)) /
                    kCacheBytes;
    double columns = double(columnsOf(product));
    if (usesMatrixUnits) {
      int64_t warpCount = threads / 32,
              tilesOfSplit = depth / kUnitDepth / splits,
              rowTiles = tileRows() / kUnitRows;
      double warps = double(warpCount), depthTiles = double(tilesOfSplit),
             tiles = columns / kUnitColumns * double(rowTiles) *
                     double(splits) / warps;
      cycles += depthTiles * (kUnitStep + tiles * kUnitTile * warps / 4);
      if (!keepsFragments)
        cycles += columns * double(depth * tileBytes) / kSharedBytes;
    } else {
      cycles += columns * double(rows * depth) * kFma;
    }
    int64_t items = llvm::divideCeil(rows * units, threads);
    cycles += kProduct + kCell + kCellItem * double(items);
  }
  // The weights are loaded once.
  cycles += double(columns() * depth() * tileBytes) / kCacheBytes /
            double(shape.steps);
  // Waves run one after another.
  return double(waves) * cycles / kClock;
}

double PersistentRnnPlan::unrolledSeconds(const RecurrenceShape &shape,
                                          const TargetInfo &target) {
  auto products = double(shape.products().size());
  double multiplied =
      double(productOf({shape.gates(), shape.hidden, shape.hidden}));
  double rate = 0;
  if (std::optional<MathType> math = mathTypeOf(shape.narrow))
    rate = target.flopsPerSecond(*math, /*aligned=*/true);
  double each = 2 * products * (target.launchSeconds() + kKernelSeconds);
  if (rate > 0)
    each += 2 * multiplied * double(shape.batch) / rate;
  // A step's weights come from L2, at twice the bandwidth of memory.
  if (target.hasCeilings())
    each += multiplied * double(bytesPerElement(shape.narrow)) /
            (2 * target.bytesPerSecond());
  return each * double(shape.directions);
}
