//===- StatusTests.cpp - tests of Status and Result -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Runtime/Status.h"

#include <gtest/gtest.h>

using namespace mpc;

TEST(Status, SuccessHasNoText) {
  Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.code(), StatusCode::Ok);
  EXPECT_EQ(status.text(), "");
  EXPECT_TRUE(status.notes().empty());
  EXPECT_EQ(status.toString(), "ok");
}

TEST(Status, FailureNamesPlaceAndReason) {
  Status status(StatusCode::NotFound, "a.npz", "cannot be opened");
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.toString(), "a.npz: cannot be opened");
  EXPECT_STREQ(statusCodeName(status.code()), "not_found");
}

TEST(Status, NotesDoNotChangeTheOriginal) {
  Status first(StatusCode::Internal, "", "one");
  Status second = first.withNote("two");
  EXPECT_TRUE(first.notes().empty());
  ASSERT_EQ(second.notes().size(), 1u);
  EXPECT_EQ(second.notes()[0], "two");
  EXPECT_EQ(second.toString(), "one");
  EXPECT_TRUE(Status().withNote("x").ok());
}

TEST(Result, HoldsValueOrFailure) {
  Result<int> good = 7;
  ASSERT_TRUE(good.ok());
  EXPECT_EQ(*good, 7);
  Result<int> bad = Status(StatusCode::InvalidArgument, "x", "y");
  EXPECT_FALSE(bad.ok());
  EXPECT_EQ(bad.status().where(), "x");
}
