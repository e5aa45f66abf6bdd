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

TEST(SamplerTest, KeepsTokensWithAShareOfTheLargestProbability) {
  // At temperature 1 the shares are 0.14, 1, 0.37, 1, 0.05 and 0.22.
  EXPECT_EQ(draw({.temperature = 1, .minP = 1}, 1000).size(), 2u);
  EXPECT_EQ(draw({.temperature = 1, .minP = 0.3}, 1000).size(), 3u);
  EXPECT_EQ(draw({.temperature = 1, .minP = 0.2}, 1000).size(), 4u);
  EXPECT_EQ(draw({.temperature = 1, .topK = 3, .minP = 0.2}, 1000).size(), 3u);
}

TEST(SamplerTest, PenalizesTokensOfTheText) {
  Sampler sampler = *Sampler::create({.repetitionPenalty = 1.5});
  constexpr std::array<int64_t, 2> kPrompt = {1, -7};
  sampler.observe(kPrompt);
  std::array<int64_t, 3> greedy;
  for (int64_t &token : greedy)
    token = *sampler.next(kLogits);
  // 2 / 1.5 of tokens 1 and 3 exceeds the logit 1 of token 2.
  EXPECT_EQ(greedy, (std::array<int64_t, 3>{3, 1, 1}));
  // Negative logits are multiplied.
  Sampler negative = *Sampler::create({.repetitionPenalty = 3});
  constexpr std::array<float, 2> kNegative = {-1, -2};
  EXPECT_EQ(*negative.next(kNegative), 0);
  EXPECT_EQ(*negative.next(kNegative), 1);
  EXPECT_EQ(*negative.next(kNegative), 0);
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
  EXPECT_FALSE(Sampler::create({.minP = -0.1}).ok());
  EXPECT_FALSE(Sampler::create({.minP = 1.5}).ok());
  EXPECT_FALSE(Sampler::create({.repetitionPenalty = 0}).ok());
  EXPECT_FALSE(Sampler::create({.repetitionPenalty = INFINITY}).ok());
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
