//===- SourceOpTests.cpp - framework ops recorded by exporters ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SourceOp.h"

#include <gtest/gtest.h>

using namespace mpc::onnx;

TEST(SourceOp, FromFxNode) {
  SourceOp source = parseFxNode(
      "%linear_3 : [num_users=1] = call_function[target=torch.ops.aten.linear."
      "default](args = (%view_3, %w), kwargs = {})");
  EXPECT_EQ(source.op, "linear");
  EXPECT_EQ(source.name, "linear_3");
}

TEST(SourceOp, OverloadsAndPrivateNames) {
  EXPECT_EQ(parseFxNode("%a : [] = call_function[target=torch.ops.aten."
                        "_to_copy.default](args = ())")
                .op,
            "_to_copy");
  EXPECT_EQ(parseFxNode("%a : [] = call_function[target=torch.ops.aten.conv2d."
                        "padding](args = ())")
                .op,
            "conv2d");
}

TEST(SourceOp, OtherTextNamesNoOp) {
  EXPECT_EQ(parseFxNode("").op, "");
  EXPECT_EQ(parseFxNode("%a : [] = placeholder[target=x]").op, "");
  EXPECT_EQ(parseFxNode("a : [] = call_function[target=torch.ops.aten.add]").op,
            "");
  EXPECT_EQ(parseFxNode("%a : [] = call_function[target=torch.ops.aten.").op,
            "");
  EXPECT_EQ(
      parseFxNode("%g : [] = call_function[target=operator.getitem](args)").op,
      "");
}
