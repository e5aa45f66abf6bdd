//===- ConfigReader.cpp - typed reading of JSON configurations ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ConfigReader.h"

#include "mpc/Support/EscapedText.h"

#include <cmath>

using namespace mpc;
using namespace mpc::checkpoint;
using llvm::StringRef;
using Json = nlohmann::json;

/// Returns a value's text, shortened.
static std::string shortText(const Json &value) {
  std::string text = jsonText(value);
  return text.size() > 60 ? text.substr(0, 60) + "..." : text;
}

/// Returns a number above zero that is finite in f32, or nullopt.
static std::optional<double> positiveNumber(const Json &value) {
  double number = value.is_number() ? value.get<double>() : NAN;
  if (!(float(number) > 0) || !std::isfinite(float(number)))
    return std::nullopt;
  return number;
}
static constexpr const char *kPositive =
    ", expected a number above zero within the range of float32";

const Json *ConfigReader::find(StringRef key) {
  known.insert(key.str());
  auto found = object.find(key.str());
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

void ConfigReader::fail(StringRef key, const std::string &text) {
  if (failure.ok())
    failure = Status(StatusCode::InvalidArgument, where,
                     "key '" + path + key.str() + "' " + text);
}

int64_t ConfigReader::integer(StringRef key, int64_t low, int64_t high,
                              std::optional<int64_t> fallback) {
  const Json *value = find(key);
  if (!value) {
    if (!fallback)
      fail(key, "is missing");
    return fallback.value_or(low);
  }
  bool fits =
      value->is_number_unsigned()
          ? value->get<uint64_t>() <= uint64_t(std::max<int64_t>(high, 0)) &&
                int64_t(value->get<uint64_t>()) >= low
          : value->is_number_integer() && value->get<int64_t>() >= low &&
                value->get<int64_t>() <= high;
  if (!fits) {
    fail(key, "is " + shortText(*value) + ", expected an integer from " +
                  std::to_string(low) + " to " + std::to_string(high));
    return low;
  }
  return value->get<int64_t>();
}

std::optional<double> ConfigReader::optionalPositive(StringRef key) {
  const Json *value = find(key);
  if (!value)
    return std::nullopt;
  std::optional<double> number = positiveNumber(*value);
  if (!number)
    fail(key, "is " + shortText(*value) + kPositive);
  return number.value_or(1);
}

double ConfigReader::positive(StringRef key, std::optional<double> fallback) {
  std::optional<double> value = optionalPositive(key);
  if (!value && !fallback)
    fail(key, "is missing");
  return value ? *value : fallback.value_or(1);
}

bool ConfigReader::flag(StringRef key, bool fallback) {
  const Json *value = find(key);
  if (!value)
    return fallback;
  if (!value->is_boolean()) {
    fail(key, "is " + shortText(*value) + ", expected true or false");
    return fallback;
  }
  return value->get<bool>();
}

std::string ConfigReader::text(StringRef key, StringRef fallback) {
  const Json *value = find(key);
  if (!value)
    return fallback.str();
  if (!value->is_string()) {
    fail(key, "is " + shortText(*value) + ", expected a string");
    return fallback.str();
  }
  return value->get<std::string>();
}

std::vector<std::string> ConfigReader::texts(StringRef key) {
  std::vector<std::string> list;
  const Json *value = find(key);
  if (!value)
    return list;
  if (!value->is_array())
    fail(key, "is " + shortText(*value) + ", expected a list of strings");
  else
    for (const Json &entry : *value) {
      if (!entry.is_string()) {
        fail(key, "has the entry " + shortText(entry) + ", expected a string");
        return {};
      }
      list.push_back(entry.get<std::string>());
    }
  return list;
}

std::vector<double> ConfigReader::numbers(StringRef key) {
  std::vector<double> list;
  const Json *value = find(key);
  if (!value)
    return list;
  if (!value->is_array())
    fail(key, "is " + shortText(*value) + ", expected a list of numbers");
  else
    for (const Json &entry : *value) {
      std::optional<double> number = positiveNumber(entry);
      if (!number) {
        fail(key, "has the entry " + shortText(entry) + kPositive);
        return {};
      }
      list.push_back(*number);
    }
  return list;
}

void ConfigReader::require(StringRef key, const Json &value) {
  const Json *found = find(key);
  if (found && *found != value)
    fail(key, "is " + shortText(*found) + ", but only " + shortText(value) +
                  " is supported");
}

void ConfigReader::ignore(llvm::ArrayRef<const char *> keys) {
  known.insert(keys.begin(), keys.end());
}

void ConfigReader::adopt(const Status &status) {
  if (failure.ok())
    failure = status;
}

Status ConfigReader::finish() const {
  if (!failure.ok())
    return failure;
  for (const auto &[key, value] : object.items())
    if (!known.contains(key) && !value.is_null())
      return Status(StatusCode::InvalidArgument, where,
                    "key '" + path + printable(key) + "' with the value " +
                        shortText(value) +
                        " is not known, so that the model might compute "
                        "something else; remove it if it has no effect");
  return {};
}
