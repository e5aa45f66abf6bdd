//===- PolicyReaderRanges.cpp - measured data in a policy -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Types of single products and values, ranges over samples, and the model that
// they belong to: written into a policy by `mpc tune`, and the file of `mpc
// calibrate`.
//
//===----------------------------------------------------------------------===//

#include "PolicyReader.h"

using namespace llvm;
using namespace mpc;
using Json = nlohmann::json;

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
