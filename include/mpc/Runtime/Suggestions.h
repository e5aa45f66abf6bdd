//===- Suggestions.h - similar names for misspelled ones --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Inline and in the lowest library, so that all others share it.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_RUNTIME_SUGGESTIONS_H
#define MPC_RUNTIME_SUGGESTIONS_H

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace mpc {

/// Levenshtein distance of two names; `limit` + 1 if it exceeds `limit`.
inline size_t editDistance(std::string_view a, std::string_view b,
                           size_t limit) {
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

/// Returns the candidates that are most similar to `name`, at most three,
/// nearest first. A candidate that ends in "/" + `name` is the likely full path
/// of an abbreviated one; among equally distant ones, those that start with
/// `name` come first.
template <typename Range>
std::vector<std::string> nearestNames(std::string_view name,
                                      const Range &candidates) {
  constexpr size_t kMostNames = 3;
  const size_t limit =
      name.size() < 4 ? 1 : std::max<size_t>(2, name.size() / 3);
  std::vector<std::tuple<size_t, bool, std::string>> near;
  for (const auto &entry : candidates) {
    std::string_view candidate(entry.data(), entry.size());
    if (candidate.empty())
      continue;
    bool isEnd = candidate.size() > name.size() && candidate.ends_with(name) &&
                 candidate[candidate.size() - name.size() - 1] == '/';
    size_t away = isEnd ? 0 : editDistance(name, candidate, limit);
    if (away <= limit)
      near.emplace_back(away, !candidate.starts_with(name), candidate);
  }
  std::sort(near.begin(), near.end());
  near.erase(std::unique(near.begin(), near.end()), near.end());
  std::vector<std::string> names;
  for (auto &[away, isOther, candidate] : near)
    if (names.size() < kMostNames && away <= std::get<0>(near.front()) + 1)
      names.push_back(std::move(candidate));
  return names;
}

/// Formats "; did you mean 'a', 'b' or 'c'"; empty without names.
inline std::string didYouMean(const std::vector<std::string> &names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i)
    text += (i == 0                  ? "; did you mean '"
             : i + 1 == names.size() ? " or '"
                                     : ", '") +
            names[i] + "'";
  return text;
}

/// The same for the candidates that are similar to `name`.
template <typename Range>
std::string didYouMean(std::string_view name, const Range &candidates) {
  return didYouMean(nearestNames(name, candidates));
}

} // namespace mpc

#endif // MPC_RUNTIME_SUGGESTIONS_H
