//===- PolicyReader.cpp - parsing of policies -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parses JSON text to a Policy. The text is untrusted: size and nesting are
// bounded before parsing, and every field is checked.
//
//===----------------------------------------------------------------------===//

#include "PolicyReader.h"

#include "mpc/Runtime/Suggestions.h"
#include "mpc/Support/Files.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"

#include <limits>

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
      "$schema",  "name",        "description",   "extends",  "algorithm",
      "compute",  "store",       "variable",      "output",   "accumulate",
      "weights",  "cache",       "gradient_wire", "autocast", "default",
      "classes",  "overrides",   "layers",        "products", "values",
      "ranges",   "moments",     "model",         "tuning",   "system",
      "operands", "reproducible"};
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
                    : isComputeMode(*type) ? " is not a storage type"
                    : *type == PolicyType::Float64
                        ? " is allowed in overrides only, not in policies"
                        : " is not allowed here";
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
  if (Error e = readBool(root, "reproducible", policy.reproducible))
    return e;
  using Reader = Error (PolicyReader::*)(const Json &);
  const std::pair<const char *, Reader> kMaps[] = {
      {"weights", &PolicyReader::readWeights},
      {"cache", &PolicyReader::readCache},
      {"operands", &PolicyReader::readOperands},
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
                     ", which stores them like the imitated framework; use "
                     "float32, or the algorithm minimum_cut");
  // The numbers of blocks, with their scales, are exact in these types.
  if (policy.operands.isActive() && policy.compute != PolicyType::BFloat16 &&
      policy.compute != PolicyType::Float32)
    return error("operands", "are quantized where the compute type is " +
                                 stringify(policy.compute) +
                                 "; use bfloat16 or float32");
  if (policy.operands.isActive() &&
      policy.algorithm != PolicyAlgorithm::MinimumCut)
    return error("operands", "are quantized where the algorithm is " +
                                 stringify(policy.algorithm) +
                                 "; use minimum_cut");
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
                               Twine(kMaxPolicyBytes) + " are supported");
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
                                 ": is not valid JSON here");
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

/// Formats the built-in policies that `name`, a common short name or a
/// misspelled one, may mean: "; did you mean 'bfloat16'".
static std::string similarPolicies(StringRef name) {
  const std::string text = name.lower();
  StringRef type = text;
  bool isMixed = type.consume_front("mixed_");
  for (auto [shortNames, half] :
       {std::pair(StringRef("|bf16|"), "bfloat16"),
        std::pair(StringRef("|fp16|f16|half|"), "float16")})
    if (shortNames.contains(("|" + type + "|").str())) {
      std::string mixed = std::string("mixed_") + half;
      return isMixed ? didYouMean({mixed}) : didYouMean({half, mixed});
    }
  if (StringRef("|fp32|f32|float|single|").contains("|" + text + "|"))
    return didYouMean({"float32"});
  if (StringRef("|amp|mixed|autocast|").contains("|" + text + "|"))
    return didYouMean({"mixed_float16", "mixed_bfloat16"});
  return didYouMean(text, Policy::builtinNames());
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
            "' does not exist: a policy assigns types to float32 values, and "
            "float64 values keep their type; use float32 and override ops by "
            "--set op:KIND=float64");
  return createStringError(inconvertibleErrorCode(),
                           "unknown policy '" + name + "'" +
                               similarPolicies(name) +
                               "; known: " + join(builtinNames(), ", ") +
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

//===----------------------------------------------------------------------===//
// Lists and maps of a policy
//
// Fields that are lists and maps: classes, the imitated system's lists,
// overrides and layers. A policy that extends another one edits its lists;
// within one file no two entries may contradict each other.
//===----------------------------------------------------------------------===//

Error PolicyReader::readStrings(const Json &value, const Twine &path,
                                std::vector<std::string> &out) {
  std::string at = path.str();
  if (!value.is_array())
    return error(at,
                 Twine("expects a list of op kinds, got ") + value.type_name());
  for (const Json &entry : value) {
    if (!entry.is_string())
      return error(at, Twine("expects strings, got ") + entry.type_name());
    std::string text = entry.get<std::string>();
    if (text.empty())
      return error(at, "holds an empty name");
    if (is_contained(out, text))
      return error(at, "'" + text + "' is given twice");
    out.push_back(std::move(text));
  }
  return Error::success();
}

Error PolicyReader::readListEdit(const Json &value, const std::string &path,
                                 ListEdit &out) {
  if (!value.is_object()) {
    out.isPlain = true;
    return readStrings(value, path, out.set);
  }
  if (Error e = unknownField(value, path, {"add", "remove"}))
    return e;
  if (auto it = value.find("add"); it != value.end())
    if (Error e = readStrings(*it, path + ".add", out.add))
      return e;
  if (auto it = value.find("remove"); it != value.end())
    if (Error e = readStrings(*it, path + ".remove", out.remove))
      return e;
  for (const std::string &name : out.add)
    if (is_contained(out.remove, name))
      return error(path, "'" + name + "' is both added and removed");
  return Error::success();
}

Error PolicyReader::readClasses(const Json &value) {
  if (!value.is_object())
    return error("classes",
                 Twine("expects an object of lists, got ") + value.type_name());
  // A file that extends another one moves kinds between lists; within one file
  // a kind is in one list.
  const std::map<std::string, PrecisionClass> base = policy.classes;
  std::map<std::string, std::string> seen;
  std::set<std::string> removed;
  for (auto &[className, kinds] : value.items()) {
    std::string path = "classes." + className;
    std::optional<PrecisionClass> cls = parsePrecisionClass(className);
    if (!cls)
      return error(path, "unknown class; use low, high, follow, clear, widest, "
                         "high_result or ban");
    ListEdit edit;
    if (Error e = readListEdit(kinds, path, edit))
      return e;
    for (const std::string &kind : edit.isPlain ? edit.set : edit.add) {
      auto [it, inserted] = seen.try_emplace(kind, className);
      if (!inserted)
        return error(path, "kind '" + kind + "' is already in list '" +
                               it->second + "'");
    }
    for (const std::string &kind : edit.remove) {
      auto it = base.find(kind);
      if (it == base.end())
        return error(path, "removes kind '" + kind + "', which is in no list");
      if (it->second != *cls)
        return error(path, "removes kind '" + kind + "', which is in list '" +
                               stringify(it->second) + "'");
      removed.insert(kind);
    }
  }
  for (const std::string &kind : removed)
    policy.classes.erase(kind);
  for (auto &[kind, className] : seen)
    policy.classes[kind] = *parsePrecisionClass(className);
  return Error::success();
}

Error PolicyReader::readSystem(const Json &value) {
  if (!value.is_object())
    return error("system", Twine("expects an object with lists and kinds, "
                                 "got ") +
                               value.type_name());
  if (policy.algorithm != PolicyAlgorithm::TorchAutocast &&
      policy.algorithm != PolicyAlgorithm::TensorFlowPainting)
    return error("system", "algorithm " + stringify(policy.algorithm) +
                               " imitates no framework with op lists; use "
                               "torch_autocast or tensorflow_painting");
  if (Error e = unknownField(value, "system", {"lists", "kinds"}))
    return e;
  if (auto it = value.find("lists"); it != value.end())
    if (Error e = readSystemLists(*it))
      return e;
  if (auto it = value.find("kinds"); it != value.end())
    if (Error e = readSystemKinds(*it))
      return e;
  return Error::success();
}

Error PolicyReader::readSystemLists(const Json &value) {
  if (!value.is_object())
    return error("system.lists",
                 Twine("expects an object of lists, got ") + value.type_name());
  for (auto &[listName, ops] : value.items()) {
    std::string path = "system.lists." + listName;
    if (!parsePrecisionClass(listName))
      return error(path,
                   "unknown list; use the system's name of a list or low, "
                   "high, follow, clear, widest, high_result or ban");
    ListEdit edit;
    if (Error e = readListEdit(ops, path, edit))
      return e;
    std::vector<std::string> &list = policy.systemLists[listName];
    if (edit.isPlain)
      list = std::move(edit.set);
    for (const std::string &op : edit.remove) {
      auto it = llvm::find(list, op);
      if (it == list.end())
        return error(path, "removes op '" + op + "', which is not in it");
      list.erase(it);
    }
    for (std::string &op : edit.add) {
      if (is_contained(list, op))
        return error(path, "adds op '" + op + "', which is in it already");
      list.push_back(std::move(op));
    }
  }
  // Lists of one system are disjoint, whichever file defines them.
  policy.systemClasses.clear();
  std::map<std::string, StringRef> seen;
  for (auto &[listName, ops] : policy.systemLists)
    for (const std::string &op : ops) {
      auto [it, inserted] = seen.try_emplace(op, listName);
      if (!inserted)
        return error("system.lists." + listName,
                     "op '" + op + "' is already in list '" + it->second + "'");
      policy.systemClasses[op] = *parsePrecisionClass(listName);
    }
  return Error::success();
}

Error PolicyReader::readSystemKinds(const Json &value) {
  if (!value.is_object())
    return error("system.kinds", Twine("expects an object of KIND: OP, got ") +
                                     value.type_name());
  for (auto &[kind, op] : value.items()) {
    if (!op.is_string())
      return error("system.kinds." + kind,
                   Twine("expects an op's name, got ") + op.type_name());
    // An empty name removes the extended policy's entry.
    if (op.get<std::string>().empty())
      policy.systemKinds.erase(kind);
    else
      policy.systemKinds[kind] = op.get<std::string>();
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

Error PolicyReader::readLayers(const Json &value) {
  if (!value.is_object())
    return error("layers", Twine("expects an object of PATH: POLICY, got ") +
                               value.type_name());
  for (auto &[pattern, entry] : value.items()) {
    std::string path = "layers." + pattern, name;
    bool autocast = true;
    if (entry.is_string()) {
      name = entry.get<std::string>();
    } else if (entry.is_object()) {
      if (Error e = unknownField(entry, path, {"policy", "autocast"}))
        return e;
      auto policyName = entry.find("policy");
      if (policyName == entry.end())
        return error(path, "lacks the field 'policy'");
      if (!policyName->is_string())
        return error(path + ".policy", Twine("expects a policy's name, got ") +
                                           policyName->type_name());
      name = policyName->get<std::string>();
      if (auto it = entry.find("autocast"); it != entry.end()) {
        if (!it->is_boolean())
          return error(path + ".autocast",
                       Twine("expects true or false, got ") + it->type_name());
        if (policy.algorithm != PolicyAlgorithm::KerasLayers)
          return error(path + ".autocast", "needs the algorithm keras_layers");
        autocast = it->get<bool>();
      }
    } else {
      return error(path,
                   Twine("expects a policy's name, got ") + entry.type_name());
    }
    if (Error e = policy.addLayerPolicy(pattern, name, autocast))
      return error(path, toString(std::move(e)));
  }
  return Error::success();
}

//===----------------------------------------------------------------------===//
// Measured data in a policy
//
// Types of single products and values, ranges over samples, and the model that
// they belong to: written into a policy by `mpc tune`, and the file of `mpc
// calibrate`.
//===----------------------------------------------------------------------===//

Error PolicyReader::readProducts(const Json &value) {
  if (!value.is_object())
    return error("products", Twine("expects an object of NAME: TYPE, got ") +
                                 value.type_name());
  if (policy.algorithm != PolicyAlgorithm::MinimumCut)
    return error("products", "needs the algorithm minimum_cut");
  constexpr PolicyType kKnown[] = {PolicyType::Float32, PolicyType::Float16,
                                   PolicyType::BFloat16,
                                   PolicyType::TensorFloat32};
  for (auto &[name, text] : value.items()) {
    std::optional<PolicyType> type =
        text.is_string() ? parsePolicyType(text.get<std::string>())
                         : std::nullopt;
    if (!type || !is_contained(kKnown, *type))
      return error("products." + name,
                   "expects a type's name; use " + joinTypes(kKnown));
    policy.products[name] = *type;
  }
  return Error::success();
}

Error PolicyReader::readValues(const Json &value) {
  if (!value.is_object())
    return error("values", Twine("expects an object of NAME: float32 or "
                                 "narrow, got ") +
                               value.type_name());
  if (policy.algorithm != PolicyAlgorithm::MinimumCut)
    return error("values", "needs the algorithm minimum_cut");
  for (auto &[name, stored] : value.items()) {
    if (stored != "float32" && stored != "narrow")
      return error("values." + name, "expects \"float32\" or \"narrow\"");
    policy.values[name] = stored == "narrow";
  }
  return Error::success();
}

/// Reads one entry of ranges; false if it is malformed. Ignores fields that
/// only reports use.
static bool readRange(const Json &entry, MeasuredRange &range) {
  if (!entry.is_object())
    return false;
  auto largest = entry.find("largest");
  if (largest == entry.end() || !largest->is_number())
    return false;
  range.largest = largest->get<double>();
  if (auto sample = entry.find("largest_sample"); sample != entry.end()) {
    if (!sample->is_string())
      return false;
    range.sample = sample->get<std::string>();
  }
  return range.largest >= 0;
}

void Policy::addRange(StringRef name, MeasuredRange range) {
  auto [entry, isNew] = ranges.try_emplace(name.str(), range);
  if (!isNew && range.largest > entry->second.largest)
    entry->second = std::move(range);
}

Error PolicyReader::readRanges(const Json &value) {
  if (!value.is_object())
    return error("ranges", Twine("expects an object of NAME: RANGE, got ") +
                               value.type_name());
  for (auto &[name, entry] : value.items()) {
    MeasuredRange range;
    if (!readRange(entry, range))
      return error("ranges." + name,
                   "expects an object with the number 'largest' and the file "
                   "'largest_sample'");
    policy.addRange(name, std::move(range));
  }
  return Error::success();
}

Error PolicyReader::readModel(const Json &value) {
  if (!value.is_string() || value.get<std::string>().empty())
    return error("model", "expects the hash of a model");
  policy.model = value.get<std::string>();
  return Error::success();
}

Error PolicyReader::readTuning(const Json &value) {
  if (!value.is_object())
    return error("tuning",
                 Twine("expects an object, got ") + value.type_name());
  return Error::success();
}

const MeasuredRange *Policy::rangeOf(ArrayRef<StringRef> names) const {
  const MeasuredRange *found = nullptr;
  for (StringRef name : names)
    if (auto it = ranges.find(name.str());
        it != ranges.end() && (!found || it->second.largest > found->largest))
      found = &it->second;
  return found;
}

/// Orders types by width; smaller is wider.
static int narrowness(PolicyType type) {
  switch (type) {
  case PolicyType::TensorFloat32:
    return 1;
  case PolicyType::Float16:
  case PolicyType::BFloat16:
    return 2;
  default:
    return 0;
  }
}

/// Calls `visit` with the entries of `names`: those for the backward pass only,
/// if requested and present, else the others.
template <typename Entry>
static void forEntries(const std::map<std::string, Entry> &entries,
                       ArrayRef<StringRef> names, bool isBackward,
                       llvm::function_ref<void(const Entry &)> visit) {
  bool isFound = false;
  for (StringRef prefix : {StringRef(Policy::kBackward), StringRef()}) {
    if (isFound || (!isBackward && !prefix.empty()))
      continue;
    for (StringRef name : names)
      if (auto it = entries.find((prefix + name).str()); it != entries.end()) {
        visit(it->second);
        isFound = true;
      }
  }
}

std::optional<PolicyType> Policy::productOf(ArrayRef<StringRef> names,
                                            bool isBackward) const {
  std::optional<PolicyType> found;
  forEntries<PolicyType>(products, names, isBackward,
                         [&](const PolicyType &type) {
                           if (!found || narrowness(type) < narrowness(*found))
                             found = type;
                         });
  return found;
}

std::optional<bool> Policy::storesNarrow(ArrayRef<StringRef> names,
                                         bool isBackward) const {
  std::optional<bool> narrow;
  forEntries<bool>(values, names, isBackward, [&](const bool &isNarrow) {
    narrow = narrow.value_or(true) && isNarrow;
  });
  return narrow;
}

bool Policy::hasBackwardEntries() const {
  auto speaks = [](const auto &entry) {
    return StringRef(entry.first).starts_with(kBackward);
  };
  return llvm::any_of(products, speaks) || llvm::any_of(values, speaks) ||
         llvm::any_of(overrides, [](const PolicyOverride &entry) {
           return entry.isAboutBackward;
         });
}

//===----------------------------------------------------------------------===//
// Weight and cache formats of a policy
//
// The storage of all weights, or of single ops' weights: a type's name, or an
// object with the type's options; mean squares of activations; the type of KV
// caches.
//===----------------------------------------------------------------------===//

static constexpr StringLiteral kKnownTypes =
    "float32, float16, bfloat16, int16, int8, int4 or float8_e4m3fn";
static constexpr StringLiteral kKnownCaches =
    "float32, float16, bfloat16, int8 or float8_e4m3fn";

bool Policy::quantizesOperands() const {
  return operands.isActive() || any_of(layers, [](const LayerPolicy &layer) {
           return layer.policy->getOperands().isActive();
         });
}

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
                                     : " is not a storage type of weights";
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
    return error("cache", (isType ? "KV caches cannot be stored in type '"
                                  : "unknown type '") +
                              name + "'; use " + kKnownCaches);
  }
  policy.cache = type;
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

//===----------------------------------------------------------------------===//
// Quantized operands
//===----------------------------------------------------------------------===//

/// Options of an operand format, and the scalings that have each.
static bool hasOption(OperandScaling scaling, StringRef option) {
  using enum OperandScaling;
  static const std::map<StringRef, std::vector<OperandScaling>> kOptions = {
      {"forward", {Delayed, Current, Row, Calibrated, Block, Mx}},
      {"backward", {Delayed, Current, Row, Block, Mx}},
      {"margin", {Delayed}},
      {"history", {Delayed}},
      {"amax", {Delayed}},
      {"powers_of_two", {Current}},
      {"scale_rounding", {Mx}},
      {"weight_squares", {Block, NvFp4}},
      {"hadamard", {NvFp4}},
      {"stochastic", {Delayed, Current, Block, Mx, NvFp4}},
      {"kinds", {Delayed, Current, Row, Calibrated, Block, Mx, NvFp4}}};
  auto entry = kOptions.find(option);
  return entry == kOptions.end() || is_contained(entry->second, scaling);
}

/// Returns true if operands of `scaling` can have the type.
static bool canScale(OperandScaling scaling, OperandType type) {
  bool isByte = type == OperandType::E4M3 || type == OperandType::E5M2;
  switch (scaling) {
  case OperandScaling::None:
    return true;
  case OperandScaling::Delayed:
  case OperandScaling::Current:
  case OperandScaling::Block:
    return isByte;
  case OperandScaling::Row:
  case OperandScaling::Calibrated:
    return isByte || type == OperandType::Int8;
  case OperandScaling::Mx:
    return type != OperandType::Int8;
  case OperandScaling::NvFp4:
    return type == OperandType::E2M1;
  }
  llvm_unreachable("every scaling has types");
}

/// Returns the published recipe of a scaling.
static OperandFormat recipeOf(OperandScaling scaling) {
  OperandFormat format;
  format.scaling = scaling;
  format.kinds = {"matmul"};
  switch (scaling) {
  case OperandScaling::Delayed:
  case OperandScaling::Current:
    format.backward = OperandType::E5M2;
    format.kinds.emplace_back("conv");
    break;
  case OperandScaling::NvFp4:
    format.forward = format.backward = OperandType::E2M1;
    format.stochastic = true;
    format.keepLast = 0.16;
    break;
  case OperandScaling::Calibrated:
    format.forward = format.backward = OperandType::Int8;
    break;
  default:
    break;
  }
  return format;
}

Error PolicyReader::readOperandName(const Json &fields, const char *option,
                                    StringRef known,
                                    function_ref<bool(StringRef)> parse) {
  auto entry = fields.find(option);
  if (entry == fields.end() ||
      (entry->is_string() && parse(entry->get<std::string>())))
    return Error::success();
  return error(Twine("operands.") + option,
               "expects " + known + ", got " + entry->dump());
}

Error PolicyReader::readOperandNumber(const Json &fields, const char *option,
                                      int64_t least, int64_t most,
                                      int64_t &out) {
  auto entry = fields.find(option);
  if (entry == fields.end())
    return Error::success();
  if (!entry->is_number_integer() || entry->get<int64_t>() < least ||
      entry->get<int64_t>() > most)
    return error(Twine("operands.") + option,
                 "expects an integer from " + Twine(least) + " to " +
                     Twine(most) + ", got " + entry->dump());
  out = entry->get<int64_t>();
  return Error::success();
}

Error PolicyReader::readOperandTypes(const Json &fields,
                                     OperandFormat &format) {
  OperandType own = format.forward;
  for (auto [option, target] : {std::pair("forward", &format.forward),
                                std::pair("backward", &format.backward)})
    if (Error e = readOperandName(
            fields, option, "a type of this scaling, such as float8_e4m3fn",
            [&, target = target](StringRef name) {
              std::optional<OperandType> type = parseOperandType(name);
              if (!type || !canScale(format.scaling, *type))
                return false;
              *target = *type;
              return true;
            }))
      return e;
  // Without a type of their own, gradients of a recipe with one type have it.
  if (fields.contains("forward") && !fields.contains("backward") &&
      format.backward == own)
    format.backward = format.forward;
  return Error::success();
}

Error PolicyReader::readOperandKinds(const Json &fields,
                                     OperandFormat &format) {
  auto entry = fields.find("kinds");
  if (entry == fields.end())
    return Error::success();
  format.kinds.clear();
  if (Error e = readStrings(*entry, "operands.kinds", format.kinds))
    return e;
  for (const std::string &kind : format.kinds)
    if (kind != "matmul" && (kind != "conv" || format.isBlocked() ||
                             format.scaling == OperandScaling::Row))
      return error("operands.kinds", "'" + kind +
                                         "' is not quantized by the scaling " +
                                         stringify(format.scaling));
  return Error::success();
}

/// Reads `operands`: the name of a scaling, or an object with its options. The
/// object of a policy that extends another one replaces that one's.
Error PolicyReader::readOperands(const Json &value) {
  Json fields = value;
  if (value.is_string())
    fields = Json::object({{"scaling", value}});
  if (!fields.is_object())
    return error("operands", Twine("expects a scaling or an object, got ") +
                                 value.type_name());
  if (Error e = unknownField(fields, "operands",
                             {"scaling", "forward", "backward", "margin",
                              "history", "amax", "powers_of_two",
                              "scale_rounding", "weight_squares", "hadamard",
                              "stochastic", "keep_last", "kinds"}))
    return e;
  std::optional<OperandScaling> scaling;
  if (fields.contains("scaling") && fields["scaling"].is_string())
    scaling = parseOperandScaling(fields["scaling"].get<std::string>());
  if (!scaling)
    return error("operands.scaling",
                 "expects none, delayed, current, row, calibrated, block, mx "
                 "or nvfp4, got " +
                     (fields.contains("scaling")
                          ? fields["scaling"].dump()
                          : std::string("nothing; 'operands' replaces those of "
                                        "the extended policy")));
  OperandFormat format = recipeOf(*scaling);
  for (auto &[option, entry] : fields.items())
    if (!hasOption(*scaling, option))
      return error("operands." + option,
                   "is no option of the scaling " + stringify(*scaling));

  if (Error e = readOperandTypes(fields, format))
    return e;
  if (Error e = readOperandNumber(fields, "margin", -16, 16, format.margin))
    return e;
  if (Error e = readOperandNumber(fields, "history", 1, 65536, format.history))
    return e;
  if (Error e = readOperandName(fields, "amax", "max or most_recent",
                                [&](StringRef name) {
                                  format.mostRecent = name == "most_recent";
                                  return format.mostRecent || name == "max";
                                }))
    return e;
  if (Error e =
          readOperandName(fields, "scale_rounding",
                          "floor, rceil, ceil or even", [&](StringRef name) {
                            auto rounding = parseScaleRounding(name);
                            format.rounding =
                                rounding.value_or(format.rounding);
                            return rounding.has_value();
                          }))
    return e;
  for (auto [option, target] :
       {std::pair("powers_of_two", &format.powersOfTwo),
        std::pair("weight_squares", &format.weightSquares),
        std::pair("hadamard", &format.hadamard),
        std::pair("stochastic", &format.stochastic)})
    if (auto entry = fields.find(option); entry != fields.end()) {
      if (!entry->is_boolean())
        return error(Twine("operands.") + option,
                     Twine("expects true or false, got ") + entry->dump());
      *target = entry->get<bool>();
    }
  if (auto entry = fields.find("keep_last"); entry != fields.end()) {
    if (!entry->is_number() || entry->get<double>() < 0 ||
        entry->get<double>() >= 1)
      return error("operands.keep_last",
                   "expects a share from 0 to below 1, got " + entry->dump());
    format.keepLast = entry->get<double>();
  }
  if (Error e = readOperandKinds(fields, format))
    return e;
  policy.operands = std::move(format);
  return Error::success();
}
