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

//===----------------------------------------------------------------------===//
// Of ONNX Runtime
//===----------------------------------------------------------------------===//

/// What input `number`, a mask of keys that count, adds to the scores: a number
/// of keys per sample, or 0 and 1 for each key (and query).
static Value addedByMask(NodeImport &n, size_t number, Type type,
                         int64_t keys) {
  Value mask = n.in(number);
  if (n.failed())
    return nullptr;
  int64_t batch = n.dim(mask, 0), rank = n.rank(mask);
  Value keep;
  if (rank == 1) {
    keep = n.compare(ComparePredicate::lt, n.iota(keys, 3, 4, n.element(mask)),
                     n.reshape(mask, {batch, 1, 1, 1}));
  } else if ((rank == 2 || rank == 3) && n.dim(mask, rank - 1) == keys) {
    Value wide =
        n.reshape(mask, {batch, 1, rank == 3 ? n.dim(mask, 1) : 1, keys});
    keep = n.compare(ComparePredicate::ne, wide, n.scalar(0, n.element(mask)));
  } else {
    n.error() << "a mask " << mask.getType() << " for " << keys
              << " keys is not supported; give one number per sample, or one "
                 "per key";
    return nullptr;
  }
  double filter = n.floatAttr("mask_filter_value", -10000);
  return n.select(keep, n.scalar(0, type), n.scalar(filter, type));
}

/// Attention over heads [batch, heads, length, size] with the attributes and
/// optional inputs that both operators share.
static Value attend(NodeImport &n, Value query, Value key, Value value,
                    size_t maskInput, size_t biasInput, int64_t past) {
  if (n.failed())
    return nullptr;
  Type type = n.element(query);
  int64_t size = n.dim(query, 3), queries = n.dim(query, 2),
          keys = n.dim(key, 2);
  double scale = n.floatAttr("scale", 0);
  if (scale == 0)
    scale = size > 0 ? 1 / std::sqrt(double(size)) : 1;
  Value mask = n.has(biasInput) ? n.in(biasInput) : Value();
  if (n.has(maskInput)) {
    Value added = addedByMask(n, maskInput, type, keys);
    mask = mask ? n.op<AddOp>({mask, added}) : added;
  }
  bool causal = n.flag("unidirectional");
  if (n.failed())
    return nullptr;
  SmallVector<NamedAttribute> attributes = {n.attrF("scale", scale)};
  if (causal && keys - queries == past)
    attributes.push_back(n.unit("causal"));
  else if (causal)
    mask = addCausalMask(n, mask, queries, keys, past);
  SmallVector<Value> operands = {query, key, value};
  if (mask)
    operands.push_back(mask);
  return n.op<AttentionOp>(operands, attributes);
}

static LogicalResult convertMultiHeadAttention(NodeImport &n) {
  if (!n.has(1) || !n.has(2))
    return n.error() << "packed queries, keys and values are not supported; "
                        "give all three";
  if (n.wants(3) || n.has(8) || n.has(9))
    return n.error() << "scores as a result and caches that are longer than "
                        "what they hold are not supported";
  SmallVector<Value> parts = {n.in(0), n.in(1), n.in(2)};
  if (n.has(3)) {
    Value bias = n.in(3);
    int64_t first = 0;
    for (Value &part : parts) {
      int64_t width = n.dim(part, 2);
      if (n.failed() || n.rank(part) != 3 || first + width > n.dim(bias, 0))
        return n.error() << "bias " << n.element(bias)
                         << " is not as long as queries, keys and values";
      part = n.op<AddOp>({part, n.sliceAxis(bias, 0, first, width)});
      first += width;
    }
  }
  for (Value &part : parts)
    part = splitHeads(n, part, "num_heads");
  int64_t past = 0;
  if (n.has(6) && n.has(7)) {
    past = n.dim(n.in(6), 2);
    parts[1] = n.concat({n.in(6), parts[1]}, 2);
    parts[2] = n.concat({n.in(7), parts[2]}, 2);
  }
  n.set(0, joinHeads(n, attend(n, parts[0], parts[1], parts[2],
                               /*maskInput=*/4, /*biasInput=*/5, past)));
  n.set(1, parts[1]);
  n.set(2, parts[2]);
  return n.status();
}

/// One product gives queries, keys and values side by side.
static LogicalResult convertPackedAttention(NodeImport &n) {
  Value x = n.in(0), weights = n.in(1);
  if (n.flag("do_rotary") || n.flag("past_present_share_buffer") || n.has(6))
    return n.error() << "rotation, and a past that shares its buffer, are not "
                        "supported";
  if (n.failed())
    return failure();
  if (n.rank(x) != 3 || n.rank(weights) != 2)
    return n.error() << "operands are " << x.getType() << " and "
                     << weights.getType()
                     << ", expected [batch, length, width] and a matrix";
  int64_t third = n.dim(weights, 1) / 3;
  SmallVector<int64_t> widths =
      n.intsAttr("qkv_hidden_sizes", {third, third, third});
  if (widths.size() != 3 ||
      widths[0] + widths[1] + widths[2] != n.dim(weights, 1) ||
      llvm::any_of(widths, [](int64_t width) { return width < 1; }))
    return n.error() << "weights " << weights.getType()
                     << " do not split into queries, keys and values";
  Value all = n.matmulWide(x, weights);
  if (n.has(2))
    all = n.op<AddOp>({all, n.cast(n.in(2), n.element(all))});
  all = n.narrow(all, n.element(x));
  SmallVector<Value> parts;
  int64_t first = 0, past = 0;
  for (int64_t width : widths) {
    parts.push_back(
        splitHeads(n, n.sliceAxis(all, 2, first, width), "num_heads"));
    first += width;
  }
  if (n.failed())
    return failure();
  if (n.has(4)) {
    Value both = n.in(4);
    if (n.rank(both) != 5 || n.dim(both, 0) != 2)
      return n.error() << "past " << both.getType()
                       << " does not hold keys and values";
    SmallVector<int64_t> shape(n.shape(both).drop_front());
    past = shape[2];
    for (int64_t i : {0, 1})
      parts[i + 1] = n.concat(
          {n.reshape(n.sliceAxis(both, 0, i, 1), shape), parts[i + 1]}, 2);
  }
  n.set(0, joinHeads(n, attend(n, parts[0], parts[1], parts[2],
                               /*maskInput=*/3, /*biasInput=*/5, past)));
  if (n.wants(1)) {
    SmallVector<Value> present;
    for (Value part : {parts[1], parts[2]}) {
      SmallVector<int64_t> shape(n.shape(part));
      shape.insert(shape.begin(), 1);
      present.push_back(n.reshape(part, shape));
    }
    n.set(1, n.concat(present, 0));
  }
  return n.status();
}

OpFamily mpc::onnx::attentionOps() {
  static const OpEntry entries[] = {
      {"Attention 23,24 3-7 is_causal kv_num_heads q_num_heads "
       "qk_matmul_output_mode scale softcap softmax_precision",
       convertAttention},
      {"com.microsoft:Attention 1 2-7 do_rotary mask_filter_value num_heads "
       "past_present_share_buffer qkv_hidden_sizes rotary_embedding_dim scale "
       "unidirectional",
       convertPackedAttention},
      {"com.microsoft:MultiHeadAttention 1 1-10 mask_filter_value num_heads "
       "scale unidirectional",
       convertMultiHeadAttention},
      {"RotaryEmbedding 23 3-4 interleaved num_heads rotary_embedding_dim",
       convertRotaryEmbedding},
  };
  return entries;
}
