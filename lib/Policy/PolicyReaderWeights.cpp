//===- PolicyReaderWeights.cpp - weight and cache formats of a policy -----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The storage of all weights, or of single ops' weights: a type's name, or an
// object with the type's options; mean squares of activations; the type of KV
// caches.
//
//===----------------------------------------------------------------------===//

#include "PolicyReader.h"

#include "llvm/ADT/STLExtras.h"

#include <limits>

using namespace llvm;
using namespace mpc;

static constexpr StringLiteral kKnownTypes =
    "float32, float16, bfloat16, int16, int8, int4 or float8_e4m3fn";
static constexpr StringLiteral kKnownCaches =
    "float32, float16, bfloat16, int8 or float8_e4m3fn";

bool Policy::narrowsWeights() const {
  return weights.isNarrow() ||
         any_of(namedWeights,
                [](const auto &named) { return named.second.isNarrow(); }) ||
         any_of(layers, [](const LayerPolicy &layer) {
           return layer.policy->getWeights().isNarrow();
         });
}

/// Bits of one stored number, without scales.
static unsigned bitsOf(WeightType type) {
  switch (type) {
  case WeightType::Float32:
    return 32;
  case WeightType::Float16:
  case WeightType::BFloat16:
  case WeightType::Int16:
    return 16;
  case WeightType::Int8:
  case WeightType::Float8:
    return 8;
  case WeightType::Int4:
    return 4;
  }
  llvm_unreachable("every type has bits");
}

const WeightFormat *Policy::weightsOf(ArrayRef<StringRef> names) const {
  const WeightFormat *found = nullptr;
  for (StringRef name : names)
    if (auto it = namedWeights.find(name.str());
        it != namedWeights.end() &&
        (!found || bitsOf(it->second.type) > bitsOf(found->type)))
      found = &it->second;
  return found;
}

Error PolicyReader::readWeights(const Json &value) {
  Json own = value;
  // An object with names only does not affect other weights.
  if (value.is_object() && value.contains("names")) {
    const Json &names = value["names"];
    if (!names.is_object())
      return error("weights.names", Twine("expects an object of NAME: WEIGHTS, "
                                          "got ") +
                                        names.type_name());
    for (auto &[name, entry] : names.items())
      if (Error e = readWeightFormat(entry, "weights.names." + name,
                                     policy.namedWeights[name]))
        return e;
    own.erase("names");
    if (own.empty())
      return Error::success();
  }
  return readWeightFormat(own, "weights", policy.weights);
}

Error PolicyReader::readWeightFormat(const Json &value, const std::string &path,
                                     WeightFormat &out) {
  Json fields = value;
  if (value.is_string())
    fields = Json::object({{"type", value}});
  if (!fields.is_object())
    return error(path, Twine("expects a type's name or an object, got ") +
                           value.type_name());
  if (Error e =
          unknownField(fields, path, {"type", "group", "zero_point", "clip"}))
    return e;
  auto type = fields.find("type");
  if (type == fields.end() || !type->is_string())
    return error(path + ".type",
                 type == fields.end()
                     ? Twine("is missing")
                     : Twine("expects a string, got ") + type->type_name());
  std::string name = type->get<std::string>();
  std::optional<WeightType> known = parseWeightType(name);
  if (!known) {
    std::optional<PolicyType> other = parsePolicyType(name);
    if (!other)
      return error(path + ".type",
                   "unknown type '" + name + "'; use " + kKnownTypes);
    StringRef why = isFloat8(*other) ? " has no kernels yet"
                                     : " is no type that weights are stored in";
    return error(path + ".type",
                 "type " + stringify(*other) + why + "; use " + kKnownTypes);
  }
  WeightFormat format;
  format.type = *known;

  // An option that the type does not have is an error.
  auto refuse = [&](const char *field, StringRef holder) {
    return error(path + "." + field,
                 "is for " + holder + ", the type is " + stringify(*known));
  };
  if (auto group = fields.find("group"); group != fields.end()) {
    if (*known != WeightType::Int4)
      return refuse("group", "int4");
    if (!group->is_number_integer() ||
        !is_contained({32, 64, 128}, group->get<int64_t>()))
      return error(path + ".group",
                   "expects 32, 64 or 128, got " + group->dump());
    format.group = group->get<int64_t>();
  }
  for (auto [field, target] : {std::pair("zero_point", &format.zeroPoint),
                               std::pair("clip", &format.clip)}) {
    auto it = fields.find(field);
    if (it == fields.end())
      continue;
    if (target == &format.zeroPoint && *known != WeightType::Int4)
      return refuse(field, "int4");
    if (!format.isScaled())
      return refuse(field, "int16, int8, int4 and float8_e4m3fn");
    if (!it->is_boolean())
      return error(path + "." + field,
                   Twine("expects true or false, got ") + it->type_name());
    *target = it->get<bool>();
  }
  out = format;
  return Error::success();
}

Error PolicyReader::readCache(const Json &value) {
  if (!value.is_string())
    return error("cache", Twine("expects a string, got ") + value.type_name());
  std::string name = value.get<std::string>();
  std::optional<WeightType> type = parseWeightType(name);
  if (!type || *type == WeightType::Int4 || *type == WeightType::Int16) {
    bool isType = type || parsePolicyType(name);
    return error("cache",
                 (isType ? "no cache is kept in type '" : "unknown type '") +
                     name + "'; use " + kKnownCaches);
  }
  policy.cache = *type;
  return Error::success();
}

Error PolicyReader::readMoments(const Json &value) {
  if (!value.is_object())
    return error("moments", Twine("expects an object of NAME: NUMBERS, got ") +
                                value.type_name());
  for (auto &[name, numbers] : value.items()) {
    std::vector<float> squares;
    bool isRead = numbers.is_array();
    for (const Json &number : numbers) {
      double square = number.is_number() ? number.get<double>() : -1;
      isRead &= square >= 0 && square <= std::numeric_limits<float>::max();
      squares.push_back(float(square));
    }
    if (!isRead)
      return error("moments." + name,
                   "expects an array of mean squares, finite numbers that are "
                   "not negative");
    policy.moments[name] = std::move(squares);
  }
  return Error::success();
}

ArrayRef<float> Policy::momentsOf(ArrayRef<StringRef> names) const {
  for (StringRef name : names)
    if (auto it = moments.find(name.str()); it != moments.end())
      return it->second;
  return {};
}
