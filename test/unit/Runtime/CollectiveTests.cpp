//===- CollectiveTests.cpp - kinds of collectives among ranks -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Communication/MessageProgram.h"

#include <gtest/gtest.h>

#include <functional>

using namespace mpc;
using namespace mpc::testing;

namespace {

using Kind = Collective::Kind;
using Reduction = Collective::Reduction;

/// Diagnostic of validate() for a message of two tensors after `change`.
std::string refusal(const std::function<void(Program &)> &change,
                    Collective how = {.ranks = 4}) {
  Program program = messageProgram(how, {8, 6});
  change(program);
  Status status = validate(program, /*needsCode=*/true);
  return status.ok() ? "" : status.text();
}
std::string refusalOf(const Collective &how) {
  Program program = messageProgram({.ranks = 4}, {8, 6});
  program.launches[0].collective = how;
  return validate(program, true).text();
}

} // namespace

TEST(Collective, NamesItself) {
  EXPECT_EQ((Collective{Kind::AllReduce, Reduction::Mean, ElementType::F16,
                        ElementType::F32, 4})
                .toString(),
            "all_reduce of f16 by mean in f32 over 4 ranks");
  EXPECT_EQ((Collective{Kind::Broadcast, Reduction::Sum, ElementType::I8,
                        ElementType::F32, 1})
                .toString(),
            "broadcast of i8 from rank 0 over 1 rank");
}

TEST(Collective, ValidateRefusesWhatDoesNotExist) {
  EXPECT_EQ(refusal([](Program &) {}), "");
  Collective how;
  how.ranks = 0;
  EXPECT_NE(refusalOf(how).find("an invalid number of ranks"),
            std::string::npos);
  how.ranks = INT64_MAX;
  EXPECT_NE(refusalOf(how), "");
  how.ranks = 4;
  how.kind = Kind::Broadcast;
  for (int64_t root : {-1, 4}) {
    how.root = root;
    EXPECT_NE(refusalOf(how).find("comes from rank"), std::string::npos);
  }
  how.root = 3;
  EXPECT_EQ(refusalOf(how), "");
  how = {Kind::AllReduce, Reduction::Sum, ElementType::F32, ElementType::BF16,
         4};
  EXPECT_NE(refusalOf(how).find("has no sums of f32 in bf16"),
            std::string::npos);
  how.element = how.accumulate = ElementType::UI32;
  EXPECT_NE(refusalOf(how).find("has no sums of ui32 in ui32"),
            std::string::npos);
  how.element = how.accumulate = ElementType::I32;
  EXPECT_EQ(refusalOf(how), "");
  how.reduction = Reduction::Mean;
  EXPECT_NE(refusalOf(how).find("has no mean of integers"), std::string::npos);
}

TEST(Collective, ValidateRefusesBuffersOfOtherSizes) {
  auto bytes = [](size_t buffer, int64_t size) {
    return [=](Program &program) {
      program.launches[0].buffers[buffer].bytes = size;
    };
  };
  EXPECT_EQ(
      refusal(bytes(2, 28)),
      "buffer 2 has 7 elements, which collective all_reduce of f32 by sum "
      "in f32 over 4 ranks does not make of 8");
  EXPECT_NE(refusal(bytes(0, 30)).find("ends inside of an element"),
            std::string::npos);
  for (Kind kind : {Kind::ReduceScatter, Kind::AllGather, Kind::Broadcast}) {
    Collective how{.kind = kind, .ranks = 4};
    EXPECT_EQ(refusal([](Program &) {}, how), "");
    EXPECT_NE(refusal(bytes(3, 4), how).find("does not make of 6"),
              std::string::npos);
  }
  auto change = [](auto edit) {
    return refusal([=](Program &program) { edit(program.launches[0]); });
  };
  EXPECT_NE(change([](Launch &l) {
              l.buffers.pop_back();
            }).find("takes as many inputs as outputs"),
            std::string::npos);
  EXPECT_NE(change([](Launch &l) { l.buffers.clear(); }), "");
  EXPECT_NE(change([](Launch &l) {
              l.buffers[2].written = false;
            }).find("buffer 2 is read"),
            std::string::npos);
  EXPECT_NE(change([](Launch &l) { l.gemm.emplace(); }), "");
}

TEST(Collective, AProgramHasOneNumberOfRanks) {
  EXPECT_EQ(refusal([](Program &program) {
              program.launches.push_back(program.launches[0]);
              program.launches[1].collective->kind = Kind::Broadcast;
              program.launches[1].collective->ranks = 2;
            }),
            "is for 2 ranks, an earlier collective for 4");
}
