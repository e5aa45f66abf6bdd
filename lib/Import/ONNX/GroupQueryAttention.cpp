//===- GroupQueryAttention.cpp - GroupQueryAttention operator -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ONNX Runtime's grouped-query attention with a KV cache: new keys and values
// are inserted at each sample's length. A known position gives static slices
// and concatenations; otherwise rows are selected by comparing positions, so
// that one compiled step serves a fixed-capacity cache at every length. Caches
// that grow at their end (CompileOptions::caches) are right-aligned: new rows
// are appended, and `seqlens_k` determines the first valid row.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"

#include "AttentionSubgraphs.h"
#include "Importer.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

namespace {

class GroupQuery {
public:
  explicit GroupQuery(NodeImport &n) : n(n) {}
  LogicalResult run();

private:
  LogicalResult refuseForms();
  LogicalResult readHeads();
  LogicalResult readLengths();
  void rotate();
  Value positions(int64_t axis, int64_t rank);
  Value present(size_t input, Value fresh);
  Value mask();
  bool grows() const { return n.importer.options.growsCaches && n.has(3); }
  Value attend(Value keys, Value values);

  NodeImport &n;
  Type i64 = n.builder.getI64Type();
  int64_t heads = 0, groups = 0; ///< heads of queries, and of keys and values
  int64_t batch = 0, length = 0, size = 0;
  int64_t total = 0; ///< number of positions that a query may see
  int64_t past = 0;  ///< capacity of the given caches, in positions
  /// Number of positions before the new ones: equal for all samples, or
  /// (`before` not null) one per sample, [batch].
  int64_t offset = 0;
  Value before;
  Value query, key, value; ///< [batch, heads, length, size]
};

} // namespace

LogicalResult GroupQuery::refuseForms() {
  for (StringRef quantised : {"k_quant_type", "v_quant_type"})
    if (std::string type = n.stringAttr(quantised, "NONE"); type != "NONE")
      return n.error() << "attribute '" << quantised << "' is '" << type
                       << "': a quantised cache is not supported";
  if (grows() && (!n.flag("causal", true) || n.has(10)))
    return n.error()
           << (n.has(10) ? "input 10, 'attention_bias', is not supported"
                         : "attribute 'causal' is 0, which is not supported")
           << " with a growing KV cache, whose rows are aligned at the end";
  if (n.flag("sliding_window_cache"))
    return n.error()
           << "attribute 'sliding_window_cache' is 1: a sliding-window cache "
              "is not supported; use a full-length cache";
  static constexpr std::pair<size_t, StringLiteral> inputs[] = {
      {12, "scales of a quantised cache"},
      {13, "scales of a quantised cache"},
      {14, "norms of queries and keys"},
      {15, "norms of queries and keys"},
      {16, "padded queries ('query_seqlens')"}};
  for (const auto &[input, what] : inputs)
    if (n.has(input))
      return n.error() << "input " << input << ", " << what
                       << ", is not supported";
  if (n.intAttr("qk_output", 0) != 0 || n.wants(3))
    return n.error() << "returning the scores ('qk_output') is not supported";
  return n.status();
}

/// Reads queries, keys and values, packed or separate.
LogicalResult GroupQuery::readHeads() {
  heads = n.intAttr("num_heads", 0);
  groups = n.intAttr("kv_num_heads", 0);
  query = n.in(0);
  if (n.failed())
    return failure();
  if (groups < 1 || heads < 1 || heads % groups != 0)
    return n.error() << "attribute 'num_heads' is " << heads
                     << ", expected a multiple of 'kv_num_heads', which is "
                     << groups;
  if (n.rank(query) != 3 || n.dim(query, 2) < heads)
    return n.error() << "queries " << query.getType()
                     << " are not [batch, length, width], with at least one "
                        "element of width for each of "
                     << heads << " heads";
  if (n.has(1) != n.has(2))
    return n.error() << "keys and values must be given together";
  if (n.has(1)) {
    key = n.in(1);
    value = n.in(2);
  } else {
    int64_t all = heads + 2 * groups, width = n.dim(query, 2);
    if (width % all != 0)
      return n.error() << "packed queries, keys and values " << query.getType()
                       << " do not split into " << all << " heads";
    int64_t each = width / all;
    key = n.sliceAxis(query, 2, heads * each, groups * each);
    value = n.sliceAxis(query, 2, (heads + groups) * each, groups * each);
    query = n.sliceAxis(query, 2, 0, heads * each);
  }
  query = splitHeads(n, query, heads, "num_heads");
  key = splitHeads(n, key, groups, "kv_num_heads");
  value = splitHeads(n, value, groups, "kv_num_heads");
  if (n.failed())
    return failure();
  batch = n.dim(query, 0);
  length = n.dim(query, 2);
  size = n.dim(query, 3);
  SmallVector<int64_t> expected = {batch, groups, length, size};
  if (n.shape(key) != ArrayRef<int64_t>(expected) ||
      n.shape(value) != ArrayRef<int64_t>(expected))
    return n.error() << "keys and values, split into heads, are "
                     << key.getType() << " and " << value.getType()
                     << ", expected [" << batch << ", " << groups << ", "
                     << length << ", " << size << "]";
  return success();
}

/// Determines the positions of the new rows.
LogicalResult GroupQuery::readLengths() {
  total = n.knownInt(6, "total_sequence_length");
  Value last = n.in(5);
  if (n.failed())
    return failure();
  if (n.has(3) != n.has(4))
    return n.error() << "past keys and past values must be given together";
  if (n.has(3)) {
    past = n.dim(n.in(3), 2);
    SmallVector<int64_t> expected = {batch, groups, past, size};
    for (size_t input : {3, 4}) {
      Value held = n.in(input);
      if (!n.failed() && n.shape(held) != ArrayRef<int64_t>(expected))
        return n.error() << "past " << held.getType() << " is not [" << batch
                         << ", " << groups << ", length, " << size << "]";
    }
  }
  if (n.failed())
    return failure();
  if (n.isFloat(last) || elementCount(last) != batch)
    return n.error() << "'seqlens_k' is " << last.getType() << ", expected "
                     << batch << " integers";
  if (total < length)
    return n.error() << "'total_sequence_length' is " << total
                     << ", less than the " << length
                     << " positions of the input";
  if (grows() && total != past + length)
    return n.error() << "'total_sequence_length' is " << total
                     << ", but the cache has " << past << " rows before the "
                     << length << " of the input";
  // A first prompt, padded or not, starts at 0. With earlier positions,
  // `seqlens_k` is the last position of an unpadded sample.
  if (total == length)
    return success();
  std::shared_ptr<const reference::Tensor> known = n.known(last);
  if (grows()) {
    // The number of valid rows is known only at run time.
  } else if (known && !known->isFloat()) {
    ArrayRef<int64_t> values = known->ints();
    for (int64_t sample : values)
      if (sample < 0 || sample >= total ||
          std::max<int64_t>(0, sample + 1 - length) > past)
        return n.error() << "'seqlens_k' has " << sample
                         << ", expected less than 'total_sequence_length', "
                         << total << ", and a past of at most " << past
                         << " positions";
    if (llvm::all_equal(values)) {
      offset = std::max<int64_t>(0, values.front() + 1 - length);
      return success();
    }
  } else if (batch == 1 && total == past + length) {
    // The longest sample has `total` positions.
    offset = past;
    return success();
  }
  Value first = n.op<SubOp>(
      {n.cast(n.reshape(last, {batch}), i64), n.ints({length - 1}, {})});
  before = n.op<MaxOp>({first, n.ints({0}, {})});
  return n.status();
}

/// Returns the indices of the new positions, along `axis` of a tensor of `rank`
/// dimensions whose first is the sample.
Value GroupQuery::positions(int64_t axis, int64_t rank) {
  Value step = n.iota(length, axis, rank, i64);
  if (!before)
    return offset == 0 ? step : n.op<AddOp>({step, n.ints({offset}, {})});
  SmallVector<int64_t> shape(rank, 1);
  shape[0] = batch;
  return n.op<AddOp>({step, n.reshape(before, shape)});
}

void GroupQuery::rotate() {
  bool interleaved = n.flag("rotary_interleaved");
  if (!n.flag("do_rotary") || n.failed())
    return;
  Value cosine = n.in(7), sine = n.in(8);
  if (n.failed())
    return;
  int64_t pairs = n.dim(cosine, 1), held = n.dim(cosine, 0);
  // A growing cache may have padding tokens after the last one.
  int64_t needed = grows() ? past : total;
  if (n.rank(cosine) != 2 || n.shape(cosine) != n.shape(sine) || pairs < 1 ||
      2 * pairs > size || held < needed) {
    n.error() << "caches " << cosine.getType() << " and " << sine.getType()
              << " are not two of at least " << needed
              << " positions and at most " << size / 2 << " pairs";
    return;
  }
  Value at = n.has(9) ? n.in(9) : positions(1, 2);
  if (grows() && !n.has(9))
    at = n.op<MinOp>({at, n.ints({held - 1}, {})});
  SmallVector<int64_t> expected = {batch, length};
  if (!n.failed() && n.has(9) && n.shape(at) != ArrayRef<int64_t>(expected)) {
    n.error() << "'position_ids' is " << at.getType() << ", expected [" << batch
              << ", " << length << "]";
    return;
  }
  Rotation rotation = {n.gather(cosine, at, 0), n.gather(sine, at, 0),
                       interleaved};
  query = rotation.apply(n, query);
  key = rotation.apply(n, key);
}

/// Returns the cache of input `input` with the new rows inserted. Rows after
/// them are unchanged, or 0 if the cache was extended.
Value GroupQuery::present(size_t input, Value fresh) {
  int64_t room = std::max(total, past);
  auto padded = [&](Value x) {
    return n.failed()
               ? Value()
               : n.pad(x, {0, 0, 0, 0}, {0, 0, room - n.dim(x, 2), 0}, 0);
  };
  if (!n.has(input))
    return padded(fresh);
  Value held = n.in(input);
  if (grows())
    return n.concat({held, fresh}, 2);
  if (!before) {
    SmallVector<Value> parts;
    if (offset > 0)
      parts.push_back(n.sliceAxis(held, 2, 0, offset));
    parts.push_back(fresh);
    if (int64_t end = offset + length; end < past)
      parts.push_back(n.sliceAxis(held, 2, end, past - end));
    return padded(n.concat(parts, 2));
  }
  Value wide = padded(held);
  // Index of the new row for each cache position.
  Value number = n.op<SubOp>(
      {n.iota(room, 2, 4, i64), n.reshape(before, {batch, 1, 1, 1})});
  Value isNew = n.compare(ComparePredicate::eq, number, n.ints({0}, {}));
  if (length > 1) {
    isNew = n.op<AndOp>(
        {n.compare(ComparePredicate::ge, number, n.ints({0}, {})),
         n.compare(ComparePredicate::lt, number, n.ints({length}, {}))});
    Value inside =
        n.op<ClampOp>({number, n.ints({0}, {}), n.ints({length - 1}, {})});
    fresh = n.op<GatherElementsOp>(
        {fresh, n.broadcast(inside, {batch, groups, room, size})},
        n.attr("axis", int64_t(2)));
  }
  return n.select(isNew, fresh, wide);
}

/// Returns the mask of valid keys per query, null if it is just causal.
Value GroupQuery::mask() {
  int64_t window = n.intAttr("local_window_size", -1);
  bool causal = n.flag("causal", true);
  if (n.failed())
    return nullptr;
  if (window == 0 || window < -1 || (window > 0 && !causal)) {
    n.error() << "attribute 'local_window_size' is " << window
              << ", expected a positive number where 'causal' is 1, or -1";
    return nullptr;
  }
  int64_t keys = before ? total : offset + length;
  Value result;
  Value row = positions(2, 4), column = n.iota(keys, 3, 4, i64);
  if (grows()) {
    // Right-aligned: the last rows are valid, as many as the sample has
    // positions.
    Value count = n.reshape(n.cast(n.in(5), i64), {batch, 1, 1, 1});
    result = n.compare(ComparePredicate::ge, n.op<AddOp>({column, count}),
                       n.ints({total - 1}, {}));
    row = n.op<AddOp>({n.iota(length, 2, 4, i64), n.ints({past}, {})});
  } else if (!causal) {
    // A sample may be shorter than the longest one.
    Value last = n.reshape(n.cast(n.in(5), i64), {batch, 1, 1, 1});
    result = n.compare(ComparePredicate::le, column, last);
  } else if (before) {
    result = n.compare(ComparePredicate::le, column, row);
  }
  if (window > 0 && window < keys) {
    Value first = n.op<SubOp>({row, n.ints({window}, {})});
    result =
        combineMasks(n, result, n.compare(ComparePredicate::gt, column, first));
  }
  if (!n.has(10))
    return result;
  Value bias = n.in(10);
  if (n.failed())
    return nullptr;
  if (n.rank(bias) != 4 || n.dim(bias, 3) < keys) {
    n.error() << "'attention_bias' is " << bias.getType()
              << ", expected 4 dimensions, the last of " << total;
    return nullptr;
  }
  bias = n.cast(n.sliceAxis(bias, 3, 0, keys), n.element(query));
  return result ? combineMasks(n, bias, result) : bias;
}

Value GroupQuery::attend(Value keys, Value values) {
  double scale = n.floatAttr("scale", 0), softcap = n.floatAttr("softcap", 0);
  if (scale == 0)
    scale = size > 0 ? 1 / std::sqrt(double(size)) : 1;
  bool causal = n.flag("causal", true),
       smooth = n.intAttr("smooth_softmax", 0) == 1;
  Value kept = mask();
  int64_t count = before ? total : offset + length;
  keys = n.sliceAxis(keys, 2, 0, count);
  values = n.sliceAxis(values, 2, 0, count);
  if (n.failed())
    return nullptr;
  Value sink = n.has(11) ? n.reshape(n.in(11), {1, heads, 1, 1})
               : smooth  ? n.scalar(0, n.element(query))
                         : Value();
  if (softcap == 0 && !sink) {
    SmallVector<NamedAttribute> attributes = {n.attrF("scale", scale)};
    if (causal && (!before || grows()))
      attributes.push_back(n.unit("causal"));
    SmallVector<Value> operands = {query, keys, values};
    if (kept)
      operands.push_back(kept);
    return n.op<AttentionOp>(operands, attributes);
  }
  if (grows())
    kept = addCausalMask(n, kept, length, count, past);
  else if (causal && !before)
    kept = addCausalMask(n, kept, length, count, offset);
  DecomposedAttention spelled;
  spelled.query = query;
  spelled.key = keys;
  spelled.value = values;
  spelled.mask = kept;
  spelled.sink = sink;
  spelled.scale = scale;
  spelled.softcap = softcap;
  spelled.build(n);
  return spelled.result;
}

LogicalResult GroupQuery::run() {
  if (failed(refuseForms()) || failed(readHeads()) || failed(readLengths()))
    return failure();
  rotate();
  Value keys = present(3, key), values = present(4, value);
  n.set(0, joinHeads(n, attend(keys, values)));
  n.set(1, keys);
  n.set(2, values);
  return n.status();
}

static LogicalResult convertGroupQueryAttention(NodeImport &n) {
  return GroupQuery(n).run();
}

OpFamily mpc::onnx::groupQueryAttentionOps() {
  static const OpEntry entries[] = {
      {"com.microsoft:GroupQueryAttention 1 1-17 causal do_rotary "
       "k_norm_epsilon k_quant_type kv_cache_bit_width kv_num_heads "
       "local_window_size num_heads q_norm_epsilon qk_norm_epsilon qk_output "
       "rotary_interleaved scale sliding_window_cache smooth_softmax softcap "
       "v_quant_type",
       convertGroupQueryAttention},
  };
  return entries;
}
