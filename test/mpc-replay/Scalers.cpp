//===- Scalers.cpp - settings of a recorded loss scaler -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Scalers.h"

#include "mpc/Support/StepNames.h"

#include "Bits.h"

#include "llvm/ADT/StringExtras.h"

#include <cstdio>
#include <stdexcept>

using namespace mpc;
using namespace mpc::replay;

/// A number as MLIR's text and the presets' read it back, bit for bit.
static std::string exact(double value) {
  char buffer[40];
  std::snprintf(buffer, sizeof(buffer), "%.17e", value);
  return buffer;
}

namespace {

/// Collects the attributes of an op.
class Attributes {
public:
  void number(const char *name, double value) {
    add(std::string(name) + " = " + exact(value) + " : f64");
  }
  void flag(const char *name, bool value) {
    if (value)
      add(name);
  }
  void add(const std::string &attribute) {
    text += (text.empty() ? "" : ", ") + attribute;
  }
  std::string text;
};

} // namespace

//===----------------------------------------------------------------------===//
// Optimizers
//===----------------------------------------------------------------------===//

OptimizerSpec mpc::replay::torchOptimizer(const std::string &name,
                                          const Json &options) {
  auto number = [&](const char *field, double otherwise) {
    return options.value(field, otherwise);
  };
  OptimizerSpec spec;
  Attributes attributes;
  double learningRate = 1e-3, decay = 0;
  if (name == "SGD") {
    spec.op = "sgd";
    attributes.number("momentum", number("momentum", 0));
    attributes.number("dampening", number("dampening", 0));
    attributes.flag("nesterov", options.value("nesterov", false));
    // The fused kernel contracts the multiply of the buffer into an FMA.
    if (options.value("implementation", "single") == "fused")
      attributes.add("fuse = \"first\"");
    if (number("momentum", 0) != 0)
      spec.states = {"momentum"};
  } else if (name == "Adam" || name == "AdamW") {
    spec.op = "adam";
    Json betas = options.value("betas", Json::array({0.9, 0.999}));
    attributes.number("beta1", betas.at(0));
    attributes.number("beta2", betas.at(1));
    attributes.number("epsilon", number("eps", 1e-8));
    attributes.flag("amsgrad", options.value("amsgrad", false));
    attributes.flag("decoupled", name == "AdamW");
    spec.states = {"exp_avg", "exp_avg_sq"};
    if (options.value("amsgrad", false))
      spec.states.push_back("max_exp_avg_sq");
    decay = name == "AdamW" ? 1e-2 : 0;
  } else if (name == "RMSprop") {
    spec.op = "rmsprop";
    learningRate = 1e-2;
    attributes.number("alpha", number("alpha", 0.99));
    attributes.number("epsilon", number("eps", 1e-8));
    attributes.number("momentum", number("momentum", 0));
    attributes.flag("centered", options.value("centered", false));
    spec.states = {"square_avg"};
    if (options.value("centered", false))
      spec.states.push_back("grad_avg");
    if (number("momentum", 0) != 0)
      spec.states.push_back("momentum_buffer");
  } else if (name == "Adagrad") {
    spec.op = "adagrad";
    learningRate = 1e-2;
    attributes.number("epsilon", number("eps", 1e-10));
    attributes.number("learning_rate_decay", number("lr_decay", 0));
    spec.states = {"sum"};
  } else {
    throw std::invalid_argument("no op has the formula of torch.optim." + name);
  }
  attributes.number("weight_decay", number("weight_decay", decay));
  attributes.flag("maximize", options.value("maximize", false));
  spec.attributes = attributes.text;
  spec.learningRate = number("lr", learningRate);
  return spec;
}

OptimizerSpec mpc::replay::kerasOptimizer(const std::string &name,
                                          const Json &options) {
  OptimizerSpec spec;
  Attributes attributes;
  attributes.add("form = #mpc<optimizer_form keras>");
  if (name == "SGD") {
    spec.op = "sgd";
    double momentum = options.value("momentum", 0.0);
    attributes.number("momentum", momentum);
    attributes.flag("nesterov", options.value("nesterov", false));
    if (momentum != 0)
      spec.states = {"momentum"};
  } else if (name == "Adam") {
    spec.op = "adam";
    // tf_keras' legacy optimizers hold all numbers in float32: 1 - beta is far
    // off the float64 one.
    bool isLegacy = options.value("legacy", false);
    auto held = [&](double value) { return isLegacy ? float(value) : value; };
    attributes.number("beta1", held(0.9));
    attributes.number("beta2", held(0.999));
    attributes.number("epsilon", held(1e-7));
    spec.states = {"exp_avg", "exp_avg_sq"};
  } else {
    throw std::invalid_argument("no op has the formula of keras' " + name);
  }
  spec.attributes = attributes.text;
  spec.learningRate = options.at("learning_rate");
  // Keras holds the learning rate in a float32 variable.
  spec.rateType = "f32";
  return spec;
}

//===----------------------------------------------------------------------===//
// Scalers
//===----------------------------------------------------------------------===//

/// ",NAME=value" for each pair whose recorded field exists.
static std::string presetFields(
    const Json &scaler,
    std::initializer_list<std::pair<const char *, const char *>> pairs) {
  std::string text;
  for (auto [recorded, product] : pairs) {
    if (!scaler.contains(recorded))
      continue;
    const Json &value = scaler.at(recorded);
    text +=
        std::string(",") + product + "=" +
        (value.is_number_integer() ? value.dump() : exact(value.get<double>()));
  }
  return text;
}

/// State names of `optimizer` in Keras and tf_keras.
static std::string kerasState(const std::string &optimizer,
                              const std::string &state, bool isTfKeras) {
  if (state == "exp_avg")
    return isTfKeras ? "m" : "momentum";
  if (state == "exp_avg_sq")
    return isTfKeras ? "v" : "velocity";
  (void)optimizer;
  return state;
}

static void readTorch(const Json &recording, ScalerRun &run) {
  const Json &scaler = recording.at("scaler");
  std::string preset = "torch";
  if (scaler.is_object())
    preset += presetFields(scaler, {{"init_scale", "init"},
                                    {"growth_factor", "growth"},
                                    {"backoff_factor", "backoff"},
                                    {"growth_interval", "interval"}});
  auto add = [&](const Json &optimizer,
                 const std::vector<std::string> &parameters) {
    OptimizerSpec spec = torchOptimizer(optimizer.at("name"), optimizer);
    spec.parameters = parameters;
    run.fused = optimizer.value("implementation", "single") == "fused";
    for (const std::string &parameter : parameters)
      for (const std::string &state : spec.states)
        run.stateNames[parameter + "." + state] =
            parameter + "." + (state == "momentum" ? "momentum_buffer" : state);
    run.spec.optimizers.push_back(std::move(spec));
  };
  if (recording.contains("optimizers")) {
    for (const auto &[parameter, optimizer] :
         recording.at("optimizers").items())
      add(optimizer, {parameter});
  } else {
    add(recording.at("optimizer"), {"w", "b"});
  }
  // A fused optimizer that gets scaled gradients unscales them by a division.
  if (run.fused && recording.value("unscale", "implicit") == "implicit")
    preset += ",unscale=divide";
  run.spec.training.lossScale = preset;
}

static void readKeras(const Json &recording, ScalerRun &run) {
  bool isTfKeras = run.system == ScalerRun::System::TfKeras;
  const Json &scaler = recording.at("scaler");
  std::string preset = isTfKeras ? "tf_keras" : "keras3";
  if (scaler.is_object() && !scaler.value("dynamic", true))
    preset = "static=" + exact(scaler.at("initial_scale")) +
             ",unscale=reciprocal32,count_on_skip=advance,clip=keras";
  else if (scaler.is_object())
    preset += presetFields(scaler, {{"initial_scale", "init"},
                                    {"dynamic_growth_steps", "interval"}});
  run.spec.training.lossScale = preset;

  const Json &optimizer = recording.at("optimizer");
  OptimizerSpec spec = kerasOptimizer(optimizer.at("name"), optimizer);
  // Each backend contracts a different multiply of the averages into an FMA.
  std::string backend = recording.value("backend", "tensorflow");
  if (backend != "tensorflow")
    spec.attributes +=
        backend == "jax" ? ", fuse = \"first\"" : ", fuse = \"last\"";
  spec.parameters = {"w", "b"};
  bool isLegacy = optimizer.value("legacy", false);
  for (const std::string &parameter : spec.parameters)
    for (const std::string &state : spec.states) {
      std::string recorded = kerasState(spec.op, state, isTfKeras);
      // The newer tf_keras optimizer calls momentum m, too.
      if (isTfKeras && !isLegacy && state == "momentum")
        recorded = "m";
      run.stateNames[parameter + "." + state] =
          !isTfKeras ? parameter + "_" + recorded
          : isLegacy ? parameter + "." + recorded
                     : recorded + "/" + parameter;
    }
  if (optimizer.contains("gradient_accumulation_steps")) {
    run.spec.training.accumulate = optimizer.at("gradient_accumulation_steps");
    run.microSteps = run.spec.training.accumulate > 1;
    for (const std::string &parameter : spec.parameters)
      run.stateNames[parameter + kGradientSuffix] =
          parameter + "_gradient_accumulator";
  }
  if (optimizer.contains("global_clipnorm"))
    run.spec.training.clipNorm = optimizer.at("global_clipnorm");
  run.spec.optimizers.push_back(std::move(spec));
}

ScalerRun mpc::replay::readScalerRun(const Json &recording) {
  ScalerRun run;
  std::string system = recording.at("system");
  run.spec.probes = true;
  if (system == "torch.amp.GradScaler") {
    run.system = ScalerRun::System::Torch;
    readTorch(recording, run);
  } else {
    run.system = system.starts_with("tf_keras") ? ScalerRun::System::TfKeras
                                                : ScalerRun::System::Keras3;
    readKeras(recording, run);
  }
  if (recording.contains("clip_norm") && !recording.at("clip_norm").is_null())
    run.spec.training.clipNorm = recording.at("clip_norm");
  run.clips = run.spec.training.clipNorm.has_value();
  run.spec.probes = !run.microSteps;
  std::string backend = recording.value("backend", "torch");
  run.flushes = run.system == ScalerRun::System::TfKeras || backend != "torch";

  if (recording.contains("initial_parameters"))
    for (const auto &[parameter, bits] :
         recording.at("initial_parameters").items())
      run.spec.shapes.push_back(
          {parameter, {int64_t(fromBits(bits.get<std::string>()).size())}});
  else
    run.spec.shapes = {{"w", {4}}, {"b", {2}}};
  return run;
}
