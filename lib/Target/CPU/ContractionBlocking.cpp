//===- ContractionBlocking.cpp - blocking of contractions -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// GotoBLAS-style blocking: accumulators fill the registers; data that an item
// reads repeatedly occupies fractions of L2; enough items keep a few threads
// busy, as far as each amortizes its packing.
//
//===----------------------------------------------------------------------===//

#include "ContractionBlocking.h"

#include "AmxTiles.h"
#include "KvCacheLayout.h"

#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Target/TargetInfo.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cpu;
using llvm::divideCeil;
using tile::BlocksAttr;

namespace {
/// The fields of a #tile.blocks under construction.
struct BlockingChoice {
  explicit BlockingChoice(const Contraction &c)
      : c(c), bytes(c.terms.count * bytesPerElement(c.rowType())),
        sumBytes(bytesPerElement(c.sumType)),
        cache(c.target.info().facts().cacheBytes) {
    if (c.packed && c.form != ContractionForm::Depthwise)
      columns = c.packed.getColumns();
    else
      columns = std::min<int64_t>(
          c.form == ContractionForm::Attention
              ? std::max(c.lanes, 2 * vectorLanes(c.sumType, c.target))
              : c.target.blockColumns(),
          llvm::PowerOf2Ceil(std::max(c.width(), c.lanes)));
    rows = c.mostRows(columns);
    panels = (c.form == ContractionForm::Product ? 1 : c.geometry.groups) *
             c.panelsOfGroup(columns);
    if (c.form == ContractionForm::Packing)
      return;
    packsLeft = !c.storesRows();
    packsRight = !c.storesPanels(columns);
  }

  bool isLarge() const;
  void cutProduct();
  void cutLargeProduct();
  void splitIntoItems(int64_t blockRows);
  void cutConvolution();
  void cutDepthwise();
  void cutFilterGradient();
  void cutAttention();
  void cutKeys();
  void cutPacking();
  void prefetchResiduals();
  bool keepToSet(int64_t readers);
  /// Returns true if the row pitch is a multiple of 4 KB, so that rows share
  /// one cache set.
  bool rowsCollide() const { return c.product.depth * bytes % 4096 == 0; }
  bool streamsPanels() const;

  int64_t items() const {
    return outer * divideCeil(allBlocks, blocksPerItem) *
           divideCeil(panels, panelsPerItem ? panelsPerItem : panels);
  }

  const Contraction &c;
  /// Bytes of an operand as packed, with all bf16 terms, of an accumulator, and
  /// of the cache.
  int64_t bytes, sumBytes, cache;
  int64_t rows = 1, columns = 1, chunk = 0, blocksPerItem = 1,
          panelsPerItem = 0;
  bool packsLeft = false, packsRight = false;
  bool fetchesRows = false, fetchesResiduals = false;
  /// Totals: batches or heads, blocks and panels.
  int64_t outer = 1, allBlocks = 1, panels = 1;
};
} // namespace

static void halve(int64_t &number) { number = divideCeil(number, 2); }

/// Returns the rows of a block, up to `most`, that split `extent` into equal
/// blocks: one block size needs half the code of two sizes. Returns `most` if
/// much smaller blocks would read each panel more often.
static int64_t evenRows(int64_t extent, int64_t most) {
  for (int64_t rows = most; 10 * rows >= 7 * most; --rows)
    if (extent % rows == 0)
      return rows;
  return most;
}

//===----------------------------------------------------------------------===//
// GEMMs
//===----------------------------------------------------------------------===//

/// Steps of K per chunk of a large GEMM, with 32 KB per panel; more if panels
/// are packed in advance, because only rows and accumulators are reloaded per
/// chunk.
static constexpr int64_t kChunkSteps = 256, kPackedChunkSteps = 1024;

/// Returns true if the GEMM should be blocked along its depth. With packed
/// panels that only pays for rows that need packing.
bool BlockingChoice::isLarge() const {
  // With fewer multiply-adds per batch the operands fit the caches anyway.
  constexpr int64_t kLeastWork = int64_t(1) << 22, kLeastDepth = 512;
  const GemmExtents &shape = c.product;
  if (shape.m * shape.n * shape.depth < kLeastWork)
    return false;
  if (c.transposeLhs || c.packed)
    return c.transposeLhs;
  // Rows that are read in place coexist with few panels.
  bool fits = !isTiled(c.unit) && !rowsCollide() &&
              2 * shape.depth * columns * bytes <= cache / 2;
  return shape.depth > kLeastDepth && !fits;
}

/// Returns true if rows that must be packed, or come from memory, are used for
/// more packed panels than fit in L2. That pays if blocks consume panels no
/// faster than half of the last-level cache's bandwidth.
bool BlockingChoice::streamsPanels() const {
  const MachineDescription &facts = c.target.info().facts();
  bool isFar =
      c.product.m * c.product.depth * bytes > facts.lastLevelCacheBytes;
  if (packsRight || isTiled(c.unit) || !(rowsCollide() || isFar))
    return false;
  // One panel element per element of each row; in GB/s.
  double rate = 1000 * facts.float32Rate * c.speedup() / double(2 * rows);
  return 2 * rate * double(bytes) <= facts.lastLevelCacheBandwidth;
}

void BlockingChoice::cutProduct() {
  const GemmExtents &shape = c.product;
  int64_t fewestReaders = isTiled(c.unit) ? 4 : 2;
  keepToSet(fewestReaders);
  if (!isTiled(c.unit))
    rows = evenRows(shape.m, rows);
  outer = shape.batch;
  allBlocks = RowSplit(shape.m, rows).blocks;
  int64_t elementBytes =
      packsRight ? bytes
                 : bytesPerElement(getElementTypeOrSelf(c.stored().getType()));
  int64_t panelBytes =
      std::max<int64_t>(1, shape.depth * columns * elementBytes);
  // Rows of a block at a distance of 4 KB share one cache set: they are packed
  // if enough panels read them.
  bool collides = rowsCollide();
  bool streams = streamsPanels();
  int64_t share = cache / 2;
  // All workers use the same panels at a time, so that they share the
  // last-level cache.
  if (streams)
    share = c.target.info().facts().lastLevelCacheBytes * 3 / 2;
  else if (collides && !isTiled(c.unit))
    share = cache * 3 / 4;
  panelsPerItem = std::clamp<int64_t>(share / panelBytes, 1, panels);
  panelsPerItem = divideCeil(panels, divideCeil(panels, panelsPerItem));
  // Panels that come from memory, or are packed here, amortize over many rows.
  int64_t mostBlocks = packsRight ? 64 : 32;
  blocksPerItem = divideCeil(allBlocks, divideCeil(allBlocks, mostBlocks));
  constexpr int64_t kWantedItems = 8;
  packsLeft |= collides && panelsPerItem >= fewestReaders;
  // Slicing rows takes longer than packing them, but for a single block each
  // worker does it once.
  int64_t fewestPanels =
      packsLeft
          ? std::min<int64_t>(panels, c.splitsRows() && allBlocks > 1 ? 8 : 4)
          : 1;
  while (items() < kWantedItems && panelsPerItem / 2 >= fewestPanels)
    halve(panelsPerItem);
  while (items() < kWantedItems && blocksPerItem > (packsRight ? 8 : 1))
    halve(blocksPerItem);
  // With few panels the next rows are needed soon, and hardware prefetchers do
  // not cross pages.
  constexpr int64_t kMostPanels = 12;
  int64_t packedBytes = packsRight ? panelsPerItem * panelBytes : 0;
  fetchesRows = !packsLeft && !c.transposeLhs && !isTiled(c.unit) &&
                (streams || panelsPerItem <= kMostPanels) &&
                shape.m * shape.depth * bytes + packedBytes > cache;
  prefetchResiduals();
}

/// For large residuals only; with a long depth they do not matter.
void BlockingChoice::prefetchResiduals() {
  constexpr int64_t kMostSteps = 1024;
  int64_t depth =
      c.form == ContractionForm::Product ? c.product.depth : c.geometry.depth();
  fetchesResiduals =
      c.steps(depth) <= kMostSteps &&
      llvm::any_of(c.residuals(), [&](BlockArgument residual) {
        auto type = cast<RankedTensorType>(residual.getType());
        return elementCount(residual) * bytesPerElement(type.getElementType()) >
               cache;
      });
}

/// Returns true if rows at a distance of 4 KB are read in place, by fewer than
/// `readers` panels; limits them to the associativity of a cache set.
bool BlockingChoice::keepToSet(int64_t readers) {
  constexpr int64_t kLinesOfSet = 8;
  if (!rowsCollide() || packsLeft || c.transposeLhs || isTiled(c.unit) ||
      panels >= readers)
    return false;
  rows = std::min(rows, kLinesOfSet);
  return true;
}

void BlockingChoice::cutLargeProduct() {
  const GemmExtents &shape = c.product;
  bool isSkinny = keepToSet(4);
  RowSplit split(shape.m, rows);
  outer = shape.batch;
  allBlocks = split.blocks;
  int64_t steps = packsRight ? kChunkSteps : kPackedChunkSteps;
  // Whole segments of a canonical sum.
  if (c.target.isReproducible)
    steps = std::max(steps, kSegmentSteps);
  int64_t mostPositions = c.depthOfStep() * steps;
  // A slightly larger depth is no reason to store accumulators.
  if (shape.depth <= mostPositions * 3 / 2)
    mostPositions = shape.depth;
  chunk = std::min(mostPositions, shape.depth);
  // Equal chunks need code for one length only.
  int64_t whole = c.depthOfStep();
  if (isTiled(c.unit))
    whole *= AmxTiles::kRowBytes / 4;
  for (int64_t count = chunk;
       count >= mostPositions / 2 && !c.target.isReproducible; --count)
    if (shape.depth % count == 0 && count % whole == 0) {
      chunk = count;
      break;
    }
  // Few panels fit in the cache at their whole depth.
  if (isSkinny && panels * shape.depth * columns * bytes <= cache / 2)
    chunk = shape.depth;
  // Rows are packed again for each group of panels, chunk by chunk. That costs
  // more than panels from the last-level cache.
  int64_t share = cache / 2;
  if (!packsRight)
    share =
        std::max(share, c.target.info().facts().lastLevelCacheBytes * 3 / 2);
  else if (chunk < shape.depth)
    share = cache * 3 / 4;
  else if (c.transposeLhs)
    share = cache;
  panelsPerItem =
      std::clamp<int64_t>(share / (chunk * columns * bytes), 1, panels);
  // Rows of a group that amortize packing its panels; all of them if they are
  // stored along K's other side.
  constexpr int64_t kMostRows = 1408;
  int64_t most = std::max<int64_t>(1, kMostRows / split.largest());
  // Groups of almost equal size.
  blocksPerItem = divideCeil(allBlocks, divideCeil(allBlocks, most));
  panelsPerItem = divideCeil(panels, divideCeil(panels, panelsPerItem));
  splitIntoItems(split.rows);
  // Rows at a distance of 4 KB would share one cache set: they are packed if
  // several panels read them.
  bool collides = rowsCollide() && panelsPerItem >= 4;
  packsLeft |= c.transposeLhs || collides;
  // With the whole depth, accumulators need not be stored.
  if (chunk == shape.depth)
    chunk = 0;
}

/// Splits one item into a few, of blocks of `blockRows` rows. Fewer panels per
/// item pack rows again; fewer rows pack panels again.
void BlockingChoice::splitIntoItems(int64_t blockRows) {
  constexpr int64_t kWantedItems = 4, kFewestPanels = 4, kFewestRows = 96;
  while (items() < kWantedItems) {
    bool panelsLeft = panelsPerItem > kFewestPanels;
    bool rowsLeft = blocksPerItem * blockRows >= 2 * kFewestRows;
    if (!panelsLeft && !rowsLeft)
      return;
    // An element of a row costs about two of a panel.
    int64_t again = packsRight ? divideCeil(allBlocks, blocksPerItem) : 0;
    int64_t gathered = divideCeil(panels, panelsPerItem);
    bool paysRows =
        c.transposeLhs && again * c.product.n < 2 * gathered * c.product.m;
    halve(rowsLeft && (paysRows || !panelsLeft) ? blocksPerItem
                                                : panelsPerItem);
  }
}

std::optional<double> cpu::secondsOfPacking(const Contraction &c) {
  const MachineDescription &facts = c.target.info().facts();
  const GemmExtents &shape = c.product;
  if (c.form != ContractionForm::Product || c.packed || shape.batch != 1 ||
      facts.lastLevelCacheBandwidth == 0 ||
      elementCount(c.op->getResult(0)) == 0)
    return std::nullopt;
  BlocksAttr blocks = chooseBlocks(c);
  int64_t all = RowSplit(shape.m, blocks.getRows()).blocks;
  int64_t each = blocks.getBlocksPerItem() ? blocks.getBlocksPerItem() : all;
  int64_t chunks =
      blocks.getChunk() ? divideCeil(shape.depth, blocks.getChunk()) : 1;
  // Panels are read and written for each group of rows; shared ones are read
  // once from memory.
  double panels = double(shape.depth * shape.n) * bytesPerElement(c.rowType());
  double sums = double(shape.m * shape.n) * double(bytesPerElement(c.sumType));
  double packing = double(2 * divideCeil(all, each) - 1) * panels;
  if (c.transposeLhs) {
    // With shared panels, items need not pack rows again.
    int64_t parts = divideCeil(shape.n, blocks.getColumns());
    int64_t most =
        blocks.getPanelsPerItem() ? blocks.getPanelsPerItem() : parts;
    double rows = double(shape.depth * shape.m) * bytesPerElement(c.rowType());
    packing += double(2 * (divideCeil(parts, most) - 1)) * rows;
  }
  double waiting = double(2 * (chunks - 1)) * sums;
  return 1e-9 *
         (packing / facts.bandwidth + waiting / facts.lastLevelCacheBandwidth);
}

double cpu::secondsToPack(Type type, const TargetInfo &target) {
  // One additional kernel: its launch, and the barrier at its end.
  constexpr double kLaunch = 2e-6;
  return 2 * double(byteCount(type)) / (1e9 * target.facts().bandwidth) +
         kLaunch;
}

//===----------------------------------------------------------------------===//
// Convolutions
//===----------------------------------------------------------------------===//

void BlockingChoice::cutConvolution() {
  const ConvolutionGeometry &g = c.geometry;
  if (!isTiled(c.unit))
    rows = evenRows(g.out[2], rows);
  RowSplit lines = PixelBlocks(g, rows).lines;
  auto regionBytes = [&](int64_t strips) {
    return g.regionElements(strips * lines.largest()) * bytes;
  };
  outer = g.batch * g.out[0];
  blocksPerItem = allBlocks = lines.blocks;
  while (blocksPerItem > 1 && regionBytes(blocksPerItem) > cache * 3 / 8)
    halve(blocksPerItem);
  panelsPerItem = panels;
  constexpr int64_t kWantedItems = 8;
  // Splitting panels copies regions again, splitting strips reads panels again.
  auto splitPanels = [&] {
    while (items() < kWantedItems && panelsPerItem > 1)
      halve(panelsPerItem);
  };
  if (panels * g.depth() * columns * bytes > cache / 2)
    splitPanels();
  while (items() < kWantedItems && blocksPerItem > 1)
    halve(blocksPerItem);
  splitPanels();
  prefetchResiduals();
}

void BlockingChoice::cutDepthwise() {
  // Lanes are channels of both operands, two vectors of them; rows at an item's
  // edge are copied twice.
  constexpr int64_t kLines = 8;
  rows = c.target.blockRows() / 2;
  columns = 2 * c.lanes;
  blocksPerItem = std::min(kLines, c.geometry.out[1]);
}

void BlockingChoice::cutFilterGradient() {
  const ConvolutionGeometry &g = c.geometry;
  FilterBlocks cut(g, rows, c.isPlanar());
  panelsPerItem = panels;
  blocksPerItem = allBlocks = cut.split.blocks;
  // Pixels at this distance share few cache sets, and all panels read them.
  packsLeft |= g.channels * bytes % 1024 == 0 && panels > 1;
  // Fewer rows than this do not amortize reading region and panels.
  constexpr int64_t kWantedItems = 4, kFewestRows = 48;
  auto rowsPerItem = [&] {
    return blocksPerItem * cut.split.largest() * cut.places;
  };
  auto keepsTooMuch = [&] {
    return panelsPerItem * columns * rowsPerItem() * sumBytes > cache / 2;
  };
  // A group of panels reads the region, a group of blocks the panels: keep the
  // item square. Reading less than a cache line of a pixel's channels costs a
  // whole line, and partial filter rows cannot be stored contiguously.
  constexpr int64_t kLine = 64;
  auto halvesBlocks = [&] {
    int64_t channels = blocksPerItem * cut.split.rows;
    if (blocksPerItem == 1 || rowsPerItem() < 2 * kFewestRows)
      return false;
    return panelsPerItem == 1
               ? cut.joined || channels * bytes >= 2 * kLine
               : !cut.joined && channels > panelsPerItem * columns;
  };
  while (keepsTooMuch() && (panelsPerItem > 1 || blocksPerItem > 1))
    halve(halvesBlocks() || panelsPerItem == 1 ? blocksPerItem : panelsPerItem);
  while (items() < kWantedItems && (halvesBlocks() || panelsPerItem > 1))
    halve(halvesBlocks() ? blocksPerItem : panelsPerItem);

  // A chunk is some rows of one image, equal chunks, or several small images;
  // the input's region, in which pairs take double space, and the gradient's
  // panels get a quarter of the cache each.
  int64_t wordBytes = bytes * c.depthOfStep();
  FilterRegion held(g, cut, blocksPerItem, wordBytes);
  auto fits = [&](int64_t lines, int64_t images) {
    int64_t taken = panelsPerItem * images * lines * g.out[2] * columns * bytes;
    int64_t region = images * g.regionPixels(lines) * held.pitch * wordBytes;
    return region <= cache / 4 && taken <= cache / 4;
  };
  chunk = g.out[2];
  for (int64_t lines = 1; lines <= g.out[1]; ++lines)
    if (g.out[1] % lines == 0 &&
        (c.target.isReproducible ? lines * g.out[2] <= kSegmentSteps
                                 : fits(lines, 1)))
      chunk = lines * g.out[2];
  // The chunks of a canonical sum depend on the image only.
  if (c.target.isReproducible)
    return;
  // Accumulators are loaded and stored for each chunk.
  constexpr int64_t kEnough = 1024;
  int64_t image = g.out[1] * g.out[2];
  if (g.out[0] > 1 || chunk < image)
    return;
  for (int64_t images = 2; images * image <= kEnough; ++images)
    if (g.batch % images == 0 && fits(g.out[1], images))
      chunk = images * image;
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

void BlockingChoice::cutAttention() {
  auto query = cast<RankedTensorType>(c.lhs().getType());
  outer = productOf(query.getShape().drop_back(2));
  // Minimum row blocks that amortize packing key and value again.
  constexpr int64_t kWantedItems = 8, kFewestBlocks = 4;
  allBlocks = RowSplit(query.getDimSize(query.getRank() - 2), rows).blocks;
  blocksPerItem = allBlocks;
  if (readsKeysInPlace(c))
    return cutKeys();
  while (items() < kWantedItems && blocksPerItem / 2 >= kFewestBlocks)
    halve(blocksPerItem);
}

/// In-place attention: with few rows a block is a head. Splits the keys
/// (split-KV) if there are too few heads for the threads, into splits worth a
/// task.
void BlockingChoice::cutKeys() {
  constexpr int64_t kMostHeads = 4, kManyItems = 32, kFewestPositions = 64,
                    kMostParts = 128;
  // Keys and values alternate: shorter runs have a lower bandwidth.
  constexpr int64_t kRunBytes = 1 << 17, kAskedRunBytes = 3 << 16;
  constexpr double kPartCycles = 20000;
  auto op = cast<AttentionOp>(c.op);
  auto query = cast<RankedTensorType>(op.getQuery().getType()),
       key = cast<RankedTensorType>(op.getKey().getType());
  int64_t heads = query.getShape().end()[-3], readers = 1,
          positions = key.getShape().end()[-2];
  if (int64_t keyHeads = key.getShape().end()[-3])
    readers = heads / keyHeads;
  // All heads if their rows are adjacent: the hardware prefetches the rest of a
  // row. Otherwise, those that read the same keys.
  fetchesRows = readsWholeRows(op);
  std::optional<InPlaceRow> row = InPlaceRow::of(op.getKey());
  rows = query.getShape().end()[-2];
  columns = c.lanes;
  packsLeft = packsRight = false;
  blocksPerItem =
      fetchesRows ? heads : std::min(kMostHeads, row ? heads : readers);
  while (heads % blocksPerItem != 0)
    --blocksPerItem;
  // A canonical sum has one maximum and one chain per element.
  if (c.target.isReproducible || outer / blocksPerItem >= kManyItems)
    return;
  int64_t run = storedKeyBytes(op);
  if (row)
    run *= divideCeil(blocksPerItem, readers);
  double wanted = kPartCycles / (cyclesInPlace(c) * double(blocksPerItem));
  int64_t fewest = (fetchesRows ? kAskedRunBytes : kRunBytes) / run;
  // As many splits as this minimum length permits, of equal length.
  int64_t shortest = std::max({kFewestPositions, int64_t(wanted), fewest,
                               int64_t(divideCeil(positions, kMostParts))});
  // Without software prefetch, longer runs are faster.
  if (!fetchesRows)
    shortest = int64_t(llvm::PowerOf2Ceil(shortest));
  int64_t parts = std::max<int64_t>(positions / shortest, 1);
  auto part = int64_t(
      llvm::alignTo(divideCeil(positions, parts), stepOfParts(c.lanes)));
  if (part < positions)
    chunk = part;
}

//===----------------------------------------------------------------------===//
// Packing
//===----------------------------------------------------------------------===//

void BlockingChoice::cutPacking() {
  // Some cache lines per row of the matrix, so that prefetched neighbors are
  // used, for a chunk whose panels fit in L2.
  constexpr int64_t kPanels = 8, kPositions = 512;
  rows = 1;
  panelsPerItem = std::min(kPanels, panels);
  chunk = std::min(kPositions, c.product.depth);
  packsRight = true;
}

//===----------------------------------------------------------------------===//
// All
//===----------------------------------------------------------------------===//

static LogicalResult checkPacking(const Contraction &c, BlocksAttr blocks) {
  int64_t chunk = blocks.getChunk();
  bool isPlain = blocks.getRows() == 1 && !blocks.packsLeft() &&
                 blocks.packsRight() && !blocks.fetchesRows() &&
                 !blocks.fetchesResiduals();
  if (blocks.getColumns() == c.packed.getColumns() && isPlain &&
      chunk <= c.product.depth &&
      (chunk == c.product.depth || chunk % c.depthOfStep() == 0))
    return success();
  return c.op->emitError() << "the schedule " << blocks
                           << " does not pack panels of "
                           << c.packed.getColumns()
                           << " columns: it needs these columns, 1 row, "
                           << "pack = right, no prefetch, and chunks of up to "
                           << c.product.depth << " positions, a multiple of "
                           << c.depthOfStep();
}

static LogicalResult checkKeys(const Contraction &c, BlocksAttr blocks) {
  auto op = cast<AttentionOp>(c.op);
  auto query = cast<RankedTensorType>(op.getQuery().getType()),
       key = cast<RankedTensorType>(op.getKey().getType());
  int64_t rows = query.getShape().end()[-2], heads = query.getShape().end()[-3],
          positions = key.getShape().end()[-2], whole = stepOfParts(c.lanes);
  bool isPlain = blocks.getRows() == rows && blocks.getColumns() == c.lanes &&
                 blocks.getPanelsPerItem() == 0 && !blocks.packsLeft() &&
                 !blocks.packsRight() && !blocks.fetchesResiduals();
  if (isPlain && heads % blocks.getBlocksPerItem() == 0 &&
      (!c.target.isReproducible || blocks.getChunk() == 0) &&
      blocks.getChunk() < positions && blocks.getChunk() % whole == 0 &&
      (!blocks.fetchesRows() || readsWholeRows(op)))
    return success();
  return c.op->emitError()
         << "the schedule " << blocks << " does not read keys in place: it "
         << "needs " << rows << " rows, " << c.lanes << " columns, a divisor "
         << "of " << heads << " heads as blocks_per_item, chunks of less "
         << "than " << positions << " positions, a multiple of " << whole
         << ", and prefetches rows only if those of all heads are adjacent";
}

BlocksAttr cpu::chooseBlocks(const Contraction &contraction) {
  BlockingChoice cut(contraction);
  switch (contraction.form) {
  case ContractionForm::Product:
    cut.isLarge() ? cut.cutLargeProduct() : cut.cutProduct();
    break;
  case ContractionForm::Convolution:
    cut.cutConvolution();
    break;
  case ContractionForm::Depthwise:
    cut.cutDepthwise();
    break;
  case ContractionForm::FilterGradient:
    cut.cutFilterGradient();
    break;
  case ContractionForm::Attention:
    cut.cutAttention();
    break;
  case ContractionForm::Packing:
    cut.cutPacking();
    break;
  }
  auto ahead =
      tile::Ahead((cut.fetchesRows ? 1 : 0) | (cut.fetchesResiduals ? 2 : 0));
  auto pack = tile::Packing((cut.packsLeft ? 1 : 0) | (cut.packsRight ? 2 : 0));
  return BlocksAttr::get(contraction.op->getContext(), cut.rows, cut.columns,
                         cut.chunk, cut.blocksPerItem, cut.panelsPerItem, pack,
                         ahead);
}

LogicalResult cpu::checkBlocks(const Contraction &c, BlocksAttr blocks) {
  if (c.form == ContractionForm::Packing)
    return checkPacking(c, blocks);
  if (c.form == ContractionForm::Attention && readsKeysInPlace(c))
    return checkKeys(c, blocks);
  auto refuse = [&] { return c.op->emitError() << "the schedule "; };
  int64_t rows = blocks.getRows(), columns = blocks.getColumns();
  int64_t chunk = blocks.getChunk(), panels = blocks.getPanelsPerItem();
  bool isDepthwise = c.form == ContractionForm::Depthwise;
  if (c.packed && !isDepthwise && columns != c.packed.getColumns())
    return refuse() << "has " << columns
                    << " columns, but the packed operand has panels of "
                    << c.packed.getColumns();
  if (columns % c.lanes)
    return refuse() << "has " << columns << " columns, not a multiple of the "
                    << c.lanes << " lanes of " << c.sumType << " accumulators";
  if (c.pair && columns % (2 * c.pair->block))
    return refuse() << "has " << columns << " columns, not a multiple of the "
                    << 2 * c.pair->block << " of both halves of a pair";
  // Accumulators, the panel's vectors and a row's broadcast.
  int64_t vectors = c.vectors(columns), registers = c.target.registers();
  if (isTiled(c.unit)) {
    if (rows > c.mostRows(columns) || vectors > 2)
      return refuse() << "has blocks of " << rows << " rows and " << columns
                      << " columns, which exceed the " << c.mostRows(columns)
                      << " rows and " << 2 * c.lanes
                      << " columns of two by two tiles";
  } else if (rows > registers || columns / c.lanes > registers ||
             (rows + 1) * vectors + 1 > registers)
    return refuse() << "has blocks of " << rows << " rows and " << columns
                    << " columns, which exceed the " << registers
                    << " registers of '" << c.target.name() << "'";
  if (!blocks.packsLeft() && !c.storesRows())
    return refuse()
           << "reads the left operand in place, which is not stored as "
           << c.factorType() << " without padding: " << c.lhs().getType();
  if (!blocks.packsRight() && !c.storesPanels(columns))
    return refuse() << "reads the right operand in place, which is not stored "
                       "in panels of "
                    << columns << " columns: " << c.rhs().getType();
  if (blocks.packsRight() && c.packed && !isDepthwise &&
      c.storesPanels(columns))
    return refuse()
           << "packs the right operand, which is already packed in panels of "
           << c.packed.getColumns() << " columns";
  if (blocks.fetchesRows() &&
      (c.form != ContractionForm::Product || chunk || blocks.packsLeft() ||
       c.transposeLhs || isTiled(c.unit)))
    return refuse()
           << "prefetches rows, which needs a GEMM that reads its left operand "
              "in place by rows, with the whole depth in one chunk";
  if (blocks.fetchesResiduals() && (chunk || c.residuals().empty()))
    return refuse() << "prefetches residuals, but the kernel adds none to "
                       "accumulators in registers";
  switch (c.form) {
  case ContractionForm::Product:
    if (chunk && c.dequantizesPanels())
      return refuse() << "has chunks of " << chunk
                      << " positions, but panels are dequantized as a whole";
    if (chunk > c.product.depth)
      return refuse() << "has chunks of " << chunk
                      << " positions, but the depth is " << c.product.depth;
    if (c.target.isReproducible && chunk < c.product.depth &&
        chunk % kSegmentSteps)
      return refuse() << "has chunks of " << chunk
                      << " positions, but reproducible sums need multiples of "
                      << kSegmentSteps;
    if (chunk < c.product.depth && chunk % c.depthOfStep())
      return refuse() << "has chunks of " << chunk << " positions, but '"
                      << c.target.name() << "' code multiplies "
                      << c.depthOfStep() << " at once";
    break;
  case ContractionForm::FilterGradient: {
    const Spatial &out = c.geometry.out;
    int64_t image = out[1] * out[2];
    if (c.target.isReproducible && chunk != chooseBlocks(c).getChunk())
      return refuse() << "has chunks of " << chunk
                      << " positions, but reproducible sums need chunks of "
                      << chooseBlocks(c).getChunk();
    bool isImages = out[0] == 1 && chunk > image && chunk % image == 0 &&
                    c.geometry.batch % (chunk / image) == 0;
    if (!isImages &&
        (chunk == 0 || chunk % out[2] || out[1] % (chunk / out[2])))
      return refuse() << "has chunks of " << chunk
                      << " positions, which do not divide images of " << out[1]
                      << " rows of " << out[2] << " into whole rows";
    break;
  }
  default:
    if (chunk)
      return refuse() << "has chunks of " << chunk
                      << " positions, but convolutions and attention need the "
                         "whole depth (chunk = 0)";
    if (panels && c.form != ContractionForm::Convolution)
      return refuse()
             << "gives an item " << panels
             << " panels, but items must have all (panels_per_item = 0)";
  }
  return success();
}
