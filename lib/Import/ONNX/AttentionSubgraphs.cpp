//===- AttentionSubgraphs.cpp - building blocks of attention operators ----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionSubgraphs.h"

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

//===----------------------------------------------------------------------===//
// Heads
//===----------------------------------------------------------------------===//

Value mpc::onnx::splitHeads(NodeImport &n, Value x, int64_t heads,
                            StringRef headsAttribute) {
  if (n.failed() || n.rank(x) == 4)
    return x;
  if (n.rank(x) != 3 || heads < 1 || n.dim(x, 2) % heads != 0) {
    n.error() << "input " << x.getType() << " does not split into " << heads
              << " heads (attribute '" << headsAttribute << "')";
    return nullptr;
  }
  Value split =
      n.reshape(x, {n.dim(x, 0), n.dim(x, 1), heads, n.dim(x, 2) / heads});
  return n.transpose(split, {0, 2, 1, 3});
}

Value mpc::onnx::splitHeads(NodeImport &n, Value x, StringRef headsAttribute) {
  if (n.failed() || n.rank(x) == 4)
    return x;
  return splitHeads(n, x, n.intAttr(headsAttribute, 0), headsAttribute);
}

Value mpc::onnx::joinHeads(NodeImport &n, Value x) {
  if (n.failed())
    return nullptr;
  Value moved = n.transpose(x, {0, 2, 1, 3});
  return n.reshape(moved,
                   {n.dim(x, 0), n.dim(x, 2), n.dim(x, 1) * n.dim(x, 3)});
}

Value mpc::onnx::repeatHeads(NodeImport &n, Value x, int64_t heads) {
  int64_t groups = n.dim(x, 1);
  if (n.failed() || groups == heads)
    return x;
  if (groups < 1 || heads % groups != 0) {
    n.error() << groups << " key heads do not divide " << heads
              << " query heads";
    return nullptr;
  }
  int64_t batch = n.dim(x, 0), length = n.dim(x, 2), size = n.dim(x, 3);
  Value split = n.reshape(x, {batch, groups, 1, length, size});
  Value wide =
      n.broadcast(split, {batch, groups, heads / groups, length, size});
  return n.reshape(wide, {batch, heads, length, size});
}

//===----------------------------------------------------------------------===//
// Masks
//===----------------------------------------------------------------------===//

Value mpc::onnx::combineMasks(NodeImport &n, Value mask, Value keep) {
  if (!mask)
    return keep;
  if (!n.isFloat(mask))
    return n.op<AndOp>({mask, keep});
  return n.select(keep, mask, n.scalar(-INFINITY, n.element(mask)));
}

Value mpc::onnx::addCausalMask(NodeImport &n, Value mask, int64_t queries,
                               int64_t keys, int64_t offset) {
  Type i64 = n.builder.getI64Type();
  Value row = n.op<AddOp>({n.iota(queries, 0, 2, i64), n.ints({offset}, {})});
  return combineMasks(
      n, mask, n.compare(ComparePredicate::le, n.iota(keys, 1, 2, i64), row));
}

//===----------------------------------------------------------------------===//
// Decomposed attention
//===----------------------------------------------------------------------===//

void DecomposedAttention::build(NodeImport &n) {
  if (n.failed())
    return;
  Type type = n.element(query);
  int64_t heads = n.dim(query, 1);
  Value keys = repeatHeads(n, key, heads),
        values = repeatHeads(n, value, heads);
  Value product = n.matmulWide(query, keys, false, /*transposeRhs=*/true);
  Type wide = n.element(product);
  scaled = capped = n.op<MulOp>({product, n.scalar(scale, wide)});
  if (softcap != 0) {
    Value cap = n.scalar(softcap, wide);
    capped = n.op<MulOp>({n.op<TanhOp>(n.op<DivOp>({scaled, cap})), cap});
  }
  masked = capped;
  if (mask && n.isFloat(mask))
    masked = n.op<AddOp>({capped, n.cast(mask, wide)});
  else if (mask)
    masked = n.select(mask, capped, n.scalar(-INFINITY, wide));
  Value scores = masked;
  if (sink) {
    SmallVector<int64_t> beside(n.shape(scores));
    if (n.failed())
      return;
    beside.back() = 1;
    scores = n.concat({scores, n.broadcast(n.cast(sink, wide), beside)}, 3);
  }
  weights = n.op<SoftmaxOp>(scores, n.attr("axis", int64_t(3)));
  if (sink)
    weights = n.sliceAxis(weights, 3, 0, n.dim(masked, 3));
  result = n.narrow(n.matmulWide(n.cast(weights, type), values), type);
}

//===----------------------------------------------------------------------===//
// Rotary position embedding
//===----------------------------------------------------------------------===//

Value Rotation::apply(NodeImport &n, Value x) const {
  if (n.failed())
    return nullptr;
  int64_t batch = n.dim(x, 0), heads = n.dim(x, 1), length = n.dim(x, 2),
          size = n.dim(x, 3), half = n.dim(cosine, 2), rotated = 2 * half;
  auto overHeads = [&](Value table) {
    return n.reshape(table, {n.dim(table, 0), 1, n.dim(table, 1), half});
  };
  Value c = overHeads(cosine), s = overHeads(sine);
  Value head = n.sliceAxis(x, 3, 0, rotated);
  Value first = interleaved ? n.sliceAxis(head, 3, 0, half, 2)
                            : n.sliceAxis(head, 3, 0, half);
  Value second = interleaved ? n.sliceAxis(head, 3, 1, half, 2)
                             : n.sliceAxis(head, 3, half, half);
  Value real = n.op<SubOp>({n.op<MulOp>({c, first}), n.op<MulOp>({s, second})});
  Value imaginary =
      n.op<AddOp>({n.op<MulOp>({s, first}), n.op<MulOp>({c, second})});
  Value turned;
  if (interleaved) {
    SmallVector<int64_t> apart = {batch, heads, length, half, 1};
    turned = n.reshape(
        n.concat({n.reshape(real, apart), n.reshape(imaginary, apart)}, 4),
        {batch, heads, length, rotated});
  } else {
    turned = n.concat({real, imaginary}, 3);
  }
  if (rotated < size)
    turned = n.concat({turned, n.sliceAxis(x, 3, rotated, size - rotated)}, 3);
  return turned;
}
