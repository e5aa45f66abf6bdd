//===- LossScalePreset.cpp - loss-scale presets and parsing ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Training/LossScale.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"

#include <cmath>
#include <functional>
#include <limits>

using namespace mpc;
using llvm::StringRef;

//===----------------------------------------------------------------------===//
// Presets
//===----------------------------------------------------------------------===//

/// Returns the preset called `name`, or nullopt.
static std::optional<LossScalePreset> findPreset(StringRef name) {
  using P = LossScalePreset;
  P dynamic;
  dynamic.growth = 2;
  dynamic.backoff = 0.5;
  dynamic.check = P::Check::Scaled;
  dynamic.name = name.str();
  if (name == "none") {
    dynamic = P();
  } else if (name == "torch") {
    dynamic.init = 65536;
    dynamic.keepFinite = true;
  } else if (name == "keras3") {
    dynamic.init = 32768;
    dynamic.unscale = P::Unscale::Divide;
    dynamic.accumulation = P::Accumulation::MicroStep;
    dynamic.clip = P::Clip::Keras;
  } else if (name == "tf_keras" || name == "tf2.1") {
    dynamic.init = 32768;
    dynamic.min = 1;
    dynamic.keepFinite = true;
    dynamic.check = P::Check::Unscaled;
    dynamic.unscale = P::Unscale::Reciprocal32;
    dynamic.countOnSkip = P::CountOnSkip::Advance;
    dynamic.clip = P::Clip::Keras;
  } else if (name == "apex") {
    dynamic.init = 65536;
    dynamic.max = 16777216;
    dynamic.unscale = P::Unscale::Reciprocal32;
  } else if (name == "deepspeed") {
    dynamic.init = 4294967296;
    dynamic.interval = 1000;
    dynamic.min = 1;
    dynamic.onFloor = P::OnFloor::Error;
    dynamic.unscale = P::Unscale::Reciprocal32;
  } else {
    return std::nullopt;
  }
  return dynamic;
}

//===----------------------------------------------------------------------===//
// Fields
//===----------------------------------------------------------------------===//

namespace {

/// Parses fields of a preset one by one.
class PresetFieldParser {
public:
  PresetFieldParser(LossScalePreset &preset, std::string &error)
      : preset(preset), error(error) {}

  /// Returns false and sets `error` if name or value are invalid.
  bool parse(StringRef name, StringRef value) {
    using P = LossScalePreset;
    if (name == "init")
      return number(
          name, value, preset.init, [](double v) { return v > 0; },
          "a positive number");
    if (name == "growth")
      return number(
          name, value, preset.growth, [](double v) { return v >= 1; },
          "a number of at least 1");
    if (name == "backoff")
      return number(
          name, value, preset.backoff, [](double v) { return v > 0 && v <= 1; },
          "a number above 0 and at most 1");
    if (name == "interval" || name == "hysteresis")
      return count(name, value,
                   name == "interval" ? preset.interval : preset.hysteresis);
    if (name == "min" || name == "max")
      return limit(name, value, name == "min" ? preset.min : preset.max);
    if (name == "keep_finite")
      return choice<bool>(name, value, preset.keepFinite,
                          {{"0", false}, {"1", true}});
    if (name == "refill_hysteresis")
      return choice<bool>(name, value, preset.refillHysteresis,
                          {{"0", false}, {"1", true}});
    if (name == "check")
      return choice<P::Check>(name, value, preset.check,
                              {{"none", P::Check::None},
                               {"scaled", P::Check::Scaled},
                               {"unscaled", P::Check::Unscaled}});
    if (name == "unscale")
      return choice<P::Unscale>(name, value, preset.unscale,
                                {{"reciprocal64", P::Unscale::Reciprocal64},
                                 {"reciprocal32", P::Unscale::Reciprocal32},
                                 {"divide", P::Unscale::Divide}});
    if (name == "on_floor")
      return choice<P::OnFloor>(
          name, value, preset.onFloor,
          {{"hold", P::OnFloor::Hold}, {"error", P::OnFloor::Error}});
    if (name == "count_on_skip")
      return choice<P::CountOnSkip>(name, value, preset.countOnSkip,
                                    {{"hold", P::CountOnSkip::Hold},
                                     {"advance", P::CountOnSkip::Advance}});
    if (name == "accumulation")
      return choice<P::Accumulation>(
          name, value, preset.accumulation,
          {{"window", P::Accumulation::Window},
           {"micro_step", P::Accumulation::MicroStep}});
    if (name == "clip")
      return choice<P::Clip>(
          name, value, preset.clip,
          {{"torch", P::Clip::Torch}, {"keras", P::Clip::Keras}});
    error = "field '" + name.str() +
            "' does not exist; use init, growth, backoff, interval, min, "
            "max, keep_finite, hysteresis, refill_hysteresis, check, unscale, "
            "on_floor, count_on_skip, accumulation, clip";
    return false;
  }

  bool number(StringRef name, StringRef text, double &value,
              bool (*fits)(double), const char *wanted) {
    double parsed = 0;
    // Scales and their factors are used in f32 arithmetic.
    if (text.getAsDouble(parsed) || !std::isfinite(float(parsed)) ||
        !fits(parsed))
      return fail(name, wanted, text);
    value = parsed;
    return true;
  }

private:
  bool fail(StringRef name, const std::string &wanted, StringRef found) {
    error = "field '" + name.str() + "' takes " + wanted + ", found '" +
            found.str() + "'";
    return false;
  }

  bool count(StringRef name, StringRef text, int64_t &value) {
    int64_t parsed = 0;
    if (text.getAsInteger(10, parsed) || parsed < 1 ||
        parsed > std::numeric_limits<int32_t>::max())
      return fail(name, "a number from 1 to 2147483647", text);
    value = parsed;
    return true;
  }

  bool limit(StringRef name, StringRef text, std::optional<double> &value) {
    if (text == "none") {
      value.reset();
      return true;
    }
    double parsed = 0;
    if (!number(
            name, text, parsed, [](double v) { return v > 0; },
            "a positive number or none"))
      return false;
    value = parsed;
    return true;
  }

  template <typename T>
  bool choice(StringRef name, StringRef text, T &value,
              std::initializer_list<std::pair<const char *, T>> choices) {
    llvm::SmallVector<StringRef> words;
    for (auto [word, meaning] : choices) {
      words.push_back(word);
      if (text == word) {
        value = meaning;
        return true;
      }
    }
    return fail(name, "one of " + llvm::join(words, ", "), text);
  }

  LossScalePreset &preset;
  std::string &error;
};

} // namespace

std::optional<LossScalePreset> LossScalePreset::parse(const std::string &text,
                                                      std::string &error) {
  llvm::SmallVector<StringRef> parts;
  StringRef(text).split(parts, ',');
  auto [name, value] = parts.front().split('=');
  bool isStatic = name == "static";
  std::optional<LossScalePreset> preset =
      findPreset(isStatic            ? "none"
                 : name == "dynamic" ? "torch"
                                     : name);
  if (!preset || (!isStatic && parts.front().contains('='))) {
    error = "loss scale '" + parts.front().str() +
            "' does not exist; use torch (also called dynamic), keras3, "
            "tf_keras, tf2.1, apex, deepspeed, static=N, none";
    return std::nullopt;
  }
  PresetFieldParser parser(*preset, error);
  if (isStatic) {
    preset->name = "static";
    if (!parser.number(
            "static", value, preset->init, [](double v) { return v > 0; },
            "a positive number"))
      return std::nullopt;
  }
  for (StringRef part : llvm::drop_begin(parts)) {
    auto [field, fieldValue] = part.split('=');
    if (!parser.parse(field, fieldValue))
      return std::nullopt;
  }
  if (preset->min && preset->max && *preset->min > *preset->max) {
    error = "the smallest loss scale " + std::to_string(*preset->min) +
            " is above the largest " + std::to_string(*preset->max);
    return std::nullopt;
  }
  if (preset->isDynamic() && !preset->checks()) {
    error = "a dynamic loss scale needs check=scaled or check=unscaled";
    return std::nullopt;
  }
  return preset;
}
