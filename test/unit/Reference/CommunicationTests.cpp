//===- CommunicationTests.cpp - collectives among ranks -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ReferenceTest.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using namespace mpc::reference;

namespace {

class CommunicationTest : public ReferenceTest {
protected:
  /// Runs `@f` on ranks; empty after a failure.
  SmallVector<SmallVector<Tensor>>
  runRanks(StringRef text, ArrayRef<SmallVector<Tensor>> arguments,
           Rounding rounding = Rounding::Declared) {
    messages.clear();
    module = parseSourceString<ModuleOp>(text, &context);
    if (!module) {
      ADD_FAILURE() << messages;
      return {};
    }
    InterpretOptions options;
    options.rounding = rounding;
    auto results = interpretRanks(module->lookupSymbol<func::FuncOp>("f"),
                                  arguments, options);
    return succeeded(results) ? std::move(*results)
                              : SmallVector<SmallVector<Tensor>>();
  }
};

TEST_F(CommunicationTest, AllReduceAddsInTheOrderOfRanksInTheAccumulateType) {
  StringRef text = R"(
    func.func @f(%a: tensor<2xbf16>) -> tensor<2xbf16> {
      %0 = mpc.all_reduce %a reduction(sum) ranks(3) accumulate(f32) : (tensor<2xbf16>) -> tensor<2xbf16>
      return %0 : tensor<2xbf16>
    })";
  auto results = runRanks(text, {{floats("tensor<2xbf16>", {256, 1})},
                                 {floats("tensor<2xbf16>", {1, 2})},
                                 {floats("tensor<2xbf16>", {1, 4})}});
  ASSERT_EQ(results.size(), 3u) << messages;
  for (const SmallVector<Tensor> &own : results)
    // In bf16 each 1 would be lost; the f32 sum is 258, which bf16 represents.
    expectNear(own[0], {258, 7}, 0);
  // With bf16 accumulation, 256 + 1 is 256.
  std::string narrow = text.str();
  narrow.erase(narrow.find(" accumulate(f32)"), 16);
  results = runRanks(narrow, {{floats("tensor<2xbf16>", {256, 1})},
                              {floats("tensor<2xbf16>", {1, 2})},
                              {floats("tensor<2xbf16>", {1, 4})}});
  ASSERT_EQ(results.size(), 3u) << messages;
  expectNear(results[0][0], {256, 7}, 0);
}

TEST_F(CommunicationTest, EveryReduction) {
  for (auto [name, expected] :
       {std::pair<StringRef, std::vector<double>>{"sum", {4, -2, NAN}},
        {"mean", {2, -1, NAN}},
        {"min", {1, -7, NAN}},
        {"max", {3, 5, NAN}}}) {
    std::string text = ("func.func @f(%a: tensor<3xf32>) -> tensor<3xf32> {\n"
                        "  %0 = mpc.all_reduce %a reduction(" +
                        name +
                        ") ranks(2) : (tensor<3xf32>) -> tensor<3xf32>\n"
                        "  return %0 : tensor<3xf32>\n}")
                           .str();
    auto results = runRanks(text, {{floats("tensor<3xf32>", {1, 5, 0})},
                                   {floats("tensor<3xf32>", {3, -7, NAN})}});
    ASSERT_EQ(results.size(), 2u) << messages;
    for (const SmallVector<Tensor> &own : results) {
      EXPECT_EQ(own[0].floats()[0], expected[0]) << name.str();
      EXPECT_EQ(own[0].floats()[1], expected[1]) << name.str();
      EXPECT_TRUE(std::isnan(own[0].floats()[2])) << name.str();
    }
  }
}

TEST_F(CommunicationTest, ReduceScatterThenAllGatherIsAllReduce) {
  StringRef text = R"(
    func.func @f(%a: tensor<7xi32>) -> (tensor<3xi32>, tensor<3x3xi32>, tensor<7xi32>) {
      %0 = mpc.reduce_scatter %a reduction(sum) ranks(3) : (tensor<7xi32>) -> tensor<3xi32>
      %1 = mpc.all_gather %0 ranks(3) : (tensor<3xi32>) -> tensor<3x3xi32>
      %2 = mpc.all_reduce %a reduction(sum) ranks(3) : (tensor<7xi32>) -> tensor<7xi32>
      return %0, %1, %2 : tensor<3xi32>, tensor<3x3xi32>, tensor<7xi32>
    })";
  SmallVector<SmallVector<Tensor>> arguments;
  for (int64_t rank = 0; rank < 3; ++rank)
    arguments.push_back({ints("tensor<7xi32>", {rank, 1, 2, 3, 4, 5, 6})});
  auto results = runRanks(text, arguments);
  ASSERT_EQ(results.size(), 3u) << messages;
  std::vector<int64_t> whole = {3, 3, 6, 9, 12, 15, 18};
  for (size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ArrayRef<int64_t>(results[rank][2].ints()),
              ArrayRef<int64_t>(whole));
    for (size_t i = 0; i < 3; ++i)
      EXPECT_EQ(results[rank][0].ints()[i],
                3 * rank + i < 7 ? whole[3 * rank + i] : 0);
    EXPECT_EQ(ArrayRef<int64_t>(results[rank][1].ints()).take_front(7),
              ArrayRef<int64_t>(whole));
  }
}

TEST_F(CommunicationTest, BroadcastInsideAFusion) {
  StringRef text = R"(
    func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> {
      %0 = mpc.fusion kind(library) name("b") (%x = %a : tensor<2xf32>) -> tensor<2xf32> {
        %1 = mpc.collective_broadcast %x root(1) ranks(2) : (tensor<2xf32>) -> tensor<2xf32>
        mpc.yield %1 : tensor<2xf32>
      }
      return %0 : tensor<2xf32>
    })";
  auto results = runRanks(text, {{floats("tensor<2xf32>", {1, 2})},
                                 {floats("tensor<2xf32>", {3, 4})}});
  ASSERT_EQ(results.size(), 2u) << messages;
  expectNear(results[0][0], {3, 4}, 0);
  expectNear(results[1][0], {3, 4}, 0);
}

TEST_F(CommunicationTest, OtherRanksThanTheOpHasAreSaid) {
  StringRef text = R"(
    func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> {
      %0 = mpc.all_reduce %a reduction(sum) ranks(2) : (tensor<2xf32>) -> tensor<2xf32>
      return %0 : tensor<2xf32>
    })";
  EXPECT_TRUE(runRanks(text, {{floats("tensor<2xf32>", {1, 2})}}).empty());
  EXPECT_NE(messages.find("is of 2 ranks, 1 are executed"), std::string::npos)
      << messages;
}

} // namespace
