//===- SamplerTests.cpp - tests of token sampling -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/JIT/Sampler.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

using namespace mpc;

namespace {

constexpr std::array<float, 6> kLogits = {0, 2, 1, 2, -1, 0.5f};

/// Number of times that each token was sampled.
std::map<int64_t, int> draw(const SamplingOptions &options, int count) {
  Sampler sampler = *Sampler::create(options);
  std::map<int64_t, int> drawn;
  for (int i = 0; i < count; ++i)
    ++drawn[*sampler.next(kLogits)];
  return drawn;
}

TEST(SamplerTest, GreedyTakesTheFirstOfTheLargest) {
  EXPECT_EQ(draw({}, 3), (std::map<int64_t, int>{{1, 3}}));
}

TEST(SamplerTest, SamplesByProbability) {
  constexpr int kCount = 20000;
  for (double temperature : {0.5, 1.0, 3.0}) {
    std::map<int64_t, int> drawn =
        draw({.temperature = temperature, .seed = 4}, kCount);
    double sum = 0;
    for (float logit : kLogits)
      sum += std::exp(logit / temperature);
    for (size_t i = 0; i < kLogits.size(); ++i) {
      double p = std::exp(kLogits[i] / temperature) / sum;
      // Five standard deviations of a binomial distribution.
      EXPECT_NEAR(drawn[i], kCount * p, 5 * std::sqrt(kCount * p * (1 - p)))
          << temperature << ' ' << i;
    }
  }
}

TEST(SamplerTest, KeepsTheMostLikely) {
  for (auto [token, times] : draw({.temperature = 9, .topK = 3}, 1000))
    EXPECT_TRUE(token == 1 || token == 2 || token == 3) << token;
  EXPECT_EQ(draw({.temperature = 9, .topK = 3}, 1000).size(), 3u);
  // Of equal tokens the first one ranks as more likely.
  EXPECT_EQ(draw({.temperature = 9, .topK = 1}, 10).begin()->first, 1);
  // At temperature 1 the two largest have 0.72 of the probability.
  EXPECT_EQ(draw({.temperature = 1, .topP = 0.6}, 1000).size(), 2u);
  EXPECT_EQ(draw({.temperature = 1, .topP = 0.3}, 1000).size(), 1u);
  EXPECT_EQ(draw({.temperature = 1, .topP = 0.75}, 1000).size(), 3u);
  EXPECT_EQ(draw({.temperature = 1, .topK = 2, .topP = 0.6}, 1000).size(), 2u);
}

TEST(SamplerTest, EqualSeedsSampleEqually) {
  auto tokens = [](uint64_t seed) {
    Sampler sampler = *Sampler::create({.temperature = 2, .seed = seed});
    std::vector<int64_t> result;
    for (int i = 0; i < 50; ++i)
      result.push_back(*sampler.next(kLogits));
    return result;
  };
  EXPECT_EQ(tokens(5), tokens(5));
  EXPECT_NE(tokens(5), tokens(6));
}

TEST(SamplerTest, RefusesWhatMeansNothing) {
  EXPECT_FALSE(Sampler::create({.temperature = -1}).ok());
  EXPECT_FALSE(Sampler::create({.temperature = NAN}).ok());
  EXPECT_FALSE(Sampler::create({.topK = -1}).ok());
  EXPECT_FALSE(Sampler::create({.topP = 0}).ok());
  EXPECT_FALSE(Sampler::create({.topP = 1.5}).ok());
  Sampler sampler = *Sampler::create({.temperature = 1});
  EXPECT_FALSE(sampler.next({}).ok());
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_NE(sampler.next(std::array{1.0f, NAN})
                .status()
                .text()
                .find("logit of token 1"),
            std::string::npos);
  EXPECT_EQ(*sampler.next(std::array{1.0f, kInfinity, kInfinity}), 1);
  EXPECT_EQ(*sampler.next(std::array{-kInfinity, 1.0f}), 1);
}

} // namespace
