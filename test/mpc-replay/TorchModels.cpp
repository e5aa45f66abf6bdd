//===- TorchModels.cpp - replay of torch's models -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The architectures of the recordings, as calls of torch functions.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcRecurrentOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"

#include "TorchOps.h"
#include "TorchRecord.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using namespace mpc::replay;

namespace {

/// A model while it is built.
class Model {
public:
  Model(TorchGraph &graph, const Json &recording);

  /// The recorded architecture; throws NotCovered for another.
  Value build();
  Value loss(Value y);

private:
  using Values = std::vector<Object>;

  Value call(const std::string &name, Values positional,
             std::map<std::string, Object> keywords = {});
  Value call(const std::string &name, Value x) { return call(name, Values{x}); }
  Value activate(Value x, const std::string &name);
  Value linear(Value x, int64_t outputs, bool bias = true);
  Value layerNorm(Value x);
  Value reshape(Value x, Shape shape);
  Value transpose(Value x, Shape order);
  Value part(Value x, int64_t index, int64_t count);
  Value step(Value x, int64_t time);
  Value zeros(Shape shape) {
    return graph.argument(shape, graph.builder.getF32Type());
  }
  static Object list(const Shape &values);
  static int64_t last(Value x) { return TorchGraph::shapeOf(x).back(); }

  Value mlp(Value x);
  Value convBlock(Value x, int64_t channels);
  Value cnn(Value x);
  Value transformer(Value x, int64_t heads, const std::string &activation);
  Value lstmByHand(Value x);
  Value gated(Value x);
  Value dropoutMlp(Value x);
  Value multiHead(Value x);
  Value lstmModule(Value x);
  Value gruModule(Value x);
  Value languageModel();

  TorchGraph &graph;
  const Json &recording;
  int64_t width, classes, heads;
  std::string activation;
};

} // namespace

Model::Model(TorchGraph &graph, const Json &recording)
    : graph(graph), recording(recording) {
  const Json &details = recording.at("details");
  width = details.at("width");
  classes = details.at("classes");
  heads = details.at("heads");
  activation = details.at("activation");
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

Object Model::list(const Shape &values) {
  std::vector<Object> items;
  for (int64_t value : values)
    items.push_back(Object::makeNumber(double(value)));
  return Object::makeSequence(std::move(items));
}

Value Model::call(const std::string &name, Values positional,
                  std::map<std::string, Object> keywords) {
  auto it = torchFunctions().find(name);
  if (it == torchFunctions().end())
    throw NotCovered("no graph for '" + name + "'");
  return it->second(graph, {std::move(positional), std::move(keywords)}).tensor;
}

Value Model::activate(Value x, const std::string &name) {
  static const std::map<std::string, std::string> modules = {
      {"ReLU", "relu"},
      {"GELU", "gelu"},
      {"SiLU", "silu"},
      {"Tanh", "tanh"},
      {"LeakyReLU", "leaky_relu"},
      {"Softplus", "softplus"}};
  auto it = modules.find(name);
  return call(it == modules.end() ? name : it->second, x);
}

Value Model::linear(Value x, int64_t outputs, bool bias) {
  Values arguments = {x, graph.parameter({outputs, last(x)})};
  if (bias)
    arguments.push_back(graph.parameter({outputs}));
  return call("linear", arguments);
}

Value Model::layerNorm(Value x) {
  return call("layer_norm", {x, list({last(x)}), graph.parameter({last(x)}),
                             graph.parameter({last(x)})});
}

Value Model::reshape(Value x, Shape shape) {
  return graph.view("view", x,
                    [&](Value v) { return graph.reshape(v, shape); });
}

Value Model::transpose(Value x, Shape order) {
  return graph.view("permute", x,
                    [&](Value v) { return graph.transpose(v, order); });
}

/// One of `count` equal parts of the last axis.
Value Model::part(Value x, int64_t index, int64_t count) {
  return graph.view("split", x, [&](Value v) {
    int64_t size = last(v) / count;
    return graph.slice(v, TorchGraph::shapeOf(v).size() - 1, index * size,
                       size);
  });
}

/// x[:, time]
Value Model::step(Value x, int64_t time) {
  Shape shape = TorchGraph::shapeOf(x);
  return graph.view("select", x, [&](Value v) {
    return graph.reshape(graph.slice(v, 1, time, 1), {shape[0], shape[2]});
  });
}

//===----------------------------------------------------------------------===//
// Architectures
//===----------------------------------------------------------------------===//

Value Model::mlp(Value x) {
  // The random depth equals the number of matmuls.
  int64_t products = 0;
  for (const AtenOp &op : parseAten(recording.at("forward")))
    products += op.name == "addmm";
  for (int64_t i = 1; i < products; ++i)
    x = activate(linear(x, width), activation);
  return linear(x, classes);
}

Value Model::convBlock(Value x, int64_t channels) {
  Value padded = x;
  int64_t inputs = TorchGraph::shapeOf(x)[1];
  Value filter = graph.parameter({channels, inputs, 3, 3});
  Value y = graph.call("conv2d", {padded, filter}, [&](ArrayRef<Value> in) {
    auto ints = [&](int64_t value) {
      return graph.builder.getDenseI64ArrayAttr({value, value});
    };
    return graph.op<ConvOp>({in[0], in[1]},
                            {graph.attribute("strides", ints(1)),
                             graph.attribute("pad_low", ints(1)),
                             graph.attribute("pad_high", ints(1)),
                             graph.attribute("dilations", ints(1))});
  });
  Object training = Object::makeNumber(1);
  training.kind = Object::Kind::Bool;
  y = call("batch_norm",
           {y, graph.parameter({channels}), graph.parameter({channels}),
            graph.parameter({channels}), graph.parameter({channels}),
            training});
  return call("max_pool2d", {activate(y, activation), Object::makeNumber(2)});
}

Value Model::cnn(Value x) {
  int64_t channels = width / 2;
  x = convBlock(convBlock(x, channels), 2 * channels);
  Value side =
      call("conv2d", {x, graph.parameter({2 * channels, 2 * channels, 1, 1}),
                      graph.parameter({2 * channels})});
  x = call("relu", call("add", {x, side}));
  return linear(call("mean", {x, list({2, 3})}), classes);
}

Value Model::transformer(Value x, int64_t heads, const std::string &act) {
  Shape shape = TorchGraph::shapeOf(x);
  int64_t batch = shape[0], length = shape[1], width = shape[2];
  Value qkv = linear(layerNorm(x), 3 * width);
  Value split[3];
  for (int64_t i = 0; i < 3; ++i)
    split[i] = transpose(
        reshape(part(qkv, i, 3), {batch, length, heads, width / heads}),
        {0, 2, 1, 3});
  Value scores = call("matmul", {split[0], transpose(split[1], {0, 1, 3, 2})});
  double root = std::sqrt(double(width / heads));
  scores = call("div", {scores, Object::makeNumber(root)});
  Value weights = call("softmax", {scores, Object::makeNumber(-1)});
  Value mixed = transpose(call("matmul", {weights, split[2]}), {0, 2, 1, 3});
  x = call("add", {x, linear(reshape(mixed, {batch, length, width}), width)});
  Value inner = activate(linear(layerNorm(x), 4 * width), act);
  return call("add", {x, linear(inner, width)});
}

Value Model::lstmByHand(Value x) {
  Shape shape = TorchGraph::shapeOf(x);
  const int64_t hidden = 8;
  Value weightX = graph.parameter({4 * hidden, shape[2]}),
        bias = graph.parameter({4 * hidden}),
        weightH = graph.parameter({4 * hidden, hidden});
  Value h = zeros({shape[0], hidden}), c = h;
  for (int64_t t = 0; t < shape[1]; ++t) {
    Value gates = call("add", {call("linear", {step(x, t), weightX, bias}),
                               call("linear", {h, weightH})});
    Value keep = call("mul", {call("sigmoid", part(gates, 1, 4)), c});
    Value fresh = call("mul", {call("sigmoid", part(gates, 0, 4)),
                               call("tanh", part(gates, 2, 4))});
    c = call("add", {keep, fresh});
    h = call("mul", {call("sigmoid", part(gates, 3, 4)), call("tanh", c)});
  }
  return h;
}

Value Model::gated(Value x) {
  Value power = call("pow", {x, Object::makeNumber(2)});
  Object keep = Object::makeNumber(1);
  keep.kind = Object::Kind::Bool;
  Value mean = call("mean", {power, Object::makeNumber(-1), keep});
  mean = call("add", {mean, Object::makeNumber(1e-6)});
  Value n = call("mul", {x, call("rsqrt", mean)});
  n = call("mul", {n, graph.parameter({width})});
  Value gate = call("silu", linear(n, 2 * width));
  Value inner = call("mul", {gate, linear(n, 2 * width)});
  return call("add", {x, linear(inner, width)});
}

Value Model::dropoutMlp(Value x) {
  x = activate(layerNorm(linear(x, width)), activation);
  Value mask =
      graph.argument(TorchGraph::shapeOf(x), graph.builder.getI1Type());
  x = graph.call("native_dropout", {x, mask}, [&](ArrayRef<Value> in) {
    Value scaled = graph.op<MulOp>({in[0], graph.number(1 / 0.9, in[0])});
    return graph.op<SelectOp>({in[1], scaled, graph.number(0, in[0])});
  });
  return call("softmax", {linear(x, classes), Object::makeNumber(-1)});
}

Value Model::multiHead(Value x) {
  Shape shape = TorchGraph::shapeOf(x);
  int64_t batch = shape[0], length = shape[1];
  Value qkv = linear(transpose(x, {1, 0, 2}), 3 * width);
  Value split[3];
  for (int64_t i = 0; i < 3; ++i)
    split[i] = transpose(
        reshape(part(qkv, i, 3), {length, batch, heads, width / heads}),
        {1, 2, 0, 3});
  Value mixed =
      call("scaled_dot_product_attention", {split[0], split[1], split[2]});
  mixed = reshape(transpose(mixed, {2, 0, 1, 3}), {length, batch, width});
  return transpose(linear(mixed, width), {1, 0, 2});
}

Value Model::lstmModule(Value x) {
  Shape shape = TorchGraph::shapeOf(x);
  const int64_t hidden = 8, batch = shape[0];
  Value time = transpose(x, {1, 0, 2});
  SmallVector<Value> operands = {time,
                                 graph.parameter({4 * hidden, shape[2]}),
                                 graph.parameter({4 * hidden, hidden}),
                                 graph.parameter({4 * hidden}),
                                 graph.parameter({4 * hidden}),
                                 zeros({batch, hidden}),
                                 zeros({batch, hidden})};
  // torch has the gates in the order i, f, g, o; ours is i, o, f, g.
  auto gates = [&](Value v) {
    SmallVector<Value> parts;
    for (int64_t gate : {0, 3, 1, 2})
      parts.push_back(graph.slice(v, 0, gate * hidden, hidden));
    return parts;
  };
  auto joined = [&](ArrayRef<Value> parts) {
    return graph.op<ConcatOp>(
        parts, {graph.attribute("axis", graph.builder.getI64IntegerAttr(0))});
  };
  auto lifted = [&](Value v) {
    Shape lift = TorchGraph::shapeOf(v);
    lift.insert(lift.begin(), 1);
    return graph.reshape(v, lift);
  };
  Value y = graph.call("mkldnn_rnn_layer", operands, [&](ArrayRef<Value> in) {
    SmallVector<Value> bias = gates(in[3]);
    bias.append(gates(in[4]));
    SmallVector<Value> all = {in[0],
                              lifted(joined(gates(in[1]))),
                              lifted(joined(gates(in[2]))),
                              lifted(joined(bias)),
                              lifted(in[5]),
                              lifted(in[6])};
    return graph.op<LstmOp>(
        all, {graph.attribute(
                 "operandSegmentSizes",
                 graph.builder.getDenseI32ArrayAttr({1, 1, 1, 1, 1, 1, 0}))});
  });
  return transpose(reshape(y, {shape[1], batch, hidden}), {1, 0, 2});
}

Value Model::gruModule(Value x) {
  Shape shape = TorchGraph::shapeOf(x);
  const int64_t hidden = 8, batch = shape[0];
  Value inputs = linear(transpose(x, {1, 0, 2}), 3 * hidden);
  Value weight = graph.parameter({3 * hidden, hidden}),
        bias = graph.parameter({3 * hidden});
  Value h = zeros({batch, hidden});
  Values outputs;
  for (int64_t t = 0; t < shape[1]; ++t) {
    Value gates = graph.view("unbind", inputs, [&](Value v) {
      return graph.reshape(graph.slice(v, 0, t, 1), {batch, 3 * hidden});
    });
    Value states = call("linear", {h, weight, bias});
    auto gate = [&](int64_t index) {
      return call("sigmoid",
                  call("add", {part(states, index, 3), part(gates, index, 3)}));
    };
    Value reset = gate(0), update = gate(1);
    Value fresh = call("mul", {part(states, 2, 3), reset});
    fresh = call("tanh", call("add", {part(gates, 2, 3), fresh}));
    Value change = call("mul", {call("sub", {h, fresh}), update});
    h = call("add", {change, fresh});
    outputs.push_back(h);
  }
  Value all = call("stack", {Object::makeSequence(outputs)});
  return transpose(all, {1, 0, 2});
}

Value Model::languageModel() {
  Value ids = graph.argument({2, 5}, graph.builder.getI64Type());
  Value table = graph.parameter({11, width});
  Value x = transformer(call("embedding", {ids, table}), 2, "gelu");
  return call("matmul", {layerNorm(x), transpose(table, {1, 0})});
}

Value Model::build() {
  std::string name = recording.at("model");
  if (name == "embedding_lm")
    return languageModel();
  Shape shape;
  for (const Json &extent : recording.at("input_shape"))
    shape.push_back(extent.get<int64_t>());
  Value x = zeros(shape);
  if (name == "transformer")
    return transformer(x, heads,
                       recording.at("details").at("transformer_activation"));
  static const std::map<std::string, Value (Model::*)(Value)> builders = {
      {"mlp", &Model::mlp},
      {"cnn_bn", &Model::cnn},
      {"lstm_by_hand", &Model::lstmByHand},
      {"rmsnorm_gated", &Model::gated},
      {"dropout_mlp", &Model::dropoutMlp},
      {"multihead_attention", &Model::multiHead},
      {"lstm_module", &Model::lstmModule},
      {"gru_module", &Model::gruModule}};
  auto it = builders.find(name);
  if (it == builders.end())
    throw NotCovered("no graph for the model '" + name + "'");
  return (this->*it->second)(x);
}

Value Model::loss(Value y) {
  std::string name = recording.at("loss");
  Shape shape = TorchGraph::shapeOf(y);
  auto labels = [&](int64_t count) {
    return graph.argument({count}, graph.builder.getI64Type());
  };
  if (name == "cross_entropy")
    return call("cross_entropy", {y, labels(shape[0])});
  if (name == "cross_entropy_lm") {
    Value rows = reshape(y, {shape[0] * shape[1], shape[2]});
    return call("cross_entropy", {rows, labels(shape[0] * shape[1])});
  }
  if (name == "log_softmax_nll")
    return call("nll_loss", {call("log_softmax", {y, Object::makeNumber(-1)}),
                             labels(shape[0])});
  if (name == "sum_of_squares")
    return call("sum", call("pow", {y, Object::makeNumber(2)}));
  if (name == "mean")
    return call("mean", y);
  static const std::map<std::string, std::string> pairs = {
      {"mse", "mse_loss"},
      {"smooth_l1", "smooth_l1_loss"},
      {"bce_logits", "binary_cross_entropy_with_logits"}};
  auto it = pairs.find(name);
  if (it == pairs.end())
    throw NotCovered("no graph for the loss '" + name + "'");
  return call(it->second, {y, zeros(shape)});
}

//===----------------------------------------------------------------------===//
// Replay
//===----------------------------------------------------------------------===//

llvm::Expected<Tally> mpc::replay::replayTorchModel(const Json &recording,
                                                    MLIRContext &context) {
  llvm::Expected<Policy> policy = presetOf(recording);
  if (!policy)
    return policy.takeError();
  Tally tally;
  std::string name = recording.at("model");
  if (recording.contains("error")) {
    tally.skip(name,
               "torch refuses it: " + recording.at("error").get<std::string>());
    return tally;
  }
  try {
    TorchGraph graph(context, *policy);
    Model model(graph, recording);
    Value output = model.build();
    Value loss = model.loss(output);
    if (llvm::Error error =
            graph.assign(policy->getName().str(), {output, loss})) {
      tally.note(name, llvm::toString(std::move(error)));
      return tally;
    }
    std::string difference =
        graph.trace(0, graph.getNumCalls())
            .differenceFrom(traceOf(parseAten(recording.at("forward"))));
    auto compare = [&](const char *what, Value value) {
      std::string type = graph.typeOf(value);
      std::string recorded = recording.at(what);
      if (type != recorded)
        difference += (difference.empty() ? "" : ", ") + std::string(what) +
                      " is " + type + " instead of " + recorded;
    };
    compare("output", output);
    compare("loss_type", loss);
    tally.note(name, difference);
  } catch (const NotCovered &why) {
    tally.skip(name, why.what());
  }
  return tally;
}
