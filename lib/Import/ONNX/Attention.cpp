//===- Attention.cpp - attention and rotary embedding ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NodeImport.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

/// [batch, length, heads * size] as [batch, heads, length, size]; 4-D stays.
static Value splitHeads(NodeImport &n, Value x, StringRef headsAttribute) {
  if (n.failed() || n.rank(x) == 4)
    return x;
  int64_t heads = n.intAttr(headsAttribute, 0);
  if (n.failed())
    return nullptr;
  if (n.rank(x) != 3 || heads < 1 || n.dim(x, 2) % heads != 0) {
    n.error() << "input " << x.getType() << " does not split into " << heads
              << " heads (attribute '" << headsAttribute << "')";
    return nullptr;
  }
  Value split =
      n.reshape(x, {n.dim(x, 0), n.dim(x, 1), heads, n.dim(x, 2) / heads});
  return n.transpose(split, {0, 2, 1, 3});
}

/// The inverse of splitHeads.
static Value joinHeads(NodeImport &n, Value x) {
  if (n.failed())
    return nullptr;
  Value moved = n.transpose(x, {0, 2, 1, 3});
  return n.reshape(moved,
                   {n.dim(x, 0), n.dim(x, 2), n.dim(x, 1) * n.dim(x, 3)});
}

/// Joins a mask, which may be null, with positions that are kept.
static Value keepOnly(NodeImport &n, Value mask, Value keep) {
  if (!mask)
    return keep;
  if (!n.isFloat(mask))
    return n.op<AndOp>({mask, keep});
  return n.select(keep, mask, n.scalar(-INFINITY, n.element(mask)));
}

/// Adds "position t is at most s + offset" to a mask, which may be null.
static Value addCausalMask(NodeImport &n, Value mask, int64_t queries,
                           int64_t keys, int64_t offset) {
  Type i64 = n.builder.getI64Type();
  Value row = n.op<AddOp>({n.iota(queries, 0, 2, i64), n.ints({offset}, {})});
  return keepOnly(
      n, mask, n.compare(ComparePredicate::le, n.iota(keys, 1, 2, i64), row));
}

/// The mask input: extended to all keys, joined with the number of valid keys
/// per sample. Null where nothing is masked.
static Value maskInput(NodeImport &n, Type type, int64_t keys) {
  Value mask = n.has(3) ? n.in(3) : Value();
  if (mask && n.isFloat(mask))
    mask = n.cast(mask, type);
  if (mask && !n.failed() && n.dim(mask, n.rank(mask) - 1) < keys) {
    SmallVector<int64_t> low(n.rank(mask), 0), high(n.rank(mask), 0);
    high.back() = keys - n.dim(mask, n.rank(mask) - 1);
    mask = n.pad(mask, low, high, n.isFloat(mask) ? -INFINITY : 0);
  }
  if (n.has(6)) {
    Value lengths = n.in(6);
    Value count = n.reshape(lengths, {n.dim(lengths, 0), 1, 1, 1});
    Value position = n.iota(keys, 3, 4, n.element(lengths));
    mask = keepOnly(n, mask, n.compare(ComparePredicate::lt, position, count));
  }
  return mask;
}

/// Repeats key or value heads so that there are `heads` of them.
static Value repeatHeads(NodeImport &n, Value x, int64_t heads) {
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

/// Attention as single ops, for what the composite does not say: capped scores,
/// or scores as an output.
static Value spellOut(NodeImport &n, Value query, Value key, Value value,
                      Value mask, double scale, double softcap) {
  int64_t mode = n.intAttr("qk_matmul_output_mode", 0);
  if (n.failed())
    return nullptr;
  Type type = n.element(query);
  key = repeatHeads(n, key, n.dim(query, 1));
  value = repeatHeads(n, value, n.dim(query, 1));
  Value scores = n.matmulWide(query, key, false, /*transposeRhs=*/true);
  Type wide = n.element(scores);
  scores = n.op<MulOp>({scores, n.scalar(scale, wide)});
  if (softcap != 0) {
    Value cap = n.scalar(softcap, wide);
    scores = n.op<MulOp>({n.op<TanhOp>(n.op<DivOp>({scores, cap})), cap});
  }
  Value shown = scores;
  if (mask && n.isFloat(mask))
    scores = n.op<AddOp>({scores, n.cast(mask, wide)});
  else if (mask)
    scores = n.select(mask, scores, n.scalar(-INFINITY, wide));
  if (mode == 2)
    shown = scores;
  Value weights = n.op<SoftmaxOp>(scores, n.attr("axis", int64_t(3)));
  if (mode == 3)
    shown = weights;
  n.set(3, n.cast(shown, type));
  return n.narrow(n.matmulWide(n.cast(weights, type), value), type);
}

static LogicalResult convertAttention(NodeImport &n) {
  Value query = n.in(0);
  bool flat = n.rank(query) == 3;
  int64_t precision = n.intAttr("softmax_precision", kFloat);
  if (precision == kDouble && !n.element(query).isF64() && !n.failed())
    return n.error()
           << "attribute 'softmax_precision' asks for DOUBLE, but the "
              "softmax runs in FLOAT";
  query = splitHeads(n, query, "q_num_heads");
  Value key = splitHeads(n, n.in(1), "kv_num_heads");
  Value value = splitHeads(n, n.in(2), "kv_num_heads");
  int64_t past = 0;
  if (n.has(4) && n.has(5)) {
    Value pastKey = n.in(4), pastValue = n.in(5);
    past = n.dim(pastKey, 2);
    key = n.op<ConcatOp>({pastKey, key}, n.attr("axis", int64_t(2)));
    value = n.op<ConcatOp>({pastValue, value}, n.attr("axis", int64_t(2)));
  }
  bool causal = n.flag("is_causal");
  double softcap = n.floatAttr("softcap", 0);
  if (n.failed())
    return failure();
  int64_t size = n.dim(query, 3), queries = n.dim(query, 2),
          keys = n.dim(key, 2);
  double scale =
      n.floatAttr("scale", size > 0 ? 1 / std::sqrt(double(size)) : 1);
  Value mask = maskInput(n, n.element(query), keys);
  bool spelled = softcap != 0 || n.wants(3);
  SmallVector<NamedAttribute> attributes = {n.attrF("scale", scale)};
  if (causal && !spelled && keys - queries == past)
    attributes.push_back(n.unit("causal"));
  else if (causal)
    mask = addCausalMask(n, mask, queries, keys, past);
  Value y;
  if (spelled) {
    y = spellOut(n, query, key, value, mask, scale, softcap);
  } else {
    SmallVector<Value> operands = {query, key, value};
    if (mask)
      operands.push_back(mask);
    y = n.op<AttentionOp>(operands, attributes);
  }
  n.set(0, flat ? joinHeads(n, y) : y);
  n.set(1, key);
  n.set(2, value);
  return n.status();
}

static LogicalResult convertRotaryEmbedding(NodeImport &n) {
  Value x = n.in(0), cosine = n.in(1), sine = n.in(2);
  bool flat = n.rank(x) == 3, interleaved = n.flag("interleaved");
  x = splitHeads(n, x, "num_heads");
  if (n.failed())
    return failure();
  if (n.rank(x) != 4)
    return n.error() << "input " << x.getType()
                     << " has neither 3 nor 4 dimensions";
  int64_t batch = n.dim(x, 0), heads = n.dim(x, 1), length = n.dim(x, 2),
          size = n.dim(x, 3);
  int64_t rotated = n.intAttr("rotary_embedding_dim", 0);
  rotated = rotated == 0 ? size : rotated;
  if (n.failed())
    return failure();
  if (rotated < 2 || rotated > size || rotated % 2 != 0)
    return n.error() << "attribute 'rotary_embedding_dim' is " << rotated
                     << ", expected an even number up to " << size;
  int64_t half = rotated / 2;
  if (n.has(3)) {
    Value positions = n.in(3);
    cosine = n.gather(cosine, positions, 0);
    sine = n.gather(sine, positions, 0);
  }
  if (n.failed())
    return failure();
  for (Value table : {cosine, sine})
    if (n.rank(table) != 3 || n.dim(table, 2) != half)
      return n.error() << "a cache gives " << table.getType()
                       << ", expected [batch, length, " << half << "]";
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
  return n.result(flat ? joinHeads(n, turned) : turned);
}

OpFamily mpc::onnx::attentionOps() {
  static const OpEntry entries[] = {
      {"Attention 23,24 3-7 is_causal kv_num_heads q_num_heads "
       "qk_matmul_output_mode scale softcap softmax_precision",
       convertAttention},
      {"RotaryEmbedding 23 3-4 interleaved num_heads rotary_embedding_dim",
       convertRotaryEmbedding},
  };
  return entries;
}
