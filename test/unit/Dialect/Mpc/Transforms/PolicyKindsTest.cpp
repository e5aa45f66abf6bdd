//===- PolicyKindsTest.cpp - every op is classified -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcCommunicationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"
#include "mpc/Dialect/Mpc/IR/MpcRecurrentOps.h"
#include "mpc/Policy/Policy.h"

#include "mlir/IR/MLIRContext.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace mpc;

namespace {

TEST(PolicyKindsTest, EveryOpIsInAListOfMixedFloat16) {
  MLIRContext context;
  context.loadDialect<MpcDialect>();
  llvm::Expected<Policy> policy = Policy::load("mixed_float16");
  ASSERT_TRUE(bool(policy));
  int ops = 0;
  for (RegisteredOperationName name :
       context.getRegisteredOperationsByDialect("mpc")) {
    if (!name.hasInterface<PrecisionOpInterface>() ||
        name.getStringRef() == ConstantOp::getOperationName() ||
        // Created after the stage that applies policies.
        name.hasInterface<CollectiveOpInterface>() ||
        name.getStringRef() == DequantizeOp::getOperationName() ||
        name.getStringRef() == RecurrenceOp::getOperationName())
      continue;
    ++ops;
    EXPECT_EQ(policy->getClasses().count(name.stripDialect().str()), 1u)
        << name.stripDialect().str() << " is in no list";
  }
  EXPECT_GT(ops, 80);
}

TEST(PolicyKindsTest, LossesAndUpdatesAreFloat32UnderEveryPolicy) {
  for (StringRef name : {"mixed_float16", "mixed_bfloat16", "float16",
                         "bfloat16", "tf32", "float32"}) {
    llvm::Expected<Policy> policy = Policy::load(name);
    ASSERT_TRUE(bool(policy)) << name.str();
    for (StringRef kind :
         {"softmax_cross_entropy", "sigmoid_cross_entropy",
          "mean_squared_error", "mean_absolute_error", "huber", "gradient_seed",
          "optimizer.sgd", "optimizer.adam", "optimizer.rmsprop",
          "optimizer.adagrad", "global_norm"})
      EXPECT_EQ(policy->classOf(kind), PrecisionClass::High)
          << kind.str() << " under " << name.str();
  }
}

TEST(PolicyKindsTest, SystemsKnowTheOpsThatTheyAlsoHave) {
  for (StringRef name : {"torch_autocast_cuda_float16",
                         "torch_autocast_cpu_bfloat16", "tf_amp_gpu_float16"}) {
    llvm::Expected<Policy> policy = Policy::load(name);
    ASSERT_TRUE(bool(policy)) << name.str();
    EXPECT_EQ(policy->classOf("softmax_cross_entropy"), PrecisionClass::High)
        << name.str();
    EXPECT_NE(policy->systemOpOf("conv_filter_gradient"), "") << name.str();
  }
}

} // namespace
