//===- StrictJson.cpp - parsing of untrusted JSON -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Support/StrictJson.h"

#include "mpc/Support/EscapedText.h"

#include <algorithm>
#include <vector>

using namespace mpc;
using Json = nlohmann::json;

namespace {

/// Builds a value from parser events, and stops at the first failure. The
/// library's own parser with a callback searches all entries of the parent
/// after each object, which is quadratic.
class Builder final : public nlohmann::json_sax<Json> {
public:
  explicit Builder(std::string_view text) : text(text) {}

  Json root;
  std::string failure;

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t &) override {
    return add(value);
  }
  bool string(string_t &value) override { return add(std::move(value)); }
  bool binary(binary_t &value) override { return add(std::move(value)); }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t &name) override {
    auto [entry, isNew] = parents.back()->get_ref<Json::object_t &>().emplace(
        std::move(name), nullptr);
    member = &entry->second;
    if (!isNew)
      failure = " with a duplicate name: '" +
                printable(entry->first.substr(0, 100)) + "'";
    return isNew;
  }
  bool parse_error(std::size_t position, const std::string &,
                   const nlohmann::detail::exception &) override {
    // The position counts the bytes up to the wrong one.
    std::string_view before =
        text.substr(0, std::min(position ? position - 1 : 0, text.size()));
    size_t line = before.rfind('\n');
    failure = " that is not a JSON object: line " +
              std::to_string(std::ranges::count(before, '\n') + 1) +
              ", column " +
              std::to_string(before.size() -
                             (line == before.npos ? 0 : line + 1) + 1) +
              " is not valid";
    return false;
  }

private:
  /// Stores a value in the innermost array or object.
  Json *store(Json value) {
    Json *place = &root;
    if (!parents.empty() && parents.back()->is_array()) {
      parents.back()->push_back(std::move(value));
      return &parents.back()->back();
    }
    if (!parents.empty())
      place = member;
    *place = std::move(value);
    return place;
  }
  bool add(Json value) {
    store(std::move(value));
    return true;
  }
  bool open(Json value) {
    if (parents.size() == kMostJsonDepth) {
      failure = " that is nested deeper than " +
                std::to_string(kMostJsonDepth) + " levels";
      return false;
    }
    parents.push_back(store(std::move(value)));
    return true;
  }
  bool close() {
    parents.pop_back();
    return true;
  }

  std::string_view text;
  /// Open arrays and objects, the innermost last.
  std::vector<Json *> parents;
  /// Value of the key that was read last.
  Json *member = nullptr;
};

} // namespace

Result<Json> mpc::parseStrictJson(std::string_view text,
                                  const std::string &where,
                                  const std::string &what) {
  Builder builder(text);
  if (Json::sax_parse(text, &builder) && !builder.root.is_object())
    builder.failure = " that is not a JSON object";
  if (!builder.failure.empty())
    return Status(StatusCode::InvalidArgument, where, what + builder.failure);
  return std::move(builder.root);
}
