//===- Attention.cpp - Attention operator ---------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"

#include "AttentionSubgraphs.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

/// Returns the mask: input 3 padded to all keys, combined with the number of
/// valid keys per sample. Null if nothing is masked.
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
    mask =
        combineMasks(n, mask, n.compare(ComparePredicate::lt, position, count));
  }
  return mask;
}

/// Decomposes attention, and sets output 3 to the scores that attribute
/// 'qk_matmul_output_mode' selects.
static Value decomposeAttention(NodeImport &n, DecomposedAttention spelled) {
  int64_t mode = n.intAttr("qk_matmul_output_mode", 0);
  spelled.build(n);
  Value shown = mode == 2   ? spelled.masked
                : mode == 3 ? spelled.weights
                            : spelled.capped;
  n.set(3, n.cast(shown, n.element(spelled.query)));
  return spelled.result;
}

static LogicalResult convertAttention(NodeImport &n) {
  Value query = n.in(0);
  bool flat = n.rank(query) == 3;
  int64_t precision = n.intAttr("softmax_precision", kFloat);
  if (precision == kDouble && !n.element(query).isF64() && !n.failed())
    return n.error() << "attribute 'softmax_precision' is DOUBLE, but the "
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
    y = decomposeAttention(n,
                           {query, key, value, mask, Value(), scale, softcap});
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

OpFamily mpc::onnx::attentionOps() {
  static const OpEntry entries[] = {
      {"Attention 23,24 3-7 is_causal kv_num_heads q_num_heads "
       "qk_matmul_output_mode scale softcap softmax_precision",
       convertAttention},
  };
  return entries;
}
