//===- Schedules.cpp - how contractions are cut ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A block of sums fills the registers. What an item reads again and again stays
// in parts of the second-level cache; there are enough items to keep a few
// threads busy, as far as each pays for what it copies.
//
//===----------------------------------------------------------------------===//

#include "Schedules.h"

#include "AttentionRows.h"
#include "TileUnit.h"

#include "mpc/Target/TargetInfo.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using llvm::divideCeil;
using tile::BlocksAttr;

namespace {
/// The numbers of a #tile.blocks while they are chosen.
struct Cut {
  explicit Cut(const Contraction &c)
      : c(c), bytes(c.terms.count * bytesPerElement(c.rowType())),
        sumBytes(bytesPerElement(c.sumType)),
        cache(c.target.info().facts().cacheBytes) {
    if (c.packed && c.form != ContractionForm::Depthwise)
      columns = c.packed.getColumns();
    else
      columns = std::min<int64_t>(
          c.form == ContractionForm::Attention ? 2 * c.lanes
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
  void fetchResiduals();
  bool keepToSet(int64_t readers);
  /// Whether rows lie a multiple of 4 KB apart, and so share one cache set.
  bool rowsCollide() const { return c.product.depth * bytes % 4096 == 0; }
  bool streamsPanels() const;

  int64_t items() const {
    return outer * divideCeil(allBlocks, blocksPerItem) *
           divideCeil(panels, panelsPerItem ? panelsPerItem : panels);
  }

  const Contraction &c;
  /// Of a factor as kernels pack it, with all its terms, of a sum, and of the
  /// cache.
  int64_t bytes, sumBytes, cache;
  int64_t rows = 1, columns = 1, chunk = 0, blocksPerItem = 1,
          panelsPerItem = 0;
  bool packsLeft = false, packsRight = false;
  bool fetchesRows = false, fetchesResiduals = false;
  /// What there is of all: batches or heads, blocks and panels.
  int64_t outer = 1, allBlocks = 1, panels = 1;
};
} // namespace

static void halve(int64_t &number) { number = divideCeil(number, 2); }

/// Rows of a block, up to `most`, which cut `extent` into equal blocks: those
/// need code for one size, half of what a kernel of two sizes has to compile.
/// `most` where much fewer rows would read each panel more often.
static int64_t evenRows(int64_t extent, int64_t most) {
  for (int64_t rows = most; 10 * rows >= 7 * most; --rows)
    if (extent % rows == 0)
      return rows;
  return most;
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// Steps of K in a chunk of a large product, of which a panel has 32 KB; where
/// panels are only read, rows and sums alone come and go with it.
static constexpr int64_t kChunkSteps = 256, kPackedChunkSteps = 1024;

/// Whether the product is worth being cut along its depth, which packed panels
/// are not for rows that lie as they are read, or gathers rows for many panels.
bool Cut::isLarge() const {
  // Below this many multiply-adds of a batch the operands fit the caches
  // anyway.
  constexpr int64_t kLeastWork = int64_t(1) << 22, kLeastDepth = 512;
  const ProductShape &shape = c.product;
  if (shape.m * shape.n * shape.depth < kLeastWork)
    return false;
  if (c.transposeLhs || c.packed)
    return c.transposeLhs;
  // Rows that are read in place need few panels beside them.
  bool fits = !isTiled(c.unit) && !rowsCollide() &&
              2 * shape.depth * columns * bytes <= cache / 2;
  return shape.depth > kLeastDepth && !fits;
}

/// Whether rows that have to be copied, or come from memory, are used for more
/// packed panels than the second-level cache holds. That pays where blocks
/// multiply no faster than panels come from the last-level cache, with half of
/// its rate to spare.
bool Cut::streamsPanels() const {
  const TargetFacts &facts = c.target.info().facts();
  bool isFar = c.product.m * c.product.depth * bytes > facts.farCacheBytes;
  if (packsRight || isTiled(c.unit) || !(rowsCollide() || isFar))
    return false;
  // A factor of a panel is multiplied by one of each row; in GB/s.
  double rate = 1000 * facts.float32Rate * c.speedup() / double(2 * rows);
  return 2 * rate * double(bytes) <= facts.farCacheBandwidth;
}

void Cut::cutProduct() {
  const ProductShape &shape = c.product;
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
  // Rows of a block at a distance of 4 KB share one cache set: they are copied
  // where enough panels read them.
  bool collides = rowsCollide();
  bool streams = streamsPanels();
  int64_t share = cache / 2;
  // All workers go through the same panels at a time, so that they share what
  // each has of the last-level cache.
  if (streams)
    share = c.target.info().facts().farCacheBytes * 3 / 2;
  else if (collides && !isTiled(c.unit))
    share = cache * 3 / 4;
  panelsPerItem = std::clamp<int64_t>(share / panelBytes, 1, panels);
  panelsPerItem = divideCeil(panels, divideCeil(panels, panelsPerItem));
  // Panels that come from memory, or are packed here, pay for themselves over
  // many rows.
  int64_t mostBlocks = packsRight ? 64 : 32;
  blocksPerItem = divideCeil(allBlocks, divideCeil(allBlocks, mostBlocks));
  constexpr int64_t kWantedItems = 8;
  packsLeft |= collides && panelsPerItem >= fewestReaders;
  // To split rows takes longer than to copy them, but of one block each worker
  // does it once.
  int64_t fewestPanels =
      packsLeft
          ? std::min<int64_t>(panels, c.splitsRows() && allBlocks > 1 ? 8 : 4)
          : 1;
  while (items() < kWantedItems && panelsPerItem / 2 >= fewestPanels)
    halve(panelsPerItem);
  while (items() < kWantedItems && blocksPerItem > (packsRight ? 8 : 1))
    halve(blocksPerItem);
  // Few panels read the rows before others are wanted, which hardware does not
  // foresee across pages.
  constexpr int64_t kMostPanels = 12;
  int64_t packedBytes = packsRight ? panelsPerItem * panelBytes : 0;
  fetchesRows = !packsLeft && !c.transposeLhs && !isTiled(c.unit) &&
                (streams || panelsPerItem <= kMostPanels) &&
                shape.m * shape.depth * bytes + packedBytes > cache;
  fetchResiduals();
}

/// Of large residuals; where the depth is long they do not matter.
void Cut::fetchResiduals() {
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

/// Whether rows at a distance of 4 KB are read in place, for fewer than
/// `readers` panels: no more of them than a cache set has lines.
bool Cut::keepToSet(int64_t readers) {
  constexpr int64_t kLinesOfSet = 8;
  if (!rowsCollide() || packsLeft || c.transposeLhs || isTiled(c.unit) ||
      panels >= readers)
    return false;
  rows = std::min(rows, kLinesOfSet);
  return true;
}

void Cut::cutLargeProduct() {
  const ProductShape &shape = c.product;
  bool isSkinny = keepToSet(4);
  RowSplit split(shape.m, rows);
  outer = shape.batch;
  allBlocks = split.blocks;
  int64_t mostPositions =
      c.depthOfStep() * (packsRight ? kChunkSteps : kPackedChunkSteps);
  // A little more depth is no reason to keep sums in memory.
  if (shape.depth <= mostPositions * 3 / 2)
    mostPositions = shape.depth;
  chunk = std::min(mostPositions, shape.depth);
  // Chunks alike need code for one length only.
  int64_t whole = c.depthOfStep();
  if (isTiled(c.unit))
    whole *= TileUnit::kRowBytes / 4;
  for (int64_t count = chunk; count >= mostPositions / 2; --count)
    if (shape.depth % count == 0 && count % whole == 0) {
      chunk = count;
      break;
    }
  // Few panels stay in the cache at their whole depth.
  if (isSkinny && panels * shape.depth * columns * bytes <= cache / 2)
    chunk = shape.depth;
  // Rows are packed again for each group of panels, chunk by chunk. Gathering
  // them costs more than panels from behind the cache do.
  int64_t share = cache / 2;
  if (!packsRight)
    share = std::max(share, c.target.info().facts().farCacheBytes * 3 / 2);
  else if (chunk < shape.depth)
    share = cache * 3 / 4;
  else if (c.transposeLhs)
    share = cache;
  panelsPerItem =
      std::clamp<int64_t>(share / (chunk * columns * bytes), 1, panels);
  // Rows of a group that are worth packing its panels; all of them are packed
  // where they are stored along K's other side.
  constexpr int64_t kMostRows = 1408;
  int64_t most = std::max<int64_t>(1, kMostRows / split.largest());
  // Groups of almost equal size.
  blocksPerItem = divideCeil(allBlocks, divideCeil(allBlocks, most));
  panelsPerItem = divideCeil(panels, divideCeil(panels, panelsPerItem));
  splitIntoItems(split.rows);
  // Rows at a distance of 4 KB would share one cache set: they are copied where
  // several panels read them.
  bool collides = rowsCollide() && panelsPerItem >= 4;
  packsLeft |= c.transposeLhs || collides;
  // Sums of the whole depth need not wait in memory.
  if (chunk == shape.depth)
    chunk = 0;
}

/// Makes a few items out of one, of blocks of `blockRows` rows. Fewer panels of
/// an item gather rows again that lie across, fewer rows pack panels again.
void Cut::splitIntoItems(int64_t blockRows) {
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

std::optional<double> mpc::secondsOfPacking(const Contraction &c) {
  const TargetFacts &facts = c.target.info().facts();
  const ProductShape &shape = c.product;
  if (c.form != ContractionForm::Product || c.packed || shape.batch != 1 ||
      facts.farCacheBandwidth == 0 || elementCount(c.op->getResult(0)) == 0)
    return std::nullopt;
  BlocksAttr blocks = chooseBlocks(c);
  int64_t all = RowSplit(shape.m, blocks.getRows()).blocks;
  int64_t each = blocks.getBlocksPerItem() ? blocks.getBlocksPerItem() : all;
  int64_t chunks =
      blocks.getChunk() ? divideCeil(shape.depth, blocks.getChunk()) : 1;
  // Panels are read and written for each group of rows; shared ones are read
  // once, as far as they come from memory.
  double panels = double(shape.depth * shape.n) * bytesPerElement(c.rowType());
  double sums = double(shape.m * shape.n) * double(bytesPerElement(c.sumType));
  double packing = double(2 * divideCeil(all, each) - 1) * panels;
  if (c.transposeLhs) {
    // Items of shared panels need not gather rows again.
    int64_t parts = divideCeil(shape.n, blocks.getColumns());
    int64_t most =
        blocks.getPanelsPerItem() ? blocks.getPanelsPerItem() : parts;
    double rows = double(shape.depth * shape.m) * bytesPerElement(c.rowType());
    packing += double(2 * (divideCeil(parts, most) - 1)) * rows;
  }
  double waiting = double(2 * (chunks - 1)) * sums;
  return 1e-9 * (packing / facts.bandwidth + waiting / facts.farCacheBandwidth);
}

double mpc::secondsToPack(Type type, const TargetInfo &target) {
  // Of one kernel more: its start, and that all workers meet at its end.
  constexpr double kLaunch = 2e-6;
  return 2 * double(byteCount(type)) / (1e9 * target.facts().bandwidth) +
         kLaunch;
}

//===----------------------------------------------------------------------===//
// Convolutions
//===----------------------------------------------------------------------===//

void Cut::cutConvolution() {
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
  fetchResiduals();
}

void Cut::cutDepthwise() {
  // Lanes are channels of both operands, two vectors of them; lines at an
  // item's edge are copied twice.
  constexpr int64_t kLines = 8;
  rows = c.target.blockRows() / 2;
  columns = 2 * c.lanes;
  blocksPerItem = std::min(kLines, c.geometry.out[1]);
}

void Cut::cutFilterGradient() {
  const ConvolutionGeometry &g = c.geometry;
  FilterBlocks cut(g, rows, c.isPlanar());
  panelsPerItem = panels;
  blocksPerItem = allBlocks = cut.split.blocks;
  // Pixels at such a distance share few cache sets, and panels all read them.
  packsLeft |= g.channels * bytes % 1024 == 0 && panels > 1;
  // Fewer rows than this do not pay for reading region and panels.
  constexpr int64_t kWantedItems = 4, kFewestRows = 48;
  auto rowsPerItem = [&] {
    return blocksPerItem * cut.split.largest() * cut.places;
  };
  auto keepsTooMuch = [&] {
    return panelsPerItem * columns * rowsPerItem() * sumBytes > cache / 2;
  };
  // A group of panels reads the region, a group of blocks the panels: the item
  // stays square. Less than a cache line of a pixel's channels is read as
  // dearly as all of it, and lines of the filter that an item has only some
  // pixels of are not stored in one piece.
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

  // A chunk is some lines of one image, all chunks alike, or some small images;
  // the input's region, which holds pairs twice, and the gradient's panels have
  // a quarter of the cache each.
  int64_t wordBytes = bytes * c.depthOfStep();
  FilterRegion held(g, cut, blocksPerItem, wordBytes);
  auto fits = [&](int64_t lines, int64_t images) {
    int64_t taken = panelsPerItem * images * lines * g.out[2] * columns * bytes;
    int64_t region = images * g.regionPixels(lines) * held.pitch * wordBytes;
    return region <= cache / 4 && taken <= cache / 4;
  };
  chunk = g.out[2];
  for (int64_t lines = 1; lines <= g.out[1]; ++lines)
    if (g.out[1] % lines == 0 && fits(lines, 1))
      chunk = lines * g.out[2];
  // Sums are read and written again for each chunk.
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

void Cut::cutAttention() {
  auto query = cast<RankedTensorType>(c.lhs().getType());
  outer = productOf(query.getShape().drop_back(2));
  // Fewest row blocks that pay for packing key and value again.
  constexpr int64_t kWantedItems = 8, kFewestBlocks = 4;
  allBlocks = RowSplit(query.getDimSize(query.getRank() - 2), rows).blocks;
  blocksPerItem = allBlocks;
  if (readsKeysInPlace(c))
    return cutKeys();
  while (items() < kWantedItems && blocksPerItem / 2 >= kFewestBlocks)
    halve(blocksPerItem);
}

/// Of few rows a block is a head. Keys are cut where heads are too few for many
/// threads, into parts that are worth a part of a task.
void Cut::cutKeys() {
  constexpr int64_t kMostHeads = 4, kManyItems = 32, kFewestPositions = 64,
                    kMostParts = 128;
  // Keys and values are read in turns: in shorter runs they come slower.
  constexpr int64_t kRunBytes = 1 << 17, kAskedRunBytes = 3 << 16;
  constexpr double kPartCycles = 20000;
  auto op = cast<AttentionOp>(c.op);
  auto query = cast<RankedTensorType>(op.getQuery().getType()),
       key = cast<RankedTensorType>(op.getKey().getType());
  int64_t heads = query.getShape().end()[-3], readers = 1,
          positions = key.getShape().end()[-2];
  if (int64_t keyHeads = key.getShape().end()[-3])
    readers = heads / keyHeads;
  // All heads where their rows lie side by side: what processors fetch ahead of
  // a part of a row is the rest of it. Else those that read the same keys.
  fetchesRows = readsWholeRows(op);
  std::optional<StoredRow> row = StoredRow::of(op.getKey());
  rows = query.getShape().end()[-2];
  columns = c.lanes;
  packsLeft = packsRight = false;
  blocksPerItem =
      fetchesRows ? heads : std::min(kMostHeads, row ? heads : readers);
  while (heads % blocksPerItem != 0)
    --blocksPerItem;
  if (outer / blocksPerItem >= kManyItems)
    return;
  int64_t run = storedKeyBytes(op);
  if (row)
    run *= divideCeil(blocksPerItem, readers);
  double wanted = kPartCycles / (cyclesInPlace(c) * double(blocksPerItem));
  int64_t fewest = (fetchesRows ? kAskedRunBytes : kRunBytes) / run;
  // As many as are no shorter than this, all of one length.
  int64_t shortest = std::max({kFewestPositions, int64_t(wanted), fewest,
                               int64_t(divideCeil(positions, kMostParts))});
  // What nothing asks for comes faster in longer runs still.
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

void Cut::cutPacking() {
  // Some cache lines of each line of the matrix, so that what is fetched with
  // them is used, of a piece whose panels fit the second-level cache.
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
  return c.op->emitError()
         << "the schedule " << blocks << " does not pack panels of "
         << c.packed.getColumns() << " columns: it takes these columns, 1 row, "
         << "pack = right, nothing ahead, and chunks of up to "
         << c.product.depth << " positions, whole steps of " << c.depthOfStep();
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
      blocks.getChunk() < positions && blocks.getChunk() % whole == 0 &&
      (!blocks.fetchesRows() || readsWholeRows(op)))
    return success();
  return c.op->emitError()
         << "the schedule " << blocks << " does not read keys in place: it "
         << "takes " << rows << " rows, " << c.lanes << " columns, a divisor "
         << "of " << heads << " heads as blocks of an item, chunks of less "
         << "than " << positions << " positions, whole ones of " << whole
         << ", and rows ahead only where those of all heads lie side by side";
}

BlocksAttr mpc::chooseBlocks(const Contraction &contraction) {
  Cut cut(contraction);
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

LogicalResult mpc::checkBlocks(const Contraction &c, BlocksAttr blocks) {
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
                    << " columns, the packed operand panels of "
                    << c.packed.getColumns();
  if (columns % c.lanes)
    return refuse() << "has " << columns << " columns, no multiple of the "
                    << c.lanes << " lanes of " << c.sumType << " sums";
  if (c.pair && columns % (2 * c.pair->block))
    return refuse() << "has " << columns << " columns, no multiple of the "
                    << 2 * c.pair->block
                    << " in which both halves of pairs stand";
  // Sums, the panel's vectors and a row's factor.
  int64_t vectors = c.vectors(columns), registers = c.target.registers();
  if (isTiled(c.unit)) {
    if (rows > c.mostRows(columns) || vectors > 2)
      return refuse() << "has blocks of " << rows << " rows and " << columns
                      << " columns, which do not fit the "
                      << c.mostRows(columns) << " rows and " << 2 * c.lanes
                      << " columns of two by two tiles";
  } else if (rows > registers || columns / c.lanes > registers ||
             (rows + 1) * vectors + 1 > registers)
    return refuse() << "has blocks of " << rows << " rows and " << columns
                    << " columns, which do not fit the " << registers
                    << " registers of '" << c.target.name() << "'";
  if (!blocks.packsLeft() && !c.storesRows())
    return refuse() << "reads the left operand in place, which does not lie in "
                       "memory as "
                    << c.factorType()
                    << " without padding: " << c.lhs().getType();
  if (!blocks.packsRight() && !c.storesPanels(columns))
    return refuse()
           << "reads the right operand in place, which does not lie in "
              "panels of "
           << columns << " columns: " << c.rhs().getType();
  if (blocks.packsRight() && c.packed && !isDepthwise && c.terms.count == 1)
    return refuse() << "packs the right operand, which is packed in panels of "
                    << c.packed.getColumns() << " columns";
  if (blocks.fetchesRows() &&
      (c.form != ContractionForm::Product || chunk || blocks.packsLeft() ||
       c.transposeLhs || isTiled(c.unit)))
    return refuse() << "fetches rows ahead, which only a product does that "
                       "reads its left operand in place, row by row, and its "
                       "depth at once";
  if (blocks.fetchesResiduals() && (chunk || c.residuals().empty()))
    return refuse() << "fetches residuals ahead, of which the kernel has none "
                       "that is added to sums in registers";
  switch (c.form) {
  case ContractionForm::Product:
    if (chunk > c.product.depth)
      return refuse() << "has chunks of " << chunk
                      << " positions, the depth is " << c.product.depth;
    if (chunk < c.product.depth && chunk % c.depthOfStep())
      return refuse() << "has chunks of " << chunk << " positions, of which '"
                      << c.target.name() << "' code multiplies "
                      << c.depthOfStep() << " at once";
    break;
  case ContractionForm::FilterGradient: {
    const Spatial &out = c.geometry.out;
    int64_t image = out[1] * out[2];
    bool isImages = out[0] == 1 && chunk > image && chunk % image == 0 &&
                    c.geometry.batch % (chunk / image) == 0;
    if (!isImages &&
        (chunk == 0 || chunk % out[2] || out[1] % (chunk / out[2])))
      return refuse() << "has chunks of " << chunk
                      << " positions, which do not divide images of " << out[1]
                      << " lines of " << out[2] << " into whole lines";
    break;
  }
  default:
    if (chunk)
      return refuse() << "has chunks of " << chunk
                      << " positions; sums of windows and of attention are "
                         "taken over the depth at once (chunk = 0)";
    if (panels && c.form != ContractionForm::Convolution)
      return refuse() << "gives an item " << panels
                      << " panels, where items have all (panels_per_item = 0)";
  }
  return success();
}
