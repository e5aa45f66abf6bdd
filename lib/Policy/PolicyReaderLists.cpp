//===- PolicyReaderLists.cpp - lists and maps of a policy -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Fields that are lists and maps: classes, the imitated system's lists,
// overrides and layers. A policy that extends another one edits its lists;
// within one file no two entries may contradict each other.
//
//===----------------------------------------------------------------------===//

#include "PolicyReader.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;
using namespace mpc;

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
                               " imitates no system with op lists; use "
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
