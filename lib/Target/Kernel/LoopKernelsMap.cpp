//===- LoopKernelsMap.cpp - elementwise and data movement kernels ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Stores every root element by element, in vectors along the last dimension. If
// a transposition moves the last dimension, transposes square tiles in
// registers instead.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"

#include "LoopKernels.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

namespace {
/// Work of one item if a row is split into blocks, in instructions, and maximum
/// elements of a block.
constexpr int64_t kBlockWork = 32768;
constexpr int64_t kLongestBlock = 2048;

class MapPhase : public Phase {
public:
  MapPhase(LoopContext &context, ArrayRef<Root> roots)
      : Phase(context, roots), shape(shapeOf(roots.front().tensor)) {
    if (shape.empty() || target.lanes == 1)
      segments.push_back({{0, 1}, 1});
    else
      segments = planLanes(emitter, tensorsOf(roots), shape.back());
    // Without vectors each element is an item of its own.
    perElement = shape.empty() || target.lanes == 1;
    outer.assign(shape.begin(), perElement ? shape.end() : shape.end() - 1);
    if (segments.size() != 1 || perElement)
      return;
    int64_t lanes = segments.front().lanes;
    int64_t length = std::min(kLongestBlock, kBlockWork / elementCost());
    block = std::max<int64_t>(length / lanes, 1) * lanes;
    // The last block is the longest, so that its vectors stay in bounds.
    if (shape.back() >= 2 * block)
      blocks = shape.back() / block;
  }

  PhaseCost cost() override {
    int64_t lanes = segments.empty() ? 1 : segments.front().lanes;
    double cycles = 0.4 + static_cast<double>(elementCost()) /
                              static_cast<double>(std::min<int64_t>(lanes, 16));
    int64_t line = perElement ? 1 : shape.back();
    return {productOf(outer) * blocks,
            cycles * static_cast<double>(line) / static_cast<double>(blocks)};
  }

  void emit(Value item) override {
    if (elementCount(roots.front().tensor) == 0)
      return;
    Value row = index.div(item, blocks);
    SmallVector<Value> indices = index.delinearize(row, outer);
    if (perElement)
      return storeRoots(indices, 1, {0, shape.empty() ? 1 : shape.back()});
    indices.push_back({});
    if (blocks > 1) {
      Value number = index.rem(item, blocks), first = index.mul(number, block);
      Value isLast = index.less(index.constant(blocks - 2), number);
      Value limit = math.select(isLast, index.constant(shape.back()),
                                index.add(first, block));
      return walk(indices, segments.front(), first, limit, isLast);
    }
    for (const LaneSegment &segment : segments)
      walk(indices, segment, index.constant(segment.range.begin),
           index.constant(segment.range.end), {});
  }

private:
  /// Approximate number of instructions per element of all roots.
  int64_t elementCost() {
    int64_t cost = 1;
    for (const Root &root : roots)
      cost += costOf(emitter, root.tensor);
    return cost;
  }

  /// Emits the vectors of `segment` in [first, limit). `isLast`: whether that
  /// reaches the segment's end (null: yes).
  void walk(SmallVectorImpl<Value> &indices, const LaneSegment &segment,
            Value first, Value limit, Value isLast) {
    int64_t lanes = segment.lanes, last = segment.range.end - lanes,
            rest = segment.range.size() % lanes;
    auto at = [&](Value position) {
      indices.back() = position;
      storeRoots(indices, lanes, segment.range);
    };
    if (segment.range.size() == lanes)
      return at(emitter.index(segment.range.begin));
    if (rest == 0 || !context.inPlace)
      return index.loop(first, limit, lanes, [&](Value position) {
        at(rest ? index.min(position, last) : position);
      });
    // The last vector overlaps the previous one: compute it before anything is
    // overwritten.
    auto compute = [&] {
      indices.back() = emitter.index(last);
      return computeRoots(indices, lanes, segment.range);
    };
    Carried values;
    if (isLast) {
      SmallVector<Type> types;
      for (const Root &root : roots)
        types.push_back(lanesOf(
            carriedType(getElementTypeOrSelf(root.tensor.getType())), lanes));
      values = index.choose(isLast, types, compute, [&] {
        return llvm::map_to_vector<4>(
            types, [&](Type type) { return math.constant(type, 0); });
      });
    } else {
      values = compute();
    }
    index.loop(first, index.min(limit, segment.range.end - rest), lanes, at);
    indices.back() = emitter.index(last);
    auto finish = [&] { writeRoots(values, indices, lanes); };
    if (isLast)
      index.branch(isLast, finish);
    else
      finish();
  }

  SmallVector<int64_t> shape, outer;
  SmallVector<LaneSegment> segments;
  /// Elements of a block, and blocks of a row.
  int64_t block = 1, blocks = 1;
  bool perElement = false;
};

//===----------------------------------------------------------------------===//
// Transposition
//===----------------------------------------------------------------------===//

/// Dimension `line` of the result is the last one of every transposed input.
class TilePhase : public Phase {
public:
  TilePhase(LoopContext &context, ArrayRef<Root> roots,
            ArrayRef<TransposeOp> transposes, int64_t line)
      : Phase(context, roots), transposes(transposes),
        shape(shapeOf(roots.front().tensor)), line(line) {
    int64_t limit = std::min({target.lanes, shape[line], shape.back()});
    while (tile * 2 <= limit)
      tile *= 2;
    for (auto [dim, extent] : llvm::enumerate(shape)) {
      bool tiled = static_cast<int64_t>(dim) == line || dim + 1 == shape.size();
      counts.push_back(tiled ? llvm::divideCeil(extent, tile) : extent);
    }
  }

  PhaseCost cost() override {
    return {productOf(counts), 4.0 * static_cast<double>(tile * tile) / 8};
  }

  void emit(Value item) override {
    SmallVector<Value> indices = index.delinearize(item, counts);
    // The last tile of a dimension is aligned to its end and may overlap the
    // previous.
    for (size_t dim : {static_cast<size_t>(line), shape.size() - 1}) {
      Value first = index.mul(indices[dim], tile);
      indices[dim] =
          shape[dim] % tile ? index.min(first, shape[dim] - tile) : first;
    }
    emitTile(indices);
  }

private:
  void emitTile(ArrayRef<Value> corner) {
    SmallVector<SmallVector<Value>> columns;
    for (TransposeOp transpose : transposes) {
      ArrayRef<int64_t> permutation = transpose.getPermutation();
      SmallVector<Value> rows;
      for (int64_t i = 0; i < tile; ++i) {
        SmallVector<Value> at(corner), source(corner.size());
        at.back() = index.add(corner.back(), i);
        for (auto [dim, from] : llvm::enumerate(permutation))
          source[from] = at[dim];
        rows.push_back(emitter.value(transpose.getInput(), source, tile));
        fetchAhead(rows.back(), permutation.back());
      }
      columns.push_back(
          transposed(rows, getElementTypeOrSelf(transpose.getInput())));
    }
    for (int64_t i = 0; i < tile; ++i) {
      SmallVector<Value> at(corner);
      at[line] = index.add(corner[line], i);
      for (auto [transpose, values] : llvm::zip(transposes, columns))
        emitter.bindValue(transpose.getResult(), values[i]);
      for (const Root &root : roots)
        emitter.store(emitter.value(root.tensor, at, tile), root.memref, at,
                      tile);
    }
    for (TransposeOp transpose : transposes)
      emitter.unbind(transpose.getResult());
  }

  /// Prefetches the row some tiles ahead along dimension `dim` of the source:
  /// hardware prefetchers do not follow such strides.
  void fetchAhead(Value row, int64_t dim) {
    constexpr int64_t kTiles = 4;
    Value bits = emitter.storedBits(row);
    auto load = (bits ? bits : row).getDefiningOp<vector::LoadOp>();
    if (!load || static_cast<int64_t>(load.getIndices().size()) <= dim)
      return;
    SmallVector<Value> indices(load.getIndices());
    indices[dim] = index.add(indices[dim], kTiles * tile);
    index.prefetch(load.getBase(), indices);
  }

  /// Transposes the tile. Rows of 16-bit types are moved as stored, in half the
  /// registers, and upconverted when used.
  SmallVector<Value> transposed(ArrayRef<Value> rows, Type elementType) {
    SmallVector<Value> raw;
    for (Value row : rows)
      if (Value bits = emitter.storedBits(row, elementType))
        raw.push_back(bits);
    bool isStored = raw.size() == rows.size();
    SmallVector<Value> moved =
        transposeTile(isStored ? raw : SmallVector<Value>(rows));
    for (Value &column : moved)
      if (isStored)
        column = emitter.widen(column, elementType);
      else
        emitter.keepRounding(column, rows.front());
    return moved;
  }

  /// log2(tile) rounds of interleaving vector i with vector i + tile / 2.
  SmallVector<Value> transposeTile(SmallVector<Value> rows) {
    SmallVector<int64_t> low, high;
    for (int64_t i = 0; i < tile / 2; ++i) {
      low.append({i, tile + i});
      high.append({tile / 2 + i, tile + tile / 2 + i});
    }
    for (int64_t stride = 1; stride < tile; stride *= 2) {
      SmallVector<Value> next;
      for (int64_t i = 0; i < tile / 2; ++i)
        for (const SmallVector<int64_t> &order : {low, high})
          next.push_back(math.shuffle(rows[i], rows[i + tile / 2], order));
      rows = next;
    }
    return rows;
  }

  SmallVector<TransposeOp> transposes;
  SmallVector<int64_t> shape, counts;
  int64_t line, tile = 1;
};
} // namespace

FailureOr<int64_t>
mpc::findTransposes(ElementEmitter &emitter, ArrayRef<Root> roots,
                    SmallVectorImpl<TransposeOp> &transposes) {
  ArrayRef<int64_t> shape = shapeOf(roots.front().tensor);
  int64_t line = -1;
  bool fits = visitDefinitions(emitter, roots, [&](Operation *op) {
    if (isa<ConstantOp>(op))
      return WalkResult::skip();
    auto transpose = dyn_cast<TransposeOp>(op);
    if (!transpose)
      return isa<ElementwiseOpInterface>(op) ? WalkResult::advance()
                                             : WalkResult::interrupt();
    ArrayRef<int64_t> permutation = transpose.getPermutation();
    int64_t last = static_cast<int64_t>(permutation.size()) - 1;
    int64_t place = llvm::find(permutation, last) - permutation.begin();
    LaneRange all{0, shapeOf(transpose.getInput()).back()};
    if (place == last || (line >= 0 && line != place) ||
        shapeOf(transpose.getResult()) != shape ||
        !isContiguous(emitter, transpose.getInput(), all))
      return WalkResult::interrupt();
    line = place;
    transposes.push_back(transpose);
    return WalkResult::skip();
  });
  if (!fits || line < 0 || shape[line] < 4 || shape.back() < 4)
    return failure();
  return line;
}

std::unique_ptr<Phase> mpc::makeMapPhase(LoopContext &context,
                                         ArrayRef<Root> roots) {
  SmallVector<TransposeOp> transposes;
  FailureOr<int64_t> line = findTransposes(context.emitter, roots, transposes);
  if (succeeded(line) && context.emitter.getTarget().lanes > 1)
    return std::make_unique<TilePhase>(context, roots, transposes, *line);
  return std::make_unique<MapPhase>(context, roots);
}
