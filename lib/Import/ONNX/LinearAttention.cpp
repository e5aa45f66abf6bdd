//===- LinearAttention.cpp - LinearAttention and FlexAttention ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Linear attention and its causal convolution, which carry a recurrent state
// between calls, and attention with scores modified by a subgraph.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"

#include "AttentionSubgraphs.h"
#include "Importer.h"
#include "NodeImport.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

/// Maximum sequence length: every step is unrolled.
static constexpr int64_t kMaxAttentionSteps = 1024;

/// Reshapes [batch, length, heads * size] to [batch, heads, length, size], in
/// `type`.
static Value perHead(NodeImport &n, Value x, int64_t heads, Type type) {
  if (n.failed())
    return nullptr;
  if (n.rank(x) != 3 || heads < 1 || n.dim(x, 2) % heads != 0) {
    n.error() << "input " << x.getType() << " does not split into " << heads
              << " heads";
    return nullptr;
  }
  Value split =
      n.reshape(x, {n.dim(x, 0), n.dim(x, 1), heads, n.dim(x, 2) / heads});
  return n.cast(n.transpose(split, {0, 2, 1, 3}), type);
}

namespace {

/// Operands of a LinearAttention node.
struct LinearState {
  Value query, key, value, decay, beta, state;
  int64_t heads = 0, groups = 0;
  double scale = 1;

  /// Decays and updates the state at position `t`; returns what the queries
  /// read.
  Value step(NodeImport &n, int64_t t);
};

} // namespace

Value LinearState::step(NodeImport &n, int64_t t) {
  Value k = n.sliceAxis(key, 2, t, 1), v = n.sliceAxis(value, 2, t, 1);
  if (decay) {
    // A row of the state for each entry of the key.
    Value rate = n.transpose(n.sliceAxis(decay, 2, t, 1), {0, 1, 3, 2});
    state = n.op<MulOp>({state, n.op<ExpOp>(rate)});
  }
  if (beta) {
    Value missing = n.op<SubOp>({v, n.matmulWide(k, state)});
    v = n.op<MulOp>({n.sliceAxis(beta, 2, t, 1), missing});
  }
  Value column = n.transpose(k, {0, 1, 3, 2});
  state = n.op<AddOp>({state, n.op<MulOp>({column, v})});
  // The queries of a group share one state: its rows.
  Value q = n.sliceAxis(query, 2, t, 1);
  int64_t batch = n.dim(q, 0), size = n.dim(q, 3);
  Value rows = n.reshape(q, {batch, groups, heads / groups, size});
  Value read = n.matmulWide(rows, state);
  Value scaled = n.op<MulOp>({read, n.scalar(scale, n.element(read))});
  return n.reshape(scaled, {batch, heads, 1, n.dim(v, 3)});
}

static LogicalResult convertLinearAttention(NodeImport &n) {
  std::string rule = n.stringAttr("update_rule", "gated_delta");
  bool gated = rule == "gated" || rule == "gated_delta";
  bool corrects = rule == "delta" || rule == "gated_delta";
  if (!gated && !corrects && rule != "linear" && !n.failed())
    return n.error() << "attribute 'update_rule' is '" << rule
                     << "', expected linear, gated, delta or gated_delta";
  if (!n.failed() && (gated != n.has(4) || corrects != n.has(5)))
    return n.error() << "the inputs 'decay' and 'beta' do not fit the rule '"
                     << rule << "'";
  // Performance hint for kernels, ignored.
  (void)n.intAttr("chunk_size", 0);
  Value query = n.in(0);
  Type type = n.element(query), wide;
  if (n.failed())
    return failure();
  wide = n.wideType(type);
  LinearState s;
  s.heads = n.intAttr("q_num_heads", 0);
  s.groups = n.intAttr("kv_num_heads", 0);
  if (!n.failed() && (s.groups < 1 || s.heads % s.groups != 0))
    return n.error() << s.groups << " key heads do not divide " << s.heads
                     << " query heads";
  s.query = perHead(n, query, s.heads, wide);
  s.key = perHead(n, n.in(1), s.groups, wide);
  s.value = perHead(n, n.in(2), s.groups, wide);
  if (gated)
    s.decay = perHead(n, n.in(4), s.groups, wide);
  if (corrects) {
    Value beta = n.in(5);
    s.beta = perHead(n, beta, n.dim(beta, 2) == 1 ? 1 : s.groups, wide);
  }
  if (n.failed())
    return failure();
  int64_t batch = n.dim(s.key, 0), length = n.dim(s.key, 2),
          size = n.dim(s.key, 3), width = n.dim(s.value, 3);
  if (n.shape(s.key).drop_front() !=
          ArrayRef<int64_t>({s.groups, length, n.dim(s.query, 3)}) ||
      n.dim(s.query, 2) != length || n.dim(s.value, 2) != length)
    return n.error() << "query, key and value have different lengths or sizes";
  if (length < 1 || length > kMaxAttentionSteps)
    return n.error() << "the sequence has " << length
                     << " positions, expected 1 to " << kMaxAttentionSteps;
  Type kept = type;
  if (n.has(3)) {
    Value past = n.in(3);
    kept = n.element(past);
    s.state = n.cast(past, wide);
  } else {
    s.state = n.splat({batch, s.groups, size, width}, 0, wide);
  }
  double scale = n.floatAttr("scale", 0);
  s.scale = scale == 0 ? 1 / std::sqrt(double(size)) : scale;
  SmallVector<Value> read;
  for (int64_t t = 0; t < length && !n.failed(); ++t)
    read.push_back(s.step(n, t));
  if (n.failed())
    return failure();
  Value all = n.transpose(n.concat(read, 2), {0, 2, 1, 3});
  n.set(0, n.cast(n.reshape(all, {batch, length, s.heads * width}), type));
  n.set(1, n.cast(s.state, kept));
  return n.status();
}

static LogicalResult convertCausalConvWithState(NodeImport &n) {
  Value x = n.in(0), filter = n.in(1);
  std::string activation = n.stringAttr("activation", "none");
  if (n.failed())
    return failure();
  if (activation != "none" && activation != "silu" && activation != "swish")
    return n.error() << "attribute 'activation' is '" << activation
                     << "', expected none, silu or swish";
  if (n.rank(x) != 3 || n.rank(filter) != 3 || n.dim(filter, 1) != 1 ||
      n.dim(filter, 0) != n.dim(x, 1))
    return n.error() << "input " << x.getType() << " and filter "
                     << filter.getType()
                     << " are no channels of a sequence and their windows";
  int64_t channels = n.dim(x, 1), before = n.dim(filter, 2) - 1;
  Value line = n.has(3) ? n.concat({n.in(3), x}, 2)
                        : n.pad(x, {0, 0, before}, {0, 0, 0}, 0);
  SmallVector<int64_t> one = {1}, zero = {0};
  Value y = n.widened(ConvOp::getOperationName(), {line, filter},
                      {n.attr("strides", one), n.attr("pad_low", zero),
                       n.attr("pad_high", zero), n.attr("dilations", one),
                       n.attr("groups", channels)});
  if (n.has(2))
    y = n.op<AddOp>(
        {y, n.reshape(n.cast(n.in(2), n.element(y)), {channels, 1})});
  if (activation != "none")
    y = n.op<SiluOp>(y);
  n.set(0, n.narrow(y, n.element(x)));
  if (n.wants(1))
    n.set(1, n.sliceAxis(line, 2, n.dim(line, 2) - before, before));
  return n.status();
}

/// Applies the subgraph in attribute `name` to `x`, if there is one.
static Value modified(NodeImport &n, StringRef name, Value x) {
  if (n.failed() || !n.hasAttr(name))
    return x;
  std::shared_ptr<Graph> graph = n.graphAttr(name);
  if (n.failed())
    return nullptr;
  SmallVector<Binding> results;
  if (failed(n.importer.importBody(*graph, Binding{x, nullptr}, results,
                                   n.node.location))) {
    n.fail();
    return nullptr;
  }
  if (results.size() != 1 || !results.front().value ||
      n.shape(results.front().value) != n.shape(x)) {
    n.error() << "the graph of attribute '" << name
              << "' does not give one tensor of the shape that it gets";
    return nullptr;
  }
  return results.front().value;
}

static LogicalResult convertFlexAttention(NodeImport &n) {
  Value query = n.in(0), key = n.in(1), value = n.in(2);
  if (n.failed())
    return failure();
  if (n.rank(query) != 4 || n.rank(key) != 4 || n.rank(value) != 4)
    return n.error() << "query " << query.getType() << ", key " << key.getType()
                     << " or value " << value.getType()
                     << " does not have 4 dimensions";
  Type type = n.element(query);
  double scale = n.floatAttr("scale", 1 / std::sqrt(double(n.dim(query, 3))));
  auto precision = int32_t(n.intAttr("softmax_precision", 0));
  Type compute = n.wideType(type);
  if (precision != 0)
    compute = elementTypeOf(precision, n.builder.getContext());
  if (!isa_and_nonnull<FloatType>(compute))
    return n.error() << "attribute 'softmax_precision' is "
                     << dataTypeName(precision) << ", expected a float type";
  if (!n.hasAttr("score_mod") && !n.hasAttr("prob_mod") && precision == 0)
    return n.result(
        n.op<AttentionOp>({query, key, value}, n.attrF("scale", scale)));
  key = repeatHeads(n, key, n.dim(query, 1));
  value = repeatHeads(n, value, n.dim(query, 1));
  Value scores = n.matmulWide(query, key, false, /*transposeRhs=*/true);
  scores = n.op<MulOp>({scores, n.scalar(scale, n.element(scores))});
  scores = modified(n, "score_mod", n.cast(scores, compute));
  Value weights = n.op<SoftmaxOp>(scores, n.attr("axis", int64_t(3)));
  weights = modified(n, "prob_mod", weights);
  Value y = n.matmulWide(weights, n.cast(value, n.element(weights)));
  return n.result(n.cast(y, type));
}

OpFamily mpc::onnx::linearAttentionOps() {
  static const OpEntry entries[] = {
      {"CausalConvWithState 27 2-4 activation", convertCausalConvWithState},
      {"LinearAttention 27 3-6 chunk_size kv_num_heads q_num_heads scale "
       "update_rule",
       convertLinearAttention},
      {"ai.onnx.preview:FlexAttention 1 3 prob_mod scale score_mod "
       "softmax_precision",
       convertFlexAttention},
  };
  return entries;
}
