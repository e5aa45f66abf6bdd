//===- SuggestionsTests.cpp - similar names for misspelled ones -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Runtime/Suggestions.h"

#include "gtest/gtest.h"

using namespace mpc;

using Names = std::vector<std::string>;

TEST(Suggestions, EqualDistancesPreferAContinuation) {
  EXPECT_EQ(nearestNames("con", Names{"cos", "conv", "log"}),
            (Names{"conv", "cos"}));
}

TEST(Suggestions, ADroppedOrSwappedLetterIsFound) {
  Names commands = {"run", "check", "compile", "explain", "train"};
  EXPECT_EQ(nearestNames("expalin", commands), Names{"explain"});
  EXPECT_EQ(nearestNames("chek", commands), Names{"check"});
  EXPECT_EQ(nearestNames("nonsense", commands), Names{});
}

TEST(Suggestions, AnEndOfAPathNamesThePath) {
  EXPECT_EQ(nearestNames("dense", Names{"encoder/dense", "head"}),
            Names{"encoder/dense"});
}

TEST(Suggestions, TheSentenceListsThreeNamesAtMost) {
  EXPECT_EQ(didYouMean("fc", Names{"fc1", "fc2", "fc3", "fc4"}),
            "; did you mean 'fc1', 'fc2' or 'fc3'");
  EXPECT_EQ(didYouMean("fc", Names{}), "");
}
