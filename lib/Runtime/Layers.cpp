//===- Layers.cpp - precision types of a model's layers -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Runtime/Layers.h"

#include <algorithm>
#include <map>
#include <numeric>
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

//===----------------------------------------------------------------------===//
// Suggestions for unknown names
//===----------------------------------------------------------------------===//

/// Levenshtein distance of two names; `limit` + 1 if it exceeds `limit`.
static size_t distance(std::string_view a, std::string_view b, size_t limit) {
  if (std::max(a.size(), b.size()) - std::min(a.size(), b.size()) > limit)
    return limit + 1;
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t(0));
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0], least = row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      size_t above = row[j + 1];
      row[j + 1] = std::min({above + 1, row[j] + 1, diagonal + (a[i] != b[j])});
      diagonal = above;
      least = std::min(least, row[j + 1]);
    }
    if (least > limit)
      return limit + 1;
  }
  return std::min(row.back(), limit + 1);
}

/// Returns the paths of layers and their parents that are most similar to
/// `path`.
static std::vector<std::string> nearestPaths(std::span<const LayerTypes> layers,
                                             const std::string &path) {
  constexpr size_t kMostNames = 3;
  std::set<std::string_view> candidates;
  for (const LayerTypes &layer : layers)
    for (size_t end = 0; end != std::string::npos && !layer.path.empty();) {
      end = layer.path.find('/', end + 1);
      candidates.insert(std::string_view(layer.path).substr(0, end));
    }
  size_t limit = std::max<size_t>(3, path.size() / 3);
  std::vector<std::pair<size_t, std::string_view>> near;
  for (std::string_view candidate : candidates) {
    if (candidate.empty())
      continue;
    // A suffix of path components is a likely abbreviation.
    bool isEnd = candidate.size() > path.size() && candidate.ends_with(path) &&
                 candidate[candidate.size() - path.size() - 1] == '/';
    size_t away = isEnd ? 0 : distance(path, candidate, limit);
    if (away <= limit)
      near.emplace_back(away, candidate);
  }
  std::sort(near.begin(), near.end());
  std::vector<std::string> names;
  for (const auto &[away, name] : near)
    if (names.size() < kMostNames && away <= near.front().first + 1)
      names.emplace_back(name);
  return names;
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
  std::vector<std::string> names = nearestPaths(layers, path);
  for (size_t i = 0; i < names.size(); ++i)
    text += (i == 0                  ? "; did you mean '"
             : i + 1 == names.size() ? " or '"
                                     : ", '") +
            names[i] + "'";
  return Status(StatusCode::NotFound, "layer '" + path + "'", text);
}
