//===- PolicyReader.cpp - parsing of policies -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parses JSON text to a Policy. The text is untrusted: size and nesting are
// bounded before parsing, and every field is checked.
//
//===----------------------------------------------------------------------===//

#include "PolicyReader.h"

#include "mpc/Support/Files.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"

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

constexpr size_t kMaxPolicyBytes = 1 << 24;
constexpr int kMaxNesting = 16;

/// Records the position of a syntax error; builds nothing.
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

/// Storage types of values between kernels, parameters and outputs.
static constexpr PolicyType kStorable[] = {
    PolicyType::Float32, PolicyType::Float16, PolicyType::BFloat16};
/// Compute types of a policy.
static constexpr PolicyType kComputable[] = {
    PolicyType::Float32,       PolicyType::Float16,    PolicyType::BFloat16,
    PolicyType::TensorFloat32, PolicyType::BFloat16x2, PolicyType::BFloat16x3};

std::string mpc::joinTypes(ArrayRef<PolicyType> types) {
  std::string text;
  for (auto [index, type] : enumerate(types)) {
    if (index)
      text += index + 1 == types.size() ? " or " : ", ";
    text += stringify(type);
  }
  return text;
}

ArrayRef<StringRef> Policy::fieldNames() {
  static const StringRef names[] = {
      "$schema", "name",      "description",   "extends",  "algorithm",
      "compute", "store",     "variable",      "output",   "accumulate",
      "weights", "cache",     "gradient_wire", "autocast", "default",
      "classes", "overrides", "layers",        "products", "values",
      "ranges",  "moments",   "model",         "tuning",   "system"};
  return names;
}

Error PolicyReader::error(const Twine &path, const Twine &message) {
  return createStringError(inconvertibleErrorCode(),
                           where + ": " + path + ": " + message);
}

Error PolicyReader::unknownField(const Json &object, StringRef path,
                                 ArrayRef<StringRef> known) {
  for (auto &[key, value] : object.items())
    if (!is_contained(known, StringRef(key)))
      return error(path.empty() ? Twine(key) : path + "." + key,
                   "unknown field; known: " + join(known, ", "));
  return Error::success();
}

//===----------------------------------------------------------------------===//
// Single fields
//===----------------------------------------------------------------------===//

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

Error PolicyReader::readBool(const Json &root, const char *key, bool &out) {
  auto it = root.find(key);
  if (it == root.end())
    return Error::success();
  if (!it->is_boolean())
    return error(key, Twine("expects true or false, got ") + it->type_name());
  out = it->get<bool>();
  return Error::success();
}

Error PolicyReader::readType(const Json &root, const char *key,
                             ArrayRef<PolicyType> allowed, PolicyType &out) {
  std::string text;
  if (Error e = readString(root, key, text))
    return e;
  if (!root.contains(key))
    return Error::success();
  std::optional<PolicyType> type = parsePolicyType(text);
  if (!type)
    return error(key, "unknown type '" + text + "'; use " + joinTypes(allowed));
  if (!is_contained(allowed, *type)) {
    StringRef why = isFloat8(*type)        ? " has no kernels yet"
                    : isComputeMode(*type) ? " is no type in memory"
                    : *type == PolicyType::Float64
                        ? " is an override's type, not a policy's"
                        : " cannot stand here";
    return error(key, "type " + stringify(*type) + why + "; use " +
                          joinTypes(allowed));
  }
  out = *type;
  return Error::success();
}

Error PolicyReader::readTypes(const Json &root) {
  if (Error e = readType(root, "compute", kComputable, policy.compute))
    return e;
  // Values are stored in the compute type, or in float32 for a compute mode.
  if (root.contains("compute"))
    policy.store =
        isComputeMode(policy.compute) ? PolicyType::Float32 : policy.compute;
  if (Error e = readType(root, "store", kStorable, policy.store))
    return e;
  if (Error e = readType(root, "variable", kStorable, policy.variable))
    return e;
  if (Error e = readType(root, "output", kStorable, policy.output))
    return e;
  if (Error e = readType(root, "accumulate", kStorable, policy.accumulate))
    return e;
  if (policy.accumulate != PolicyType::Float32 &&
      policy.accumulate != policy.compute)
    return error("accumulate", "is " + stringify(policy.accumulate) +
                                   " where compute is " +
                                   stringify(policy.compute) +
                                   "; it must be float32 or the compute type");
  return Error::success();
}

Error PolicyReader::readDefault(const Json &root) {
  std::string text;
  if (Error e = readString(root, "default", text))
    return e;
  if (!root.contains("default"))
    return Error::success();
  std::optional<PrecisionClass> cls = parsePrecisionClass(text);
  if (!cls)
    return error(
        "default",
        "unknown class '" + text +
            "'; use low, high, follow, clear, widest, high_result or ban");
  policy.defaultClass = *cls;
  return Error::success();
}

Error PolicyReader::readAlgorithm(const Json &root) {
  std::string text;
  if (Error e = readString(root, "algorithm", text))
    return e;
  if (!root.contains("algorithm"))
    return Error::success();
  std::optional<PolicyAlgorithm> algorithm = parsePolicyAlgorithm(text);
  if (!algorithm)
    return error("algorithm", "unknown algorithm '" + text +
                                  "'; use minimum_cut, torch_autocast, "
                                  "tensorflow_painting or keras_layers");
  bool changes = root.contains("extends") && *algorithm != policy.algorithm;
  if (changes && (!policy.layers.empty() || !policy.systemLists.empty()))
    return error("algorithm", "is " + stringify(*algorithm) +
                                  " where the policy it extends has layers or "
                                  "system lists of " +
                                  stringify(policy.algorithm));
  policy.algorithm = *algorithm;
  return Error::success();
}

Error PolicyReader::readExtends(const Json &root) {
  std::string base;
  if (Error e = readString(root, "extends", base))
    return e;
  if (!root.contains("extends"))
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

Error PolicyReader::read(const Json &root) {
  if (!root.is_object())
    return error("policy", Twine("expects an object, got ") + root.type_name());
  if (Error e = unknownField(root, "", Policy::fieldNames()))
    return e;
  std::string schema;
  if (Error e = readString(root, "$schema", schema))
    return e;
  if (Error e = readExtends(root))
    return e;
  if (Error e = readString(root, "name", policy.name))
    return e;
  if (policy.name.empty())
    return error("name", root.contains("name") ? "is empty" : "is missing");
  if (Error e = readString(root, "description", policy.description))
    return e;
  if (Error e = readAlgorithm(root))
    return e;
  if (Error e = readTypes(root))
    return e;
  if (root.contains("gradient_wire")) {
    PolicyType wire = PolicyType::Float32;
    if (Error e = readType(root, "gradient_wire", kStorable, wire))
      return e;
    policy.gradientWire = wire;
  }
  if (Error e = readBool(root, "autocast", policy.autocast))
    return e;
  if (root.contains("autocast") &&
      policy.algorithm != PolicyAlgorithm::KerasLayers)
    return error("autocast", "needs the algorithm keras_layers");
  if (Error e = readDefault(root))
    return e;
  using Reader = Error (PolicyReader::*)(const Json &);
  const std::pair<const char *, Reader> kMaps[] = {
      {"weights", &PolicyReader::readWeights},
      {"cache", &PolicyReader::readCache},
      {"moments", &PolicyReader::readMoments},
      {"classes", &PolicyReader::readClasses},
      {"system", &PolicyReader::readSystem},
      {"overrides", &PolicyReader::readOverrides},
      {"layers", &PolicyReader::readLayers},
      {"products", &PolicyReader::readProducts},
      {"values", &PolicyReader::readValues},
      {"ranges", &PolicyReader::readRanges},
      {"model", &PolicyReader::readModel},
      {"tuning", &PolicyReader::readTuning}};
  for (auto [key, reader] : kMaps)
    if (auto it = root.find(key); it != root.end())
      if (Error e = (this->*reader)(*it))
        return e;
  WeightType narrow = policy.weights.type;
  for (auto &[name, format] : policy.namedWeights)
    if (narrow == WeightType::Float32)
      narrow = format.type;
  if (narrow != WeightType::Float32 &&
      policy.algorithm != PolicyAlgorithm::MinimumCut)
    return error("weights",
                 "are " + stringify(narrow) + " where the algorithm is " +
                     stringify(policy.algorithm) +
                     ", which stores them as the imitated system does; use "
                     "float32, or the algorithm minimum_cut");
  return Error::success();
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

/// Returns "FILE:LINE:COLUMN" of a byte of `text`.
static std::string placeOf(StringRef text, size_t position, StringRef where) {
  StringRef before = text.take_front(position);
  size_t line = before.count('\n') + 1;
  size_t lineStart = before.rfind('\n');
  size_t column =
      before.size() - (lineStart == StringRef::npos ? 0 : lineStart + 1);
  return (where + ":" + Twine(line) + ":" + Twine(std::max<size_t>(column, 1)))
      .str();
}

static Error tooLarge(StringRef where, uint64_t bytes) {
  return createStringError(inconvertibleErrorCode(),
                           where + ": is " + Twine(bytes) +
                               " bytes long, at most " +
                               Twine(kMaxPolicyBytes) + " are read");
}

Expected<Policy> Policy::parse(StringRef json, StringRef where) {
  if (json.size() > kMaxPolicyBytes)
    return tooLarge(where, json.size());
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
  if (where == policy.name || !is_contained(builtinNames(), policy.name))
    return policy;
  // The meaning of built-in names is fixed, for decisions and checks as well.
  if (root.contains("name"))
    return createStringError(inconvertibleErrorCode(),
                             where + ": name: '" + policy.name +
                                 "' is a built-in policy; choose another");
  policy.name = sys::path::filename(where).str();
  return policy;
}

Expected<Policy> Policy::loadBuiltin(StringRef name) {
  for (const BuiltinPolicy &builtin : kBuiltins)
    if (name == builtin.name)
      return parse(builtin.json, name);
  // Keras has it, and it is the only type wider than those a policy changes.
  if (name == "float64" || name == "double")
    return createStringError(
        inconvertibleErrorCode(),
        "policy '" + name +
            "' does not exist: a policy types float32 values, and float64 ones "
            "of the model keep their type; use float32 and force single ops by "
            "--set op:KIND=float64");
  return createStringError(inconvertibleErrorCode(),
                           "unknown policy '" + name +
                               "'; known: " + join(builtinNames(), ", ") +
                               ", or a file that ends in .json");
}

Expected<Policy> Policy::load(StringRef nameOrPath) {
  if (!nameOrPath.ends_with(".json"))
    return loadBuiltin(nameOrPath);
  // A regular file: a pipe or a device might have no end.
  Result<InputFile> file = InputFile::open(nameOrPath.str());
  if (file.ok() && file->size() > kMaxPolicyBytes)
    return tooLarge(nameOrPath, file->size());
  Status status = file.status();
  std::string text(file.ok() ? file->size() : 0, '\0');
  if (status.ok())
    status = file->read(text.data(), text.size());
  if (!status.ok())
    return createStringError(inconvertibleErrorCode(), status.toString());
  return parse(text, nameOrPath);
}

std::vector<StringRef> Policy::builtinNames() {
  std::vector<StringRef> names;
  for (const BuiltinPolicy &builtin : kBuiltins)
    names.push_back(builtin.name);
  llvm::sort(names);
  return names;
}
