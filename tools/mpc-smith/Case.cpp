//===- Case.cpp - Test cases: graph and compile options -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Case.h"

#include "ExactGraph.h"

#include "mpc/Support/EscapedText.h"

#include <algorithm>

using namespace mpc;
using namespace mpc::smith;

static constexpr const char *kMark = "// mpc-smith: ";

const char *smith::kindName(Kind kind) {
  switch (kind) {
  case Kind::Cpu:
    return "cpu";
  case Kind::CudaHost:
    return "cuda-host";
  case Kind::Training:
    return "training";
  case Kind::Exact:
    return "exact";
  }
  return "";
}

//===----------------------------------------------------------------------===//
// Policies
//===----------------------------------------------------------------------===//

/// A random policy. Ops may be put in any class that is valid for them; those
/// that overflow in 16 bits keep their class of the built-in policies.
static std::string drawPolicy(Random &random) {
  Json policy;
  policy["name"] = "drawn";
  policy["extends"] = random.pick<const char *>(
      {"mixed_bfloat16", "mixed_float16", "mixed_bfloat16", "bfloat16"});
  bool half = policy["extends"] == "mixed_float16";
  if (random.chance(25))
    policy["compute"] =
        random.pick<const char *>({"bfloat16", "tf32", "float32"});
  if (random.chance(25))
    policy["store"] =
        random.pick<const char *>({"float32", half ? "float16" : "bfloat16"});
  if (random.chance(15))
    policy["variable"] =
        random.pick<const char *>({"float32", half ? "float16" : "bfloat16"});
  if (random.chance(15))
    policy["output"] = random.pick<const char *>({"float32", "bfloat16"});
  Json classes = Json::object();
  static const std::vector<std::string> movable = {
      "add",        "sub",        "mul",         "relu",   "tanh",
      "gelu",       "silu",       "sigmoid",     "concat", "select",
      "reduce_max", "reduce_min", "layer_norm",  "max",    "matmul",
      "conv",       "avg_pool",   "softmax",     "div",    "neg",
      "reshape",    "transpose",  "reduce_mean", "clamp",  "gather",
      "attention",  "max_pool",   "leaky_relu",  "elu",    "erf"};
  for (int64_t i = random.below(4); i > 0; --i) {
    std::string kind = random.pick(movable);
    std::string to =
        random.pick<const char *>({"low", "high", "follow", "clear"});
    // Softmax and norms in 16 bits are opt-in, by an override.
    if (kind == "softmax" || kind == "layer_norm" || kind == "reduce_mean")
      to = "high";
    bool named = false;
    for (auto &[name, list] : classes.items())
      for (const Json &entry : list["add"])
        named |= entry == kind;
    if (!named)
      classes[to]["add"].push_back(kind);
  }
  if (!classes.empty())
    policy["classes"] = classes;
  return jsonText(policy);
}

/// Makes some policies store weights in narrow types.
static void drawWeights(Random &random, Setting &setting) {
  bool isOwn = !setting.policyText.empty();
  if (!random.chance(15) ||
      (!isOwn && setting.policy != "float32" &&
       setting.policy != "mixed_bfloat16" && setting.policy != "mixed_float16"))
    return;
  Json policy = isOwn ? Json::parse(setting.policyText)
                      : Json({{"name", "drawn"}, {"extends", setting.policy}});
  policy["weights"] = random.pick<const char *>(
      {"int8", "int8", "int4", "bfloat16", "float16"});
  if (random.chance(20))
    policy["weights"] = {{"type", "int4"},
                         {"group", 32},
                         {"zero_point", random.chance(70)},
                         {"clip", random.chance(50)}};
  setting.policyText = jsonText(policy);
}

static void drawOverrides(Random &random, const Graph &graph,
                          Setting &setting) {
  auto type = [&] {
    return std::string(random.pick<const char *>(
        {"float32", "float32", "bfloat16", "bfloat16", "float16"}));
  };
  for (int64_t i = random.range(1, 2); i > 0; --i) {
    std::string key;
    switch (random.below(4)) {
    case 0:
    case 1:
      if (!graph.kinds().empty())
        key = "op:" + random.pick(graph.kinds());
      break;
    case 2:
      if (!graph.layers().empty())
        key = random.pick(graph.layers());
      if (!key.empty())
        key = "layer:" + key;
      break;
    default:
      if (!graph.names().empty())
        key = "name:" + random.pick(graph.names());
      break;
    }
    bool given = std::any_of(
        setting.sets.begin(), setting.sets.end(), [&](const std::string &set) {
          return set.compare(0, key.size() + 1, key + "=") == 0;
        });
    if (!key.empty() && !given)
      setting.sets.push_back(key + "=" + type());
  }
}

static void drawSetting(Random &random, const Graph &graph, Setting &setting) {
  int64_t choice = random.below(100);
  if (choice < 25)
    setting.policy = "float32";
  else if (choice < 45)
    setting.policy = "mixed_bfloat16";
  else if (choice < 60)
    setting.policy = "mixed_float16";
  else if (choice < 72)
    setting.policyText = drawPolicy(random);
  else
    setting.policy = random.pick<const char *>(
        {"bfloat16", "float16", "tf32", "keras_mixed_bfloat16",
         "keras_mixed_float16", "torch_autocast_cuda_bfloat16",
         "torch_autocast_cuda_float16", "torch_autocast_cpu_bfloat16",
         "torch_autocast_cpu_float16", "tf_amp_gpu_float16",
         "tf_amp_cpu_float16", "tf_amp_onednn_bfloat16"});
  if (random.chance(25))
    drawOverrides(random, graph, setting);
  if (random.chance(15))
    setting.rounding = "relaxed";
  if (random.chance(15))
    setting.castPlacement = "propagate";
  setting.inputSeed = uint64_t(random.below(1000));
  setting.perOp = random.chance(10);
  setting.twice = random.chance(5);
}

static std::string drawTraining(Random &random, const std::string &policy) {
  std::string part = random.pick<const char *>(
      {"step", "step", "step", "step", "forward-backward", "evaluate"});
  std::string text = part;
  std::string loss = random.pick<const char *>(
      {"softmax_cross_entropy", "softmax_cross_entropy", "mean_squared_error",
       "mean_squared_error", "sigmoid_cross_entropy", "huber",
       "mean_absolute_error"});
  text += " loss=" + loss;
  if (loss == "softmax_cross_entropy" && random.chance(25))
    text += " label-smoothing=0.1";
  if (part == "evaluate")
    return text;
  std::string optimizer = random.pick<const char *>(
      {"sgd", "sgd", "adam", "adamw", "rmsprop", "adagrad"});
  text += " optimizer=" + optimizer;
  if (random.chance(30))
    text += " optimizer-form=keras";
  else if (optimizer == "sgd" && random.chance(50))
    text += " optimizer-numbers=momentum=0.9";
  // The first step divides by the gradient's own magnitude: for a gradient
  // close to 0, whose sign depends on rounding, so does the step.
  if (optimizer == "rmsprop" || optimizer == "adagrad")
    text += " optimizer-numbers=epsilon=0.1";
  if (random.chance(25))
    text += " weight-decay=0.01";
  if (random.chance(25))
    text += " clip-norm=1";
  else if (random.chance(15))
    text += " clip-value=0.5";
  // Gradient accumulation runs the two functions of a step.
  bool window = part == "forward-backward" && random.chance(40);
  if (window)
    text += " accumulate=" + std::to_string(random.range(2, 4));
  // A random policy may name both types.
  bool half = false;
  for (size_t at = policy.find("float16"); at != std::string::npos;
       at = policy.find("float16", at + 1))
    half |= at == 0 || policy[at - 1] != 'b';
  std::string scale;
  if (random.chance(half ? 60 : 20))
    scale =
        random.pick<const char *>({"dynamic", "torch", "keras3", "tf_keras",
                                   "apex", "deepspeed", "static=128", "none"});
  // keras3 checks every batch of a window, which needs whole steps.
  if (window && scale == "keras3")
    scale = "torch";
  // The initial scales of the presets overflow float16 gradients of ordinary
  // magnitude, by design: the step is skipped and tests nothing.
  bool moves = scale.empty() ? half : scale != "none" && scale[0] != 's';
  if (moves)
    scale = (scale.empty() ? "dynamic" : scale) +
            random.pick<const char *>({",init=16", ",init=128"});
  if (!scale.empty())
    text += " loss-scale=" + scale;
  if (random.chance(20))
    text += " schedule=cosine schedule-steps=10 warmup=2";
  return text;
}

//===----------------------------------------------------------------------===//
// Cases
//===----------------------------------------------------------------------===//

Case smith::drawCase(uint64_t seed, const Plan &plan) {
  Case drawn;
  drawn.seed = seed;
  Random random(seed);
  int64_t share = random.below(100);
  if (share < plan.cudaHost)
    drawn.kind = Kind::CudaHost;
  else if (share < plan.cudaHost + plan.training)
    drawn.kind = Kind::Training;
  else if (share < plan.cudaHost + plan.training + plan.exact)
    drawn.kind = Kind::Exact;
  GeneratorOptions options;
  options.ops = int(random.range(2, random.chance(25) ? plan.ops : 16));
  options.ops = std::min(options.ops, plan.ops);
  options.differentiable = drawn.kind == Kind::Training;
  // A step is three times its model, and two interpreters check it.
  if (drawn.kind == Kind::Training) {
    options.mostElements = 2000;
    options.mostProducts = 100000;
    options.ops = std::min(options.ops, 12);
  }
  // The host emulates every thread of a kernel and compiles every kernel.
  if (drawn.kind == Kind::CudaHost) {
    options.mostElements = 2000;
    options.mostProducts = 60000;
    options.ops = std::min(options.ops, 14);
  }
  Graph graph(random);
  if (drawn.kind == Kind::Exact) {
    ExactGraph exact(random, options.ops);
    drawn.text = exact.text();
    drawn.setting.policy = random.pick<const char *>(
        {"float32", "float32", "mixed_bfloat16", "mixed_float16", "bfloat16",
         "float16", "torch_autocast_cpu_bfloat16", "tf_amp_gpu_float16",
         "keras_mixed_float16"});
    if (random.chance(30))
      drawn.setting.sets = {"op:" +
                            std::string(random.pick<const char *>(
                                {"add", "div", "mul", "max", "sqrt", "sub"})) +
                            "=" +
                            random.pick<const char *>({"bfloat16", "float16"})};
    drawn.setting.inputSeed = uint64_t(random.below(1000));
    return drawn;
  }
  drawn.text = drawGraph(random, options, graph);
  drawSetting(random, graph, drawn.setting);
  if (drawn.kind == Kind::Training) {
    drawn.setting.training =
        drawTraining(random, drawn.setting.policy + drawn.setting.policyText);
    drawn.setting.perOp = false;
  }
  if (drawn.kind == Kind::CudaHost) {
    drawn.setting.target = random.pick<const char *>(
        {"cuda:sm_75", "cuda:sm_80", "cuda:sm_80", "cuda:sm_90a"});
    if (random.chance(25))
      drawn.setting.gemm = "library";
    drawn.setting.perOp = false;
  }
  if (drawn.kind != Kind::Training)
    drawWeights(random, drawn.setting);
  return drawn;
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

std::string smith::toFile(const Case &drawn,
                          const std::vector<std::string> &comments) {
  const Setting &setting = drawn.setting;
  Json head = {{"seed", drawn.seed},
               {"kind", kindName(drawn.kind)},
               {"policy", setting.policy},
               {"policy_text", setting.policyText},
               {"sets", setting.sets},
               {"target", setting.target},
               {"training", setting.training},
               {"rounding", setting.rounding},
               {"cast_placement", setting.castPlacement},
               {"gemm", setting.gemm},
               {"input_seed", setting.inputSeed},
               {"per_op", setting.perOp},
               {"twice", setting.twice}};
  std::string text = kMark + jsonText(head) + "\n";
  for (const std::string &comment : comments)
    text += "// " + commentText(comment) + "\n";
  return text + drawn.text;
}

std::optional<Case> smith::fromFile(const std::string &text) {
  size_t end = text.find('\n');
  if (end == std::string::npos || text.rfind(kMark, 0) != 0)
    return std::nullopt;
  size_t begin = std::string(kMark).size();
  Json head = Json::parse(text.substr(begin, end - begin), nullptr,
                          /*allow_exceptions=*/false);
  if (!head.is_object())
    return std::nullopt;
  Case drawn;
  drawn.text = text.substr(end + 1);
  drawn.seed = head.value("seed", uint64_t(0));
  std::string kind = head.value("kind", "cpu");
  for (Kind known : {Kind::Cpu, Kind::CudaHost, Kind::Training, Kind::Exact})
    if (kind == kindName(known))
      drawn.kind = known;
  Setting &setting = drawn.setting;
  setting.policy = head.value("policy", setting.policy);
  setting.policyText = head.value("policy_text", setting.policyText);
  setting.sets = head.value("sets", setting.sets);
  setting.target = head.value("target", setting.target);
  setting.training = head.value("training", setting.training);
  setting.rounding = head.value("rounding", setting.rounding);
  setting.castPlacement = head.value("cast_placement", setting.castPlacement);
  setting.gemm = head.value("gemm", setting.gemm);
  setting.inputSeed = head.value("input_seed", setting.inputSeed);
  setting.perOp = head.value("per_op", false);
  setting.twice = head.value("twice", false);
  return drawn;
}

std::string smith::checkCommandLine(const Case &drawn, const std::string &path,
                                    const std::string &policyPath) {
  const Setting &setting = drawn.setting;
  std::string line = "mpc check " + path + " --policy " +
                     (setting.policyText.empty() ? setting.policy : policyPath);
  for (const std::string &set : setting.sets)
    line += " --set " + shellQuoted(set);
  if (!setting.target.empty())
    line += " --device cuda-host --target " + setting.target;
  if (!setting.training.empty())
    line += " --training " + shellQuoted(setting.training);
  if (setting.rounding != "strict")
    line += " --rounding " + setting.rounding;
  if (setting.castPlacement != "mincut")
    line += " --cast-placement " + setting.castPlacement;
  if (setting.gemm != "own")
    line += " --gemm " + setting.gemm;
  if (setting.perOp)
    line += " --per-op";
  return line + " --seed " + std::to_string(setting.inputSeed);
}
