//===- PolicyReader.cpp - policies from JSON ------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// JSON text -> Policy. The text may come from anywhere: size and nesting are
// bounded before the parser sees it, and every field is checked.
//
//===----------------------------------------------------------------------===//

#include "mpc/Policy/Policy.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/MemoryBuffer.h"

#include <nlohmann/json.hpp>

#include <set>

using namespace llvm;
using namespace mpc;
using Json = nlohmann::json;

namespace {

struct BuiltinPolicy {
  const char *name;
  const char *json;
};
const BuiltinPolicy kBuiltins[] = {
#include "BuiltinPolicies.inc"
};

constexpr size_t kMaxPolicyBytes = 1 << 20;
constexpr int kMaxNesting = 16;

/// Remembers where a syntax error stands; builds nothing.
struct SyntaxChecker : nlohmann::json_sax<Json> {
  size_t errorPosition = 0;
  int depth = 0;
  bool tooDeep = false;
  std::vector<std::set<std::string>> keys;
  std::string duplicate;

  bool enter() {
    tooDeep |= ++depth > kMaxNesting;
    keys.emplace_back();
    return !tooDeep;
  }
  bool leave() {
    --depth;
    keys.pop_back();
    return true;
  }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t &) override { return true; }
  bool string(string_t &) override { return true; }
  bool binary(binary_t &) override { return true; }
  bool start_object(size_t) override { return enter(); }
  bool end_object() override { return leave(); }
  bool start_array(size_t) override { return enter(); }
  bool end_array() override { return leave(); }
  bool key(string_t &name) override {
    if (keys.back().insert(name).second)
      return true;
    duplicate = name;
    return false;
  }
  bool parse_error(size_t position, const std::string &,
                   const Json::exception &) override {
    errorPosition = position;
    return false;
  }
};

} // namespace

namespace mpc {

/// Fills a policy from a JSON object.
class PolicyReader {
public:
  PolicyReader(Policy &policy, StringRef where, int depth)
      : policy(policy), where(where), depth(depth) {}

  Error read(const Json &root);

private:
  Error error(const Twine &path, const Twine &message) {
    return createStringError(inconvertibleErrorCode(),
                             where + ": " + path + ": " + message);
  }
  /// Sets `out` from the string field `key` where it is present.
  Error readString(const Json &root, const char *key, std::string &out);
  Error readType(const Json &root, const char *key, PolicyType &out);
  Error readExtends(const Json &root);
  Error readClasses(const Json &value);
  Error readOverrides(const Json &value);

  Policy &policy;
  StringRef where;
  int depth;
};

} // namespace mpc

Error PolicyReader::readString(const Json &root, const char *key,
                               std::string &out) {
  auto it = root.find(key);
  if (it == root.end())
    return Error::success();
  if (!it->is_string())
    return error(key, Twine("expects a string, got ") + it->type_name());
  out = it->get<std::string>();
  return Error::success();
}

Error PolicyReader::readType(const Json &root, const char *key,
                             PolicyType &out) {
  std::string text;
  if (Error e = readString(root, key, text))
    return e;
  if (text.empty())
    return root.contains(key)
               ? error(key, "expects float32, float16 or bfloat16")
               : Error::success();
  std::optional<PolicyType> type = parsePolicyType(text);
  if (!type)
    return error(key, "unknown type '" + text +
                          "'; use float32, float16 or bfloat16");
  out = *type;
  return Error::success();
}

Error PolicyReader::readExtends(const Json &root) {
  std::string base;
  if (Error e = readString(root, "extends", base))
    return e;
  if (base.empty())
    return Error::success();
  for (const BuiltinPolicy &builtin : kBuiltins) {
    if (base != builtin.name)
      continue;
    if (depth > 4)
      return error("extends", "the chain of policies is longer than 4");
    Json parsed =
        Json::parse(builtin.json, nullptr, /*allow_exceptions=*/false);
    return PolicyReader(policy, where, depth + 1).read(parsed);
  }
  return error("extends", "no built-in policy '" + base + "'; known: " +
                              join(Policy::builtinNames(), ", "));
}

Error PolicyReader::readClasses(const Json &value) {
  if (!value.is_object())
    return error("classes",
                 Twine("expects an object of lists, got ") + value.type_name());
  // A file that extends another one moves kinds between lists; within one file
  // a kind has one class.
  std::map<std::string, std::string> seen;
  for (auto &[className, kinds] : value.items()) {
    std::string path = "classes." + className;
    std::optional<PrecisionClass> cls = parsePrecisionClass(className);
    if (!cls)
      return error(path, "unknown class; use low, high, follow, clear, widest, "
                         "high_result or ban");
    if (!kinds.is_array())
      return error(path, Twine("expects a list of op kinds, got ") +
                             kinds.type_name());
    for (const Json &kind : kinds) {
      if (!kind.is_string())
        return error(path, Twine("expects strings, got ") + kind.type_name());
      std::string text = kind.get<std::string>();
      auto [it, inserted] = seen.try_emplace(text, className);
      if (!inserted)
        return error(path, "kind '" + text + "' is already in list '" +
                               it->second + "'");
      policy.classes[text] = *cls;
    }
  }
  return Error::success();
}

Error PolicyReader::readOverrides(const Json &value) {
  if (!value.is_object())
    return error("overrides", Twine("expects an object of KEY: TYPE, got ") +
                                  value.type_name());
  for (auto &[key, type] : value.items()) {
    if (!type.is_string())
      return error("overrides." + key,
                   Twine("expects a type name, got ") + type.type_name());
    if (Error e = policy.addOverride(key + "=" + type.get<std::string>(),
                                     PolicyOverride::Source::File))
      return error("overrides", toString(std::move(e)));
  }
  return Error::success();
}

Error PolicyReader::read(const Json &root) {
  if (!root.is_object())
    return error("policy", Twine("expects an object, got ") + root.type_name());
  static const char *const kFields[] = {"name",    "description", "extends",
                                        "compute", "store",       "accumulate",
                                        "default", "classes",     "overrides"};
  for (auto &[key, value] : root.items())
    if (!is_contained(kFields, StringRef(key)))
      return error(key, "unknown field; known: " +
                            join(std::begin(kFields), std::end(kFields), ", "));
  if (Error e = readExtends(root))
    return e;
  if (Error e = readString(root, "name", policy.name))
    return e;
  if (policy.name.empty())
    return error("name", "is missing");
  if (Error e = readString(root, "description", policy.description))
    return e;
  bool hasStore = root.contains("store");
  if (Error e = readType(root, "compute", policy.compute))
    return e;
  if (Error e = readType(root, "store", policy.store))
    return e;
  if (root.contains("compute") && !hasStore)
    policy.store = policy.compute;
  if (Error e = readType(root, "accumulate", policy.accumulate))
    return e;
  if (policy.accumulate != PolicyType::Float32 &&
      policy.accumulate != policy.compute)
    return error("accumulate", "is " + stringify(policy.accumulate) +
                                   " where compute is " +
                                   stringify(policy.compute) +
                                   "; it must be float32 or the compute type");
  std::string cls;
  if (Error e = readString(root, "default", cls))
    return e;
  if (root.contains("default")) {
    std::optional<PrecisionClass> parsed = parsePrecisionClass(cls);
    if (!parsed)
      return error(
          "default",
          "unknown class '" + cls +
              "'; use low, high, follow, clear, widest, high_result or ban");
    policy.defaultClass = *parsed;
  }
  if (auto it = root.find("classes"); it != root.end())
    if (Error e = readClasses(*it))
      return e;
  if (auto it = root.find("overrides"); it != root.end())
    if (Error e = readOverrides(*it))
      return e;
  return Error::success();
}

/// "FILE:LINE:COLUMN" of a byte of `text`.
static std::string placeOf(StringRef text, size_t position, StringRef where) {
  StringRef before = text.take_front(position);
  size_t line = before.count('\n') + 1;
  size_t lineStart = before.rfind('\n');
  size_t column =
      before.size() - (lineStart == StringRef::npos ? 0 : lineStart + 1);
  return (where + ":" + Twine(line) + ":" + Twine(std::max<size_t>(column, 1)))
      .str();
}

Expected<Policy> Policy::parse(StringRef json, StringRef where) {
  if (json.size() > kMaxPolicyBytes)
    return createStringError(inconvertibleErrorCode(),
                             where + ": is " + Twine(json.size()) +
                                 " bytes long, at most " +
                                 Twine(kMaxPolicyBytes) + " are read");
  SyntaxChecker checker;
  if (!Json::sax_parse(json.begin(), json.end(), &checker)) {
    if (checker.tooDeep)
      return createStringError(inconvertibleErrorCode(),
                               where + ": nests more than " +
                                   Twine(kMaxNesting) + " levels deep");
    if (!checker.duplicate.empty())
      return createStringError(inconvertibleErrorCode(),
                               where + ": " + checker.duplicate +
                                   ": is given twice");
    return createStringError(inconvertibleErrorCode(),
                             placeOf(json, checker.errorPosition, where) +
                                 ": is not JSON here");
  }
  Json root = Json::parse(json.begin(), json.end(), nullptr,
                          /*allow_exceptions=*/false);
  Policy policy;
  if (Error e = PolicyReader(policy, where, /*depth=*/0).read(root))
    return e;
  return policy;
}

Expected<Policy> Policy::load(StringRef nameOrPath) {
  for (const BuiltinPolicy &builtin : kBuiltins)
    if (nameOrPath == builtin.name)
      return parse(builtin.json, nameOrPath);
  if (!nameOrPath.ends_with(".json"))
    return createStringError(inconvertibleErrorCode(),
                             "unknown policy '" + nameOrPath +
                                 "'; known: " + join(builtinNames(), ", ") +
                                 ", or a file that ends in .json");
  auto buffer = MemoryBuffer::getFile(nameOrPath, /*IsText=*/true);
  if (!buffer)
    return createStringError(
        buffer.getError(),
        nameOrPath + ": cannot be read: " + buffer.getError().message());
  return parse((*buffer)->getBuffer(), nameOrPath);
}

std::vector<StringRef> Policy::builtinNames() {
  std::vector<StringRef> names;
  for (const BuiltinPolicy &builtin : kBuiltins)
    names.push_back(builtin.name);
  llvm::sort(names);
  return names;
}
