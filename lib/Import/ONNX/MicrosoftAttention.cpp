//===- MicrosoftAttention.cpp - com.microsoft attention operators ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention operators that ONNX Runtime's optimizer produces in encoders and
// older decoders.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"

#include "AttentionSubgraphs.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

/// Returns the additive mask of input `number`, a key mask: valid keys per
/// sample, or 0 and 1 for each key (and query).
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
                        "pass three separate inputs";
  if (n.wants(3) || n.has(8) || n.has(9))
    return n.error()
           << "returning the scores and preallocated caches are not supported";
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

/// One GEMM computes packed queries, keys and values.
static LogicalResult convertPackedAttention(NodeImport &n) {
  Value x = n.in(0), weights = n.in(1);
  if (n.flag("do_rotary") || n.flag("past_present_share_buffer") || n.has(6))
    return n.error() << "'do_rotary', 'past_present_share_buffer' and input 6 "
                        "are not supported";
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

OpFamily mpc::onnx::microsoftAttentionOps() {
  static const OpEntry entries[] = {
      {"com.microsoft:Attention 1 2-7 do_rotary mask_filter_value num_heads "
       "past_present_share_buffer qkv_hidden_sizes rotary_embedding_dim scale "
       "unidirectional",
       convertPackedAttention},
      {"com.microsoft:MultiHeadAttention 1 1-10 mask_filter_value num_heads "
       "scale unidirectional",
       convertMultiHeadAttention},
  };
  return entries;
}
