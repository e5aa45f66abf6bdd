//===- TuneState.cpp - saved state of an unfinished search ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TuneState.h"

#include "mpc/Support/EscapedText.h"
#include "mpc/Support/Files.h"

#include "llvm/Support/MD5.h"

#include <cmath>
#include <cstdio>

using namespace mpc;
using namespace mpc::tool;

/// JSON has no infinity.
static Json fromNumber(double value) {
  return std::isfinite(value) ? Json(value) : Json();
}

/// Parses a number, or infinity for null; returns false for anything else.
static bool toNumber(const Json &json, double &value) {
  value = INFINITY;
  if (json.is_number())
    value = json.get<double>();
  return json.is_number() || json.is_null();
}

const PolicyMeasurements *TuneState::find(const Choice &choice,
                                          Part part) const {
  auto found = measured.find({choice, part});
  return found == measured.end() ? nullptr : &found->second;
}

/// Returns a checksum of the saved data, to reject manual changes.
static std::string sumOf(const Json &json) {
  llvm::MD5 hash;
  for (const char *field : {"key", "shares", "measured"})
    hash.update(jsonText(json[field]));
  llvm::MD5::MD5Result result;
  hash.final(result);
  return result.digest().str().str();
}

/// Reads the number in field `field`; returns false if there is none.
static bool readField(const Json &json, const char *field, double &value) {
  return json.is_object() && json.contains(field) &&
         toNumber(json[field], value);
}

Status TuneState::load() {
  Result<std::string> text = readWholeFile(path);
  if (!text.ok())
    return Status(StatusCode::NotFound, "--resume",
                  path + " cannot be read: " + text.status().text());
  Json json = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  Status damaged(StatusCode::InvalidArgument, path,
                 "is damaged; remove it, and drop --resume");
  if (!json.is_object() || !json.contains("key") || !json["key"].is_string() ||
      !json.contains("shares") || !json["shares"].is_array() ||
      !json.contains("measured") || !json["measured"].is_array())
    return damaged;
  if (json["key"].get<std::string>() != key)
    return Status(StatusCode::InvalidArgument, path,
                  "is the state of another search: the model, the samples, "
                  "the budget or a flag changed; drop --resume");
  if (!json.contains("sum") || json["sum"] != sumOf(json))
    return Status(
        StatusCode::InvalidArgument, path,
        "was modified since mpc tune wrote it; remove it, and drop --resume");
  std::vector<double> numbers;
  for (const Json &entry : json["shares"])
    if (!toNumber(entry, numbers.emplace_back()))
      return damaged;
  std::map<std::pair<Choice, Part>, PolicyMeasurements> points;
  for (const Json &entry : json["measured"]) {
    PolicyMeasurements figures;
    double heldBack = 0, seconds = 0;
    if (!readField(entry, "held_back", heldBack) ||
        !readField(entry, "error", figures.error) ||
        !readField(entry, "bytes", figures.bytes) ||
        !readField(entry, "memory", figures.memory) ||
        !entry.contains("choice") || !entry["choice"].is_array())
      return damaged;
    if (readField(entry, "seconds", seconds))
      figures.seconds = seconds;
    Choice choice;
    for (const Json &option : entry["choice"]) {
      if (!option.is_number_integer())
        return damaged;
      choice.push_back(option.get<int>());
    }
    points[{choice, heldBack != 0 ? Part::HeldBack : Part::Searched}] = figures;
  }
  shares = std::move(numbers);
  measured = std::move(points);
  return {};
}

Status TuneState::save() const {
  if (path.empty())
    return {};
  Json json = {
      {"key", key}, {"shares", Json::array()}, {"measured", Json::array()}};
  for (double share : shares)
    json["shares"].push_back(fromNumber(share));
  for (const auto &[what, figures] : measured) {
    Json &entry = json["measured"].emplace_back(
        Json{{"choice", what.first},
             {"held_back", what.second == Part::HeldBack ? 1 : 0},
             {"error", fromNumber(figures.error)},
             {"bytes", figures.bytes},
             {"memory", figures.memory}});
    if (figures.seconds)
      entry["seconds"] = *figures.seconds;
  }
  json["sum"] = sumOf(json);
  return writeWholeFile(path, {jsonText(json), "\n"});
}

void TuneState::remove() const {
  if (!path.empty())
    std::remove(path.c_str());
}
