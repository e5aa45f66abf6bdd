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

#include "mlir/Dialect/Vector/IR/VectorOps.h"
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
      : context(context), emitter(context.emitter), roots(roots),
        shape(shapeOf(roots.front().tensor)) {
    for (const Root &root : roots)
      tensors.push_back(root.tensor);
    if (shape.empty() || context.target.lanes == 1)
      segments.push_back({{0, 1}, 1});
    else
      segments = planLanes(emitter, tensors, shape.back());
    // Without vectors each element is an item of its own.
    perElement = shape.empty() || context.target.lanes == 1;
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

  LogicalResult emit(Value item) override {
    if (elementCount(roots.front().tensor) == 0)
      return success();
    IndexMath math{context.builder, context.loc};
    Value row = math.div(item, blocks);
    SmallVector<Value> indices = math.delinearize(row, outer);
    if (perElement)
      return store(indices, 1, {0, shape.empty() ? 1 : shape.back()});
    indices.push_back({});
    if (blocks > 1) {
      Value number = math.rem(item, blocks), first = math.mul(number, block);
      Value isLast = math.less(math.constant(blocks - 2), number);
      Value limit = arith::SelectOp::create(context.builder, context.loc,
                                            isLast, math.constant(shape.back()),
                                            math.add(first, block));
      return walk(indices, segments.front(), first, limit, isLast);
    }
    for (const LaneSegment &segment : segments)
      if (failed(walk(indices, segment, math.constant(segment.range.begin),
                      math.constant(segment.range.end), {})))
        return failure();
    return success();
  }

private:
  /// Approximate number of instructions per element of all roots.
  int64_t elementCost() {
    int64_t cost = 1;
    for (Value tensor : tensors)
      cost += costOf(emitter, tensor);
    return cost;
  }

  /// Emits the vectors of `segment` in [first, limit). `isLast`: whether that
  /// reaches the segment's end (null: yes).
  LogicalResult walk(SmallVectorImpl<Value> &indices,
                     const LaneSegment &segment, Value first, Value limit,
                     Value isLast) {
    IndexMath math{context.builder, context.loc};
    int64_t lanes = segment.lanes, last = segment.range.end - lanes,
            rest = segment.range.size() % lanes;
    LogicalResult result = success();
    auto at = [&](Value position) {
      indices.back() = position;
      if (succeeded(result))
        result = store(indices, lanes, segment.range);
    };
    if (segment.range.size() == lanes) {
      at(emitter.index(segment.range.begin));
      return result;
    }
    if (rest == 0 || !context.inPlace) {
      math.loop(first, limit, lanes, [&](Value position) {
        at(rest ? math.min(position, last) : position);
      });
      return result;
    }
    // The last vector overlaps the previous one: compute it before anything is
    // overwritten.
    Carried values;
    auto compute = [&] {
      indices.back() = emitter.index(last);
      FailureOr<Carried> computed =
          this->compute(indices, lanes, segment.range);
      if (failed(computed))
        result = failure();
      else
        values = *computed;
    };
    if (isLast) {
      OpBuilder &b = context.builder;
      SmallVector<Type> types;
      for (const Root &root : roots)
        types.push_back(lanesOf(
            carriedType(getElementTypeOrSelf(root.tensor.getType())), lanes));
      auto branch =
          scf::IfOp::create(b, context.loc, types, isLast, true, true);
      {
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointToEnd(branch.thenBlock());
        compute();
        if (failed(result))
          return failure();
        scf::YieldOp::create(b, context.loc, values);
        b.setInsertionPointToEnd(branch.elseBlock());
        SmallVector<Value> zeros;
        for (Type type : types)
          zeros.push_back(
              arith::ConstantOp::create(b, context.loc, b.getZeroAttr(type)));
        scf::YieldOp::create(b, context.loc, zeros);
      }
      values.assign(branch.getResults().begin(), branch.getResults().end());
    } else {
      compute();
    }
    math.loop(first, math.min(limit, segment.range.end - rest), lanes, at);
    indices.back() = emitter.index(last);
    auto finish = [&] { write(values, indices, lanes); };
    if (isLast)
      math.branch(isLast, finish, [] {});
    else
      finish();
    return result;
  }

  FailureOr<Carried> compute(ValueRange indices, int64_t lanes,
                             LaneRange range) {
    Carried values;
    for (const Root &root : roots) {
      FailureOr<Value> value =
          emitter.emitIn(root.tensor, indices, lanes, range);
      if (failed(value))
        return failure();
      values.push_back(*value);
    }
    return values;
  }

  void write(ValueRange values, ValueRange indices, int64_t lanes) {
    for (auto [root, value] : llvm::zip(roots, values))
      emitter.store(value, root.memref, indices, lanes);
  }

  LogicalResult store(ValueRange indices, int64_t lanes, LaneRange range) {
    // Compute everything before the first store, so that loads are shared.
    FailureOr<Carried> values = compute(indices, lanes, range);
    if (failed(values))
      return failure();
    write(*values, indices, lanes);
    return success();
  }

  LoopContext &context;
  ElementEmitter &emitter;
  SmallVector<Root> roots;
  SmallVector<Value> tensors;
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
      : context(context), emitter(context.emitter), roots(roots),
        transposes(transposes), shape(shapeOf(roots.front().tensor)),
        line(line) {
    int64_t limit = std::min({context.target.lanes, shape[line], shape.back()});
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

  LogicalResult emit(Value item) override {
    IndexMath math{context.builder, context.loc};
    SmallVector<Value> indices = math.delinearize(item, counts);
    // The last tile of a dimension is aligned to its end and may overlap the
    // previous.
    for (size_t dim : {static_cast<size_t>(line), shape.size() - 1}) {
      Value first = math.mul(indices[dim], tile);
      indices[dim] =
          shape[dim] % tile ? math.min(first, shape[dim] - tile) : first;
    }
    return emitTile(indices);
  }

private:
  LogicalResult emitTile(ArrayRef<Value> corner) {
    IndexMath math{context.builder, context.loc};
    SmallVector<SmallVector<Value>> columns;
    for (TransposeOp transpose : transposes) {
      ArrayRef<int64_t> permutation = transpose.getPermutation();
      SmallVector<Value> rows;
      for (int64_t i = 0; i < tile; ++i) {
        SmallVector<Value> at(corner), source(corner.size());
        at.back() = math.add(corner.back(), i);
        for (auto [dim, from] : llvm::enumerate(permutation))
          source[from] = at[dim];
        FailureOr<Value> value =
            emitter.emit(transpose.getInput(), source, tile);
        if (failed(value))
          return failure();
        rows.push_back(*value);
        fetchAhead(*value, permutation.back());
      }
      columns.push_back(
          transposed(rows, getElementTypeOrSelf(transpose.getInput())));
    }
    for (int64_t i = 0; i < tile; ++i) {
      SmallVector<Value> at(corner);
      at[line] = math.add(corner[line], i);
      for (auto [transpose, values] : llvm::zip(transposes, columns))
        emitter.bindValue(transpose.getResult(), values[i]);
      for (const Root &root : roots) {
        FailureOr<Value> value = emitter.emit(root.tensor, at, tile);
        if (failed(value))
          return failure();
        emitter.store(*value, root.memref, at, tile);
      }
    }
    for (TransposeOp transpose : transposes)
      emitter.unbind(transpose.getResult());
    return success();
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
    IndexMath math{context.builder, context.loc};
    indices[dim] = math.add(indices[dim], kTiles * tile);
    memref::PrefetchOp::create(context.builder, context.loc, load.getBase(),
                               indices, /*isWrite=*/false, /*localityHint=*/3,
                               /*isDataCache=*/true);
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
          next.push_back(vector::ShuffleOp::create(context.builder, context.loc,
                                                   rows[i], rows[i + tile / 2],
                                                   order));
      rows = next;
    }
    return rows;
  }

  LoopContext &context;
  ElementEmitter &emitter;
  SmallVector<Root> roots;
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
  llvm::DenseSet<Value> visited;
  SmallVector<Value> work;
  for (const Root &root : roots)
    work.push_back(root.tensor);
  while (!work.empty()) {
    Value value = work.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (!visited.insert(value).second || emitter.isBound(value) || !op ||
        isa<ConstantOp>(op))
      continue;
    if (auto transpose = dyn_cast<TransposeOp>(op)) {
      ArrayRef<int64_t> permutation = transpose.getPermutation();
      int64_t last = static_cast<int64_t>(permutation.size()) - 1;
      int64_t place = llvm::find(permutation, last) - permutation.begin();
      LaneRange all{0, shapeOf(transpose.getInput()).back()};
      if (place == last || (line >= 0 && line != place) ||
          shapeOf(value) != shape ||
          !isContiguous(emitter, transpose.getInput(), all))
        return failure();
      line = place;
      transposes.push_back(transpose);
      continue;
    }
    if (!isa<ElementwiseOpInterface>(op))
      return failure();
    llvm::append_range(work, op->getOperands());
  }
  if (line < 0 || shape[line] < 4 || shape.back() < 4)
    return failure();
  return line;
}

std::unique_ptr<Phase> mpc::makeMapPhase(LoopContext &context,
                                         ArrayRef<Root> roots) {
  SmallVector<TransposeOp> transposes;
  FailureOr<int64_t> line = findTransposes(context.emitter, roots, transposes);
  if (succeeded(line) && context.target.lanes > 1)
    return std::make_unique<TilePhase>(context, roots, transposes, *line);
  return std::make_unique<MapPhase>(context, roots);
}
