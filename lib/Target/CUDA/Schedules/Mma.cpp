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

cuda::FragmentType cuda::fragmentTypeOf(Type element) {
  if (element.isF32())
    return FragmentType::tf32;
  return element.isF16() ? FragmentType::f16 : FragmentType::bf16;
}

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
                    llvm::function_ref<void(Value)> body) {
  IndexMath math{kernel.builder, kernel.loc};
  if (count == 1)
    return body(math.constant(0));
  auto loop = scf::ForOp::create(kernel.builder, kernel.loc, math.constant(0),
                                 math.constant(count), math.constant(1));
  loop->setAttr(kUnrollAttr, kernel.builder.getUnitAttr());
  kernel.named(loop.getInductionVar(), name);
  OpBuilder::InsertionGuard guard(kernel.builder);
  kernel.builder.setInsertionPoint(loop.getBody()->getTerminator());
  body(loop.getInductionVar());
}

Value cuda::slotOf(GpuKernel &kernel, Value array, ValueRange indices) {
  auto type = cast<MemRefType>(array.getType());
  OpBuilder &b = kernel.builder;
  SmallVector<OpFoldResult> offsets, sizes, strides;
  SmallVector<int64_t> shape;
  for (int64_t i = 0; i < type.getRank(); ++i) {
    bool chosen = i < static_cast<int64_t>(indices.size());
    offsets.push_back(chosen ? getAsOpFoldResult(indices[i])
                             : OpFoldResult(b.getIndexAttr(0)));
    sizes.push_back(b.getIndexAttr(chosen ? 1 : type.getDimSize(i)));
    strides.push_back(b.getIndexAttr(1));
    if (!chosen)
      shape.push_back(type.getDimSize(i));
  }
  MemRefType slot = memref::SubViewOp::inferRankReducedResultType(
      shape, type, offsets, sizes, strides);
  return memref::SubViewOp::create(b, kernel.loc, slot, array, offsets, sizes,
                                   strides);
}

Value cuda::partFrom(GpuKernel &kernel, Value memory, ValueRange at,
                     ArrayRef<int64_t> extents, StringRef name) {
  OpBuilder &b = kernel.builder;
  auto type = cast<MemRefType>(memory.getType());
  SmallVector<OpFoldResult> offsets,
      sizes(at.size() - extents.size(), b.getIndexAttr(1)),
      strides(at.size(), b.getIndexAttr(1));
  for (Value index : at)
    offsets.push_back(getAsOpFoldResult(index));
  for (int64_t extent : extents)
    sizes.push_back(b.getIndexAttr(extent));
  MemRefType part = memref::SubViewOp::inferRankReducedResultType(
      extents, type, offsets, sizes, strides);
  return memref::SubViewOp::create(b, NameLoc::get(b.getStringAttr(name)), part,
                                   memory, offsets, sizes, strides);
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
    place.push_back(math.div(position, kLine));
    position = math.rem(position, kLine);
  }
  if (isPermuted)
    position = math.exclusiveOr(
        position, math.mul(math.rem(line, kLine / kPiece), kPiece));
  place.append({line, position});
  return place;
}

//===----------------------------------------------------------------------===//
// Lane layout
//===----------------------------------------------------------------------===//

Value WarpMma::lane() {
  return gpu::LaneIdOp::create(kernel.builder, kernel.loc, IntegerAttr());
}

Value WarpMma::group() { return named(math(), math().div(lane(), 4), "group"); }

Value WarpMma::pair() {
  return named(math(), math().mul(math().rem(lane(), 4), 2), "pair");
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

void WarpMma::fill(Value array, float value) {
  OpBuilder &b = kernel.builder;
  Value constant =
      arith::ConstantOp::create(b, kernel.loc, b.getF32FloatAttr(value));
  ArrayRef<int64_t> shape = cast<MemRefType>(array.getType()).getShape();
  static constexpr StringRef kNames[] = {"i", "j", "e"};
  SmallVector<Value> indices;
  auto visit = [&](auto &&self) -> void {
    size_t level = indices.size();
    if (level == shape.size()) {
      memref::StoreOp::create(b, kernel.loc, constant, array, indices);
      return;
    }
    unrolled(kernel, shape[level], kNames[std::min<size_t>(level, 2)],
             [&](Value index) {
               indices.push_back(index);
               self(self);
               indices.pop_back();
             });
  };
  visit(visit);
}

/// Loads word `word` of fragment `block` from an f32 tile, rounded to tf32.
void WarpMma::loadWord(Value fragments, Value block, int64_t word,
                       const WarpOperand &from, Value row, Value k) {
  OpBuilder &b = kernel.builder;
  SmallVector<Value> at(from.leading);
  if (from.alongDepth)
    at.append({row, k});
  else
    at.append({k, row});
  Value element = memref::LoadOp::create(b, kernel.loc, from.tile, at);
  Value rounded = cuda::CallOp::create(b, kernel.loc, b.getI32Type(),
                                       b.getStringAttr("toTf32"), element);
  memref::StoreOp::create(b, kernel.loc, rounded, fragments,
                          {block, math().constant(word)});
}

Value WarpMma::matrixFrom(const WarpOperand &from, Value k, Value low,
                          Value high, int64_t rows, StringRef name) {
  constexpr int64_t kMatrixRow = 8;
  SmallVector<Value> at(from.leading);
  if (from.alongDepth) {
    at.append({math().add(from.row, low), math().add(k, high)});
    return partFrom(kernel, from.tile, at, {rows, kMatrixRow}, name);
  }
  at.append({math().add(k, low), math().add(from.row, high)});
  return partFrom(kernel, from.tile, at, {1, rows - 1 + kMatrixRow}, name);
}

SmallVector<Value> WarpMma::inMatrix(const WarpOperand &from, Value row) {
  Value zero = math().constant(0);
  return from.alongDepth ? SmallVector<Value>{row, zero}
                         : SmallVector<Value>{zero, row};
}

void WarpMma::loadLeft(Value fragments, const WarpOperand &from, Value k) {
  OpBuilder &b = kernel.builder;
  int64_t blocks = cast<MemRefType>(fragments.getType()).getDimSize(0);
  Value l = lane();
  if (type == cuda::FragmentType::tf32) {
    Value g = math().div(l, 4), t = math().rem(l, 4);
    unrolled(kernel, blocks, "i", [&](Value i) {
      Value row = math().add(math().add(from.row, math().mul(i, 16)), g);
      for (int64_t word = 0; word < 4; ++word)
        loadWord(fragments, i, word, from, math().add(row, 8 * (word % 2)),
                 math().add(math().add(k, t), 4 * (word / 2)));
    });
    return;
  }
  // Matrices: rows 0..7 and 8..15 of the first half of k, then of the second.
  Value low = math().rem(l, 16), high = math().mul(math().div(l, 16), 8);
  if (!from.alongDepth) {
    // Transposed in memory: lanes address positions along k.
    low = math().add(math().rem(l, 8), high);
    high = math().mul(math().rem(math().div(l, 8), 2), 8);
  }
  Value tiles = matrixFrom(from, k, low, high, 16 * blocks - 15, "lhsTile");
  unrolled(kernel, blocks, "i", [&](Value i) {
    cuda::LoadMatrixOp::create(b, kernel.loc, slotOf(kernel, fragments, i),
                               tiles, inMatrix(from, math().mul(i, 16)),
                               !from.alongDepth);
  });
}

void WarpMma::loadRight(Value fragments, const WarpOperand &from, Value k) {
  OpBuilder &b = kernel.builder;
  int64_t blocks = cast<MemRefType>(fragments.getType()).getDimSize(0);
  Value l = lane();
  if (type == cuda::FragmentType::tf32) {
    Value g = math().div(l, 4), t = math().rem(l, 4);
    unrolled(kernel, blocks, "j", [&](Value j) {
      Value row = math().add(math().add(from.row, math().mul(j, 8)), g);
      for (int64_t word = 0; word < 2; ++word)
        loadWord(fragments, j, word, from, row,
                 math().add(math().add(k, t), 4 * word));
    });
    return;
  }
  // Two blocks at a time: both halves of k of the first, then of the second
  // block.
  int64_t pairs = blocks / 2;
  if (pairs > 0) {
    Value words = kernel.local({4}, b.getI32Type(), "words");
    Value low, high;
    if (from.alongDepth) {
      low = math().add(math().rem(l, 8), math().mul(math().div(l, 16), 8));
      high = math().mul(math().rem(math().div(l, 8), 2), 8);
    } else {
      low = math().rem(l, 16);
      high = math().mul(math().div(l, 16), 8);
    }
    Value tiles = matrixFrom(from, k, low, high, 16 * pairs - 15, "rhsTile");
    unrolled(kernel, pairs, "j", [&](Value j) {
      cuda::LoadMatrixOp::create(b, kernel.loc, words, tiles,
                                 inMatrix(from, math().mul(j, 16)),
                                 !from.alongDepth);
      unrolled(kernel, 4, "w", [&](Value w) {
        Value word = memref::LoadOp::create(b, kernel.loc, words, w);
        Value block = math().add(math().mul(j, 2), math().div(w, 2));
        memref::StoreOp::create(b, kernel.loc, word, fragments,
                                {block, math().rem(w, 2)});
      });
    });
  }
  if (blocks % 2) {
    Value half = math().rem(l, 16);
    Value low = math().rem(half, 8), high = math().mul(math().div(half, 8), 8);
    if (!from.alongDepth) {
      low = half;
      high = math().constant(0);
    }
    Value last = math().constant(blocks - 1);
    WarpOperand lastRows = from;
    lastRows.row = math().add(from.row, (blocks - 1) * 8);
    Value tiles = matrixFrom(lastRows, k, low, high, 1, "lastTile");
    cuda::LoadMatrixOp::create(b, kernel.loc, slotOf(kernel, fragments, last),
                               tiles, inMatrix(from, math().constant(0)),
                               !from.alongDepth);
  }
}

void WarpMma::multiply(Value sums, Value left, Value right) {
  auto shape = cast<MemRefType>(sums.getType()).getShape();
  unrolled(kernel, shape[0], "i", [&](Value i) {
    unrolled(kernel, shape[1], "j", [&](Value j) {
      cuda::MmaOp::create(kernel.builder, kernel.loc,
                          slotOf(kernel, sums, {i, j}), slotOf(kernel, left, i),
                          slotOf(kernel, right, j), type);
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
