//===- KerasLayers.cpp - replay of Keras layers and models ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Builds the graph of each recorded layer, types it under the recorded policy
// and compares: the policy and its types, the types of parameters, those of
// layers inside, the type of every op in the graph, the cast on entry, the type
// of the result.
//
//===----------------------------------------------------------------------===//

#include "Keras.h"

#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcRecurrentOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::replay;

static FloatType floatType(StringRef kerasName, MLIRContext &context) {
  Builder builder(&context);
  return llvm::StringSwitch<FloatType>(kerasName)
      .Case("float16", builder.getF16Type())
      .Case("bfloat16", builder.getBF16Type())
      .Case("float64", builder.getF64Type())
      .Default(builder.getF32Type());
}

/// Differences between the ops of the layer `path` and a layer that computes
/// in `compute` and stores parameters in `variable`.
static std::string compareOps(ModuleOp module, StringRef path,
                              FloatType compute, FloatType variable) {
  std::string difference;
  auto say = [&](Operation *op, const Twine &text) {
    difference += (op->getName().getStringRef() + " " + text + "; ").str();
  };
  auto isFloat = [](Value value) {
    return isa<FloatType>(getElementTypeOrSelf(value.getType()));
  };
  module.walk([&](Operation *op) {
    auto layer = op->getAttrOfType<StringAttr>(MpcDialect::kLayerAttr);
    auto precision = dyn_cast<PrecisionOpInterface>(op);
    if (!precision || !layer ||
        !(layer.getValue() == path ||
          layer.getValue().starts_with((path + "/").str())))
      return;
    // Norms compute in at least f32 between two roundings.
    bool upcasts = isa<BatchNormOp>(op) ||
                   (isa<LayerNormOp>(op) && variable.getWidth() > 16);
    FloatType inside = upcasts && compute.getWidth() < 32
                           ? Float32Type::get(op->getContext())
                           : compute;
    for (OpOperand &operand : op->getOpOperands()) {
      if (!precision.isPrecisionOperand(operand.getOperandNumber()) ||
          !isFloat(operand.get()))
        continue;
      Type read = getElementTypeOrSelf(operand.get().getType());
      if (read != inside)
        say(op, "reads " + shortName(read) + ", not " + shortName(inside));
      if (inside == compute)
        continue;
      // The value that entered was rounded to the compute type, a parameter to
      // the variable type.
      auto cast = operand.get().getDefiningOp<CastOp>();
      bool isParameter = operand.getOperandNumber() > 0;
      FloatType rounded = isParameter ? variable : compute;
      Type before =
          cast ? getElementTypeOrSelf(cast.getInput().getType()) : read;
      if (before != rounded)
        say(op,
            "is given " + shortName(before) + ", not " + shortName(rounded));
    }
    for (Value result : op->getResults())
      if (isFloat(result) && !isa<ContractionOpInterface>(op) &&
          precision.isPrecisionOperand(0) && inside == compute &&
          getElementTypeOrSelf(result.getType()) != compute &&
          !isa<LstmOp, GruOp, RnnOp>(op))
        say(op, "yields " + shortName(getElementTypeOrSelf(result.getType())) +
                    ", not " + shortName(compute));
  });
  return difference;
}

/// Differences between `policy` and the recorded fields of `row`.
static std::string comparePolicy(const Json &row, const Policy &policy) {
  std::string difference;
  auto compare = [&](const std::string &what, StringRef ours,
                     const std::string &recorded) {
    if (ours != recorded)
      difference +=
          what + " is " + ours.str() + ", recorded " + recorded + "; ";
  };
  compare("policy", policy.getName(), row.at("policy").get<std::string>());
  compare("compute", stringify(policy.getCompute()),
          row.at("compute").get<std::string>());
  compare("variable", stringify(policy.getVariable()),
          row.at("variable").get<std::string>());
  for (auto &[name, type] : row.at("variables").items())
    compare(name, stringify(policy.getVariable()), type.get<std::string>());
  return difference;
}

/// The policy of the layer "layer" of `row`, as a policy file names it.
static Json ownPolicy(const Json &row) {
  std::string global = row.at("global_policy").get<std::string>();
  if (row.at("override").is_null())
    return global;
  std::string own = row.at("override").get<std::string>();
  if (own == "autocast=False")
    return Json{{"policy", global}, {"autocast", false}};
  return own;
}

/// Differences between the recorded layer and the graph of mpc.
static std::string replayLayer(const Json &row, const KerasLayerGraph &graph,
                               MLIRContext &context) {
  llvm::Expected<Policy> policy =
      Policy::loadKeras(row.at("global_policy").get<std::string>());
  if (!policy)
    return llvm::toString(policy.takeError());
  Json map = Json::object();
  if (!row.at("override").is_null()) {
    map["layer"] = ownPolicy(row);
    // Layers inside inherit the policy.
    if (!graph.sublayers.empty())
      map["layer/.*"] = ownPolicy(row);
  }

  // A float16 input is the result of a layer that computes in float16.
  std::string given = row.at("input").get<std::string>();
  std::vector<std::pair<std::string, std::string>> arguments;
  std::vector<KerasModelLayer> layers;
  KerasModelLayer layer{"layer", graph, {}, "result"};
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    std::string name = "x" + std::to_string(i), type = graph.inputs[i];
    arguments.emplace_back(name, type);
    if (given != "float32" && given != "int32") {
      KerasLayerGraph identity = {{type},
                                  "%y = mpc.reshape %x0 {L} : " + type +
                                      " to " + type + "\n",
                                  type,
                                  {}};
      layers.push_back({"given", identity, {name}, "given" + name});
      name = layers.back().result;
      map["given"] = given;
    }
    layer.inputs.push_back(name);
  }
  layers.push_back(layer);

  auto module = buildKerasModel(arguments, layers, context);
  if (!module)
    return llvm::toString(module.takeError());
  if (llvm::Error error = assignKerasPolicy(**module, *policy, map))
    return llvm::toString(std::move(error));

  // The same policy as data.
  bool autocast = true;
  for (auto &[path, name] : map.items()) {
    bool isObject = name.is_object();
    std::string own = (isObject ? name.at("policy") : name).get<std::string>();
    autocast &= !isObject;
    if (llvm::Error error = policy->addLayerPolicy(path, own, !isObject))
      return llvm::toString(std::move(error));
  }
  llvm::Expected<const Policy *> own = policy->policyOfLayer("layer");
  if (!own)
    return llvm::toString(own.takeError());
  std::string difference = comparePolicy(row, **own);
  if (row.contains("sublayers"))
    for (auto &[name, recorded] : row.at("sublayers").items()) {
      llvm::Expected<const Policy *> inner =
          policy->policyOfLayer("layer/" + name);
      std::string found =
          inner ? (*inner)->getName().str() : llvm::toString(inner.takeError());
      if (!llvm::is_contained(graph.sublayers, name))
        difference += "layer '" + name + "' is not in the graph; ";
      if (found != recorded.get<std::string>())
        difference += "layer '" + name + "' has policy " + found +
                      ", recorded " + recorded.get<std::string>() + "; ";
    }
  // Without autocast the layer computes in its input type, the output type.
  std::string output = row.at("output").get<std::string>();
  FloatType compute = floatType(
      autocast ? row.at("compute").get<std::string>() : output, context);
  difference +=
      compareOps(**module, "layer", compute,
                 floatType(row.at("variable").get<std::string>(), context));
  if (std::string ours = returnedType(**module); ours != output)
    difference += "output is " + ours + ", recorded " + output + "; ";
  return difference;
}

llvm::Expected<Tally> mpc::replay::replayKerasLayers(const Json &recording,
                                                     MLIRContext &context) {
  Tally tally;
  for (const Json &row : recording.at("layers")) {
    std::string kind = row.at("layer").get<std::string>();
    std::string entry =
        kind + " under " + row.at("global_policy").get<std::string>();
    if (!row.at("override").is_null())
      entry += " with " + row.at("override").get<std::string>();
    if (row.contains("input"))
      entry += " on " + row.at("input").get<std::string>();
    KerasLayerGraph graph = kerasLayerGraph(kind);
    if (isRefusal(row))
      tally.skip(entry,
                 "Keras refused: " + row.at("message").get<std::string>());
    else if (graph.body.empty())
      tally.skip(entry, "no graph of this layer");
    else
      tally.note(entry, replayLayer(row, graph, context));
  }
  return tally;
}

//===----------------------------------------------------------------------===//
// Models
//===----------------------------------------------------------------------===//

/// The policy of `path`, as [compute, variable].
static std::string compareTypes(const Policy &policy, const std::string &path,
                                const Json &recorded) {
  llvm::Expected<const Policy *> found = policy.policyOfLayer(path);
  if (!found)
    return llvm::toString(found.takeError());
  Json ours = {stringify((*found)->getCompute()).str(),
               stringify((*found)->getVariable()).str()};
  return ours == recorded ? ""
                          : "layer '" + path + "' has " + ours.dump() +
                                ", recorded " + recorded.dump() + "; ";
}

/// The recorded classifier: two dense layers and a softmax.
static std::string replayClassifier(const Json &row, MLIRContext &context) {
  llvm::Expected<Policy> policy =
      Policy::loadKeras(row.at("global_policy").get<std::string>());
  if (!policy)
    return llvm::toString(policy.takeError());
  Json map = Json::object();
  if (!row.at("last_layer_dtype").is_null())
    map["softmax2"] = row.at("last_layer_dtype");
  KerasLayerGraph hidden = {
      {},
      "%k = mpc.constant dense<0.5> : tensor<6x8xf32>\n"
      "%m = mpc.matmul %x0, %k {L} : (tensor<2x6xf32>, tensor<6x8xf32>) -> "
      "tensor<2x8xf32>\n"
      "%y = mpc.relu %m {L} : tensor<2x8xf32>\n",
      "tensor<2x8xf32>",
      {}};
  KerasLayerGraph dense = {
      {},
      "%k = mpc.constant dense<0.5> : tensor<8x3xf32>\n"
      "%y = mpc.matmul %x0, %k {L} : (tensor<2x8xf32>, tensor<8x3xf32>) -> "
      "tensor<2x3xf32>\n",
      "tensor<2x3xf32>",
      {}};
  auto module =
      buildKerasModel({{"x", "tensor<2x6xf32>"}},
                      {{"dense0", hidden, {"x"}, "a"},
                       {"dense1", dense, {"a"}, "b"},
                       {"softmax2", kerasLayerGraph("Softmax"), {"b"}, "c"}},
                      context);
  if (!module)
    return llvm::toString(module.takeError());
  if (llvm::Error error = assignKerasPolicy(**module, *policy, map))
    return llvm::toString(std::move(error));
  for (auto &[path, name] : map.items())
    if (llvm::Error error =
            policy->addLayerPolicy(path, name.get<std::string>()))
      return llvm::toString(std::move(error));

  std::string difference;
  for (auto &[path, types] : row.at("layers").items()) {
    difference += compareTypes(*policy, path, types);
    difference += compareOps(
        **module, path, floatType(types.at(0).get<std::string>(), context),
        floatType(types.at(1).get<std::string>(), context));
  }
  auto func = *(*module)->getOps<func::FuncOp>().begin();
  std::pair<const char *, std::string> ours[] = {
      {"input_layer", getElementTypeOrSelf(func.getArgumentTypes()[0]).isF32()
                          ? "float32"
                          : "other"},
      {"output", returnedType(**module)},
      {"loss", stringify(policy->getOutput()).str()}};
  for (auto &[field, type] : ours)
    if (row.at(field).get<std::string>() != type)
      difference += std::string(field) + " is " + type + ", recorded " +
                    row.at(field).get<std::string>() + "; ";
  return difference;
}

/// The recorded attention layer whose parts have policies of their own.
static std::string replayMappedAttention(const Json &row,
                                         MLIRContext &context) {
  llvm::Expected<Policy> policy = Policy::loadKeras("float32");
  if (!policy)
    return llvm::toString(policy.takeError());
  KerasLayerGraph graph = kerasLayerGraph("MultiHeadAttention");
  auto module =
      buildKerasModel({{"x", graph.inputs[0]}},
                      {{"net_attention", graph, {"x"}, "y"}}, context);
  if (!module)
    return llvm::toString(module.takeError());
  if (llvm::Error error = assignKerasPolicy(**module, *policy, row.at("map")))
    return llvm::toString(std::move(error));
  for (auto &[path, name] : row.at("map").items())
    if (llvm::Error error =
            policy->addLayerPolicy(path, name.get<std::string>()))
      return llvm::toString(std::move(error));
  std::string difference;
  for (auto &[path, types] : row.at("sublayers").items()) {
    difference += compareTypes(*policy, path, types);
    // The layer itself holds the others, which have types of their own.
    if (path != "net_attention")
      difference += compareOps(
          **module, path, floatType(types.at(0).get<std::string>(), context),
          floatType(types.at(1).get<std::string>(), context));
  }
  if (std::string ours = returnedType(**module);
      ours != row.at("output").get<std::string>())
    difference += "output is " + ours + "; ";
  return difference;
}

llvm::Expected<Tally> mpc::replay::replayKerasModels(const Json &recording,
                                                     MLIRContext &context) {
  Tally tally;
  for (const Json &row : recording.at("models")) {
    if (row.contains("map")) {
      tally.note(row.at("layer").get<std::string>(),
                 replayMappedAttention(row, context));
      continue;
    }
    std::string entry =
        "classifier under " + row.at("global_policy").get<std::string>();
    if (!row.at("last_layer_dtype").is_null())
      entry += ", last layer " + row.at("last_layer_dtype").get<std::string>();
    tally.note(entry, replayClassifier(row, context));
    tally.skip(entry + ", optimizer " + row.at("optimizer").get<std::string>(),
               "a policy wraps no optimizer here; loss scaling is a preset of "
               "its own");
  }
  return tally;
}
