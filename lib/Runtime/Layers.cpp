//===- Layers.cpp - precision types of a model's layers -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Runtime/Layers.h"

#include "mpc/Runtime/Suggestions.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

using namespace mpc;

//===----------------------------------------------------------------------===//
// One layer
//===----------------------------------------------------------------------===//

static std::string firstType(const std::vector<TypeShare> &shares) {
  return shares.empty() ? std::string() : shares.front().type;
}

std::string LayerTypes::computeType() const { return firstType(compute); }
std::string LayerTypes::storageType() const { return firstType(storage); }
std::string LayerTypes::variableType() const {
  return variables.empty() ? std::string() : variables.front().type;
}

//===----------------------------------------------------------------------===//
// Several layers
//===----------------------------------------------------------------------===//

static void addShares(const std::vector<TypeShare> &from,
                      std::vector<TypeShare> &to) {
  for (const TypeShare &share : from) {
    auto same = std::find_if(to.begin(), to.end(), [&](const TypeShare &s) {
      return s.type == share.type;
    });
    if (same == to.end()) {
      to.push_back(share);
      continue;
    }
    // Saturate: files are untrusted.
    if (__builtin_add_overflow(same->count, share.count, &same->count))
      same->count = INT64_MAX;
    if (__builtin_add_overflow(same->weight, share.weight, &same->weight))
      same->weight = INT64_MAX;
  }
}

static void mostFirst(std::vector<TypeShare> &shares) {
  std::sort(shares.begin(), shares.end(),
            [](const TypeShare &a, const TypeShare &b) {
              return std::tie(b.weight, b.count, a.type) <
                     std::tie(a.weight, a.count, b.type);
            });
}

namespace {

/// Merges the types of several layers.
class Union {
public:
  void add(const LayerTypes &layer) {
    if (isFirst)
      sum.policy = layer.policy;
    else if (sum.policy != layer.policy)
      sum.policy.clear();
    isFirst = false;
    addShares(layer.compute, sum.compute);
    addShares(layer.gradient, sum.gradient);
    addShares(layer.storage, sum.storage);
    for (const VariableType &variable : layer.variables) {
      auto [place, isNew] = numbers.emplace(
          std::pair(variable.role, variable.name), sum.variables.size());
      if (isNew) {
        sum.variables.push_back(variable);
        continue;
      }
      std::vector<std::string> &stored = sum.variables[place->second].stored;
      for (const std::string &type : variable.stored)
        if (std::find(stored.begin(), stored.end(), type) == stored.end())
          stored.push_back(type);
    }
  }

  LayerTypes take(const std::string &path) {
    sum.path = path;
    mostFirst(sum.compute);
    mostFirst(sum.gradient);
    mostFirst(sum.storage);
    return std::move(sum);
  }

private:
  LayerTypes sum;
  std::map<std::pair<std::string, std::string>, size_t> numbers;
  bool isFirst = true;
};

} // namespace

/// Returns true if `path` names `outer` or one of its sublayers.
static bool isInside(std::string_view path, std::string_view outer) {
  if (outer.empty() || path == outer)
    return true;
  return path.size() > outer.size() && path.starts_with(outer) &&
         path[outer.size()] == '/';
}

/// Formats the paths of layers and their parents that are most similar to
/// `path`: "; did you mean 'a' or 'b'".
static std::string similarPaths(std::span<const LayerTypes> layers,
                                const std::string &path) {
  std::set<std::string_view> candidates;
  for (const LayerTypes &layer : layers)
    for (size_t end = 0; end != std::string::npos && !layer.path.empty();) {
      end = layer.path.find('/', end + 1);
      candidates.insert(std::string_view(layer.path).substr(0, end));
    }
  return didYouMean(path, candidates);
}

Result<LayerTypes> mpc::findLayer(std::span<const LayerTypes> layers,
                                  const std::string &path) {
  Union found;
  bool any = path.empty();
  for (const LayerTypes &layer : layers)
    if (isInside(layer.path, path)) {
      found.add(layer);
      any = true;
    }
  if (any)
    return found.take(path);
  std::string text = "does not exist";
  bool hasPaths =
      std::any_of(layers.begin(), layers.end(),
                  [](const LayerTypes &layer) { return !layer.path.empty(); });
  if (!hasPaths)
    text += ": the model has no layer paths";
  return Status(StatusCode::NotFound, "layer '" + path + "'",
                text + similarPaths(layers, path));
}
