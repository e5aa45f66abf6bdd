//===- WeightChoice.cpp - choices as remarks ------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Training/WeightChoice.h"

#include <utility>

using namespace mpc;

static constexpr std::pair<WeightChoice::Use, const char *> kWords[] = {
    {WeightChoice::Use::Trained, " is trained: "},
    {WeightChoice::Use::Statistics, " is a running statistic: "},
    {WeightChoice::Use::Frozen, " is not trained: "},
};

static constexpr const char *kTranspose = "it is the transpose of '";

std::string WeightChoice::transposeOf(const std::string &original) {
  return kTranspose + original + "'";
}

std::string WeightChoice::original() const {
  std::string before = kTranspose;
  if (use != Use::Trained || !reason.starts_with(before))
    return {};
  return reason.substr(before.size(), reason.size() - before.size() - 1);
}

std::string WeightChoice::toText() const {
  for (const auto &[kind, words] : kWords)
    if (kind == use)
      return type + words + reason;
  return {};
}

std::optional<WeightChoice> WeightChoice::parse(const std::string &name,
                                                const std::string &text) {
  for (const auto &[kind, words] : kWords) {
    size_t at = text.find(words);
    if (at != std::string::npos)
      return WeightChoice{name, text.substr(0, at), kind,
                          text.substr(at + std::string(words).size())};
  }
  return std::nullopt;
}
