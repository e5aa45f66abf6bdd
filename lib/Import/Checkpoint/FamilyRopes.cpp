//===- FamilyRopes.cpp - windows and rotary embeddings of families --------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FamilyReader.h"
#include "RopeScaling.h"

#include "mpc/Support/EscapedText.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

#include <algorithm>

using namespace mpc;
using namespace mpc::checkpoint;
using Json = nlohmann::json;

void FamilyReader::readWindows() {
  const Windows &form = family.windows;
  if (form.layers == WindowLayers::None)
    return;
  int64_t missing = keys.isMissing(form.key) ? form.defaultValue : 0;
  int64_t window =
      keys.integer(form.key, 1, kMostTokens, missing) / form.divisor;
  bool isUsed = form.layers != WindowLayers::FromLayer ||
                keys.flag("use_sliding_window", false);
  int64_t first = form.layers == WindowLayers::FromLayer
                      ? keys.integer("max_window_layers", 0, kMostTokens, 28)
                      : 0;
  int64_t period = form.period;
  for (const char *key : {form.periodKey, "_sliding_window_pattern"})
    if (key && form.period > 1)
      period = keys.integer(key, 1, kMostLayers, period);
  std::vector<std::string> types = keys.texts("layer_types");
  if (!types.empty() && int64_t(types.size()) != config.layers) {
    keys.fail("layer_types", "has " + std::to_string(types.size()) +
                                 " entries for " +
                                 std::to_string(config.layers) + " layers");
    return;
  }
  std::vector<bool> slides(config.layers);
  for (int64_t i = 0; i < config.layers; ++i) {
    if (!types.empty()) {
      slides[i] = types[i] == "sliding_attention";
      if (!slides[i] && types[i] != "full_attention")
        keys.fail("layer_types",
                  "has the entry \"" + printable(types[i].substr(0, 40)) +
                      "\", neither full_attention nor sliding_attention");
      continue;
    }
    switch (form.layers) {
    case WindowLayers::None:
      break;
    case WindowLayers::All:
      slides[i] = true;
      break;
    case WindowLayers::FromLayer:
      slides[i] = i >= first;
      break;
    case WindowLayers::AllButLast:
      slides[i] = (i + 1) % period != 0;
      break;
    case WindowLayers::AllButFirst:
      slides[i] = i % period != 0;
      break;
    }
  }
  if (!isUsed || !llvm::is_contained(slides, true))
    return;
  if (window == 0) {
    bool isOptional = types.empty() && form.layers == WindowLayers::All;
    if (!isOptional)
      keys.fail(form.key, "is missing, but layers have a sliding window");
    return;
  }
  for (bool slide : slides)
    config.windows.push_back(slide ? window : 0);
}

double FamilyReader::readTheta() {
  double theta = family.rope.defaultTheta;
  for (const char *key : family.rope.theta)
    theta = keys.positive(key, theta);
  return theta;
}

Rope FamilyReader::readRope(const Json *json, const std::string &path,
                            double theta) {
  static const Json empty = Json::object();
  if (json && !json->is_object()) {
    keys.fail(path, "is not an object");
    return {};
  }
  ConfigReader rope(json ? *json : empty, where, path + ".");
  RopeOptions options;
  const char *typeKey = rope.has("rope_type") ? "rope_type" : "type";
  rope.find("type");
  std::string type = rope.text(typeKey, "default");
  auto scaling = llvm::StringSwitch<std::optional<RopeScaling>>(type)
                     .Case("default", RopeScaling::None)
                     .Case("linear", RopeScaling::Linear)
                     .Case("dynamic", RopeScaling::Dynamic)
                     .Case("yarn", RopeScaling::Yarn)
                     .Case("llama3", RopeScaling::Llama3)
                     .Cases({"longrope", "su"}, RopeScaling::LongRope)
                     .Default(std::nullopt);
  if (!scaling)
    rope.fail(typeKey, "is \"" + printable(type.substr(0, 40)) +
                           "\", none of default, linear, dynamic, yarn, "
                           "llama3 and longrope");
  options.scaling = scaling.value_or(RopeScaling::None);
  options.theta = rope.positive("rope_theta", theta);
  double fraction = 1;
  if (family.rope.fraction) {
    fraction = rope.positive(
        "partial_rotary_factor",
        keys.positive(family.rope.fraction, family.rope.defaultFraction));
  } else {
    rope.require("partial_rotary_factor", 1);
    keys.require("partial_rotary_factor", 1);
  }
  options.rotary = int64_t(double(config.headSize) * std::min(fraction, 1.0));
  if (fraction > 1 || options.rotary < 2 || options.rotary % 2 != 0)
    rope.fail("partial_rotary_factor",
              "gives " + std::to_string(options.rotary) +
                  " rotated elements of a head of " +
                  std::to_string(config.headSize) +
                  "; an even number up to the head size is expected");
  options.positions = config.positions;
  int64_t original = keys.integer("original_max_position_embeddings", 2,
                                  kMostTokens, config.positions);
  options.original = rope.integer("original_max_position_embeddings", 2,
                                  kMostTokens, original);
  bool isScaled = options.scaling != RopeScaling::None,
       isLong = options.scaling == RopeScaling::LongRope;
  double ratio = double(options.positions) / double(options.original);
  // Phi-3 extends by the ratio of two lengths.
  options.factor =
      rope.positive("factor", isScaled && !isLong ? std::optional<double>()
                                                  : std::optional(ratio));
  if (options.scaling == RopeScaling::Llama3) {
    options.low = rope.positive("low_freq_factor");
    options.high = rope.positive("high_freq_factor");
    if (options.low >= options.high)
      rope.fail("high_freq_factor", "is not above low_freq_factor");
  }
  if (options.scaling == RopeScaling::Yarn) {
    options.fast = rope.positive("beta_fast", 32);
    options.slow = rope.positive("beta_slow", 1);
    options.truncates = rope.flag("truncate", true);
    options.scale = rope.optionalPositive("mscale");
    options.scaleAllDim = rope.optionalPositive("mscale_all_dim");
    if (options.theta <= 1)
      rope.fail("rope_theta", "is not above 1");
  }
  if (options.scaling == RopeScaling::Yarn || isLong)
    options.attentionFactor = rope.optionalPositive("attention_factor");
  if (isLong) {
    options.divisors = rope.numbers("short_factor");
    rope.find("long_factor");
    if (int64_t(options.divisors.size()) != options.rotary / 2) {
      rope.fail("short_factor",
                "has " + std::to_string(options.divisors.size()) +
                    " numbers for " + std::to_string(options.rotary / 2) +
                    " rotated pairs");
      options.divisors.assign(size_t(options.rotary / 2), 1);
    }
  }
  // Old configurations have keys of other methods.
  rope.ignore({"finetuned"});
  keys.adopt(rope.finish());
  if (!keys.status().ok())
    return {};
  if (int64_t most = mostTokensOf(options); most > 0)
    config.mostTokens =
        config.mostTokens ? std::min(config.mostTokens, most) : most;
  Rope made = makeRope(options);
  if (!isFinite(made))
    keys.fail(path, "gives rotary frequencies that are not finite");
  return made;
}

void FamilyReader::readRopes() {
  if (family.rope.form == RopeForm::None)
    return;
  double theta = readTheta(), windowTheta = 10000;
  if (family.rope.windowTheta)
    windowTheta = keys.positive(family.rope.windowTheta, windowTheta);
  // Version 5 has rope_parameters, with the base; earlier ones rope_scaling.
  const Json *scaling = keys.find("rope_scaling");
  std::string path = "rope_scaling";
  if (const Json *parameters = keys.find("rope_parameters")) {
    if (scaling && *scaling != *parameters)
      keys.fail(path, "differs from 'rope_parameters'; remove the wrong one");
    scaling = parameters;
    path = "rope_parameters";
  }
  if (family.rope.form == RopeForm::One) {
    config.ropes.push_back(readRope(scaling, path, theta));
    return;
  }
  const Json *full = scaling, *sliding = nullptr;
  std::string fullPath = path, slidingPath = path;
  if (scaling && scaling->is_object() && scaling->contains("full_attention")) {
    ConfigReader byType(*scaling, where, path + ".");
    full = byType.find("full_attention");
    sliding = byType.find("sliding_attention");
    keys.adopt(byType.finish());
    fullPath += ".full_attention";
    slidingPath += ".sliding_attention";
  }
  config.ropes.push_back(readRope(full, fullPath, theta));
  config.ropes.push_back(readRope(sliding, slidingPath, windowTheta));
  for (int64_t i = 0; i < config.layers; ++i)
    config.ropeOfLayer.push_back(hasWindow(i) ? 1 : 0);
}
