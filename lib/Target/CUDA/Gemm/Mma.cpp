//===- Mma.cpp - warp-level GEMM on tensor cores --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Mma.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

//===----------------------------------------------------------------------===//
// Loops, private arrays, shared memory
//===----------------------------------------------------------------------===//

Value cuda::named(const IndexMath &math, Value value, StringRef name) {
  Operation *op = value.getDefiningOp();
  if (op && !op->hasTrait<OpTrait::ConstantLike>() &&
      value.getLoc() == math.loc)
    value.setLoc(NameLoc::get(math.b.getStringAttr(name)));
  return value;
}

void cuda::unrolled(GpuKernel &kernel, int64_t count, StringRef name,
                    llvm::function_ref<void(Value)> body, int64_t factor) {
  IndexMath math{kernel.builder, kernel.loc};
  if (count == 1)
    return body(math.constant(0));
  auto loop = scf::ForOp::create(kernel.builder, kernel.loc, math.constant(0),
                                 math.constant(count), math.constant(1));
  OpBuilder &b = kernel.builder;
  loop->setAttr(kUnrollAttr, factor ? Attribute(b.getI64IntegerAttr(factor))
                                    : Attribute(b.getUnitAttr()));
  kernel.named(loop.getInductionVar(), name);
  OpBuilder::InsertionGuard guard(kernel.builder);
  kernel.builder.setInsertionPoint(loop.getBody()->getTerminator());
  body(loop.getInductionVar());
}

void cuda::eachElement(GpuKernel &kernel, Value array,
                       llvm::function_ref<void(ArrayRef<Value>)> body) {
  ArrayRef<int64_t> shape = cast<MemRefType>(array.getType()).getShape();
  static constexpr StringRef kNames[] = {"i", "j", "e"};
  SmallVector<Value> at;
  auto visit = [&](auto &&self) -> void {
    size_t level = at.size();
    if (level == shape.size())
      return body(at);
    unrolled(kernel, shape[level], kNames[std::min<size_t>(level, 2)],
             [&](Value i) {
               at.push_back(i);
               self(self);
               at.pop_back();
             });
  };
  visit(visit);
}

void cuda::fill(GpuKernel &kernel, Value array, double value) {
  OpBuilder &b = kernel.builder;
  Type element = cast<MemRefType>(array.getType()).getElementType();
  Value constant =
      arith::ConstantOp::create(b, kernel.loc, b.getFloatAttr(element, value));
  eachElement(kernel, array, [&](ArrayRef<Value> at) {
    IndexMath{b, kernel.loc}.store(constant, array, at);
  });
}

Value cuda::slotOf(GpuKernel &kernel, Value array, ValueRange indices) {
  ArrayRef<int64_t> shape = cast<MemRefType>(array.getType()).getShape();
  SmallVector<Value> at(indices);
  IndexMath math{kernel.builder, kernel.loc};
  at.append(shape.size() - at.size(), math.constant(0));
  return partFrom(kernel, array, at, shape.drop_front(indices.size()), "");
}

Value cuda::partFrom(GpuKernel &kernel, Value memory, ValueRange at,
                     ArrayRef<int64_t> extents, StringRef name) {
  OpBuilder &b = kernel.builder;
  auto type = cast<MemRefType>(memory.getType());
  SmallVector<OpFoldResult> offsets = getAsOpFoldResult(at),
                            sizes(at.size() - extents.size(),
                                  b.getIndexAttr(1)),
                            strides(at.size(), b.getIndexAttr(1));
  for (int64_t extent : extents)
    sizes.push_back(b.getIndexAttr(extent));
  MemRefType part = memref::SubViewOp::inferRankReducedResultType(
      extents, type, offsets, sizes, strides);
  Location loc = kernel.loc;
  if (!name.empty())
    loc = NameLoc::get(b.getStringAttr(name));
  return memref::SubViewOp::create(b, loc, part, memory, offsets, sizes,
                                   strides);
}

static gpu::AddressSpaceAttr workgroupSpace(MLIRContext *context) {
  return gpu::AddressSpaceAttr::get(context, gpu::AddressSpace::Workgroup);
}

Value cuda::dynamicShared(GpuKernel &kernel) {
  OpBuilder &b = kernel.builder;
  auto type = MemRefType::get({ShapedType::kDynamic}, b.getI8Type(),
                              MemRefLayoutAttrInterface(),
                              workgroupSpace(b.getContext()));
  return gpu::DynamicSharedMemoryOp::create(
      b, NameLoc::get(b.getStringAttr("shared")), type);
}

Value cuda::sharedView(GpuKernel &kernel, Value bytes, int64_t offset,
                       ArrayRef<int64_t> shape, Type type, StringRef name) {
  OpBuilder &b = kernel.builder;
  auto viewType = MemRefType::get(shape, type, MemRefLayoutAttrInterface(),
                                  workgroupSpace(b.getContext()));
  IndexMath math{b, kernel.loc};
  return memref::ViewOp::create(b, NameLoc::get(b.getStringAttr(name)),
                                viewType, bytes, math.constant(offset),
                                ValueRange{});
}

SmallVector<Value> TileLayout::at(const IndexMath &math, ValueRange leading,
                                  Value line, Value position) const {
  SmallVector<Value> place(leading);
  if (isCut) {
    place.push_back(math.div(position, lineOf(bytes)));
    position = math.rem(position, lineOf(bytes));
  }
  if (isPermuted)
    position =
        Swizzle{/*bits=*/3, /*base=*/bytes == 1 ? 4 : 3}(math, line, position);
  place.append({line, position});
  return place;
}

//===----------------------------------------------------------------------===//
// Lane layout
//===----------------------------------------------------------------------===//

Value WarpMma::lane() {
  return gpu::LaneIdOp::create(kernel.builder, kernel.loc, IntegerAttr());
}

Value WarpMma::group() {
  return named(math(), MatrixUnit::sums().row.take(2)(math(), lane()), "group");
}

Value WarpMma::pair() {
  return named(math(), MatrixUnit::sums().column.take(2)(math(), lane()),
               "pair");
}

//===----------------------------------------------------------------------===//
// Fragments
//===----------------------------------------------------------------------===//

Value WarpMma::leftFragments(int64_t blocks, StringRef name) {
  return kernel.local({blocks, 4}, kernel.builder.getI32Type(), name);
}

Value WarpMma::rightFragments(int64_t blocks, StringRef name) {
  return kernel.local({blocks, 2}, kernel.builder.getI32Type(), name);
}

Value WarpMma::sums(int64_t rowBlocks, int64_t columnBlocks, StringRef name) {
  return kernel.local({rowBlocks, columnBlocks, 4}, kernel.builder.getF32Type(),
                      name);
}

Value WarpMma::loadWord(const WarpOperand &from, Value row, Value k) {
  OpBuilder &b = kernel.builder;
  SmallVector<Value> elements;
  for (int64_t e = 0; e < unit.perWord(); ++e)
    elements.push_back(
        math().load(from.tile, from.at(math(), row, math().add(k, e))));
  return cuda::CallOp::create(b, kernel.loc, b.getI32Type(),
                              b.getStringAttr(unit.pack), elements);
}

void WarpMma::loadElements(Value fragments, const WarpOperand &from, Value k,
                           const FragmentLayout &layout, int64_t rows) {
  ArrayRef<int64_t> shape = cast<MemRefType>(fragments.getType()).getShape();
  Value l = lane(), laneRow = layout.row.take(2)(math(), l),
        laneK = layout.column.take(2)(math(), l);
  Layout wordRow = layout.row.drop(3), wordK = layout.column.drop(3);
  unrolled(kernel, shape[0], rows == 8 ? "j" : "i", [&](Value i) {
    Value row = math().add(math().add(from.row, math().mul(i, rows)), laneRow);
    for (int64_t word = 0; word < shape[1]; ++word) {
      Value loaded = loadWord(from, math().add(row, wordRow(word)),
                              math().add(math().add(k, laneK), wordK(word)));
      math().store(loaded, fragments, {i, math().constant(word)});
    }
  });
}

Value WarpMma::matrixFrom(const WarpOperand &from, Value k,
                          const FragmentLayout &layout, int64_t words,
                          int64_t rows, StringRef name) {
  // Eight lanes address the lines of the matrix of a word: the elements that
  // lanes 4 i or, transposed, lanes i / 2 receive first.
  int64_t each = unit.perWord(), word = 32 * each;
  Layout lines = from.alongDepth ? Layout{{8, 4}, {words, word}}
                                 : Layout{{2, 32}, {4, 1}, {words, word}};
  Value l = words == 4 ? lane() : math().rem(lane(), 8 * words),
        row = math().add(from.row, layout.row.compose(lines)(math(), l)),
        depth = math().add(k, layout.column.compose(lines)(math(), l));
  SmallVector<Value> at(from.leading);
  if (from.alongDepth) {
    at.append({row, depth});
    return partFrom(kernel, from.tile, at, {rows, 4 * each}, name);
  }
  at.append({depth, row});
  return partFrom(kernel, from.tile, at, {1, rows - 1 + 8}, name);
}

void WarpMma::loadMatrices(Value words, const WarpOperand &from, Value tiles,
                           Value row) {
  SmallVector<Value> at = {row, math().constant(0)};
  if (!from.alongDepth)
    std::swap(at[0], at[1]);
  cuda::LoadMatrixOp::create(kernel.builder, kernel.loc, words, tiles, at,
                             !from.alongDepth);
}

void WarpMma::loadLeft(Value fragments, const WarpOperand &from, Value k) {
  if (!hasMatrixLoads(from))
    return loadElements(fragments, from, k, unit.left(), 16);
  int64_t blocks = cast<MemRefType>(fragments.getType()).getDimSize(0);
  Value tiles =
      matrixFrom(from, k, unit.left(), 4, 16 * blocks - 15, "lhsTile");
  unrolled(kernel, blocks, "i", [&](Value i) {
    loadMatrices(slotOf(kernel, fragments, i), from, tiles, math().mul(i, 16));
  });
}

void WarpMma::loadRight(Value fragments, const WarpOperand &from, Value k) {
  if (!hasMatrixLoads(from))
    return loadElements(fragments, from, k, unit.right(), 8);
  OpBuilder &b = kernel.builder;
  int64_t blocks = cast<MemRefType>(fragments.getType()).getDimSize(0);
  // Two blocks at a time.
  int64_t pairs = blocks / 2;
  if (pairs > 0) {
    Value words = kernel.local({4}, b.getI32Type(), "words");
    Value tiles =
        matrixFrom(from, k, unit.right(), 4, 16 * pairs - 15, "rhsTile");
    unrolled(kernel, pairs, "j", [&](Value j) {
      loadMatrices(words, from, tiles, math().mul(j, 16));
      unrolled(kernel, 4, "w", [&](Value w) {
        Value word = math().load(words, w);
        Value block = math().add(math().mul(j, 2), math().div(w, 2));
        math().store(word, fragments, {block, math().rem(w, 2)});
      });
    });
  }
  if (blocks % 2) {
    WarpOperand last = from;
    last.row = math().add(from.row, (blocks - 1) * 8);
    loadMatrices(slotOf(kernel, fragments, math().constant(blocks - 1)), last,
                 matrixFrom(last, k, unit.right(), 2, 1, "lastTile"),
                 math().constant(0));
  }
}

void WarpMma::multiplyBlock(Value sums, Value left, Value right) {
  OpBuilder &b = kernel.builder;
  cuda::MmaOp::create(b, kernel.loc, sums, left, right,
                      TypeAttr::get(unit.elementType(b.getContext())),
                      rightType ? TypeAttr::get(rightType) : TypeAttr());
}

void WarpMma::multiply(Value sums, Value left, Value right) {
  auto shape = cast<MemRefType>(sums.getType()).getShape();
  unrolled(kernel, shape[0], "i", [&](Value i) {
    unrolled(kernel, shape[1], "j", [&](Value j) {
      multiplyBlock(slotOf(kernel, sums, {i, j}), slotOf(kernel, left, i),
                    slotOf(kernel, right, j));
    });
  });
}

void WarpMma::accumulate(Value sums, Value left, Value right,
                         const WarpOperand &a, const WarpOperand &b,
                         int64_t extent) {
  unrolled(kernel, extent / depth(), "step", [&](Value step) {
    Value k = named(math(), math().mul(step, depth()), "k");
    loadLeft(left, a, k);
    loadRight(right, b, k);
    multiply(sums, left, right);
  });
}
